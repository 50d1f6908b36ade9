/*
 * peer.h - what the programs of this folder share: settings, clocks, and output lines.
 *
 * Each program measures one peer by the method of tow-perf and tow-coll, and prints the same lines:
 *
 *	PEER PATH OP BYTES METRIC VALUE
 *
 * PEER and PATH are names from the environment. A latency is half of a round trip. `bw` uses one
 * buffer for all messages; `bw_spread` walks over PEER_SPAN. CPU time is that of all ranks.
 *
 * An error in a setting is printed with its name, and ends the program with status 2. In any case
 * an alarm ends a program after PEER_LIMIT_S.
 */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "bench/common/sizes.h"

#define PEER_SPAN       ((uint64_t)64 << 20)
#define PEER_WINDOW     64u
#define PEER_RATE_BYTES 8u
#define PEER_LIMIT_S    600u

enum peer_coll {
	PEER_ALLREDUCE,
	PEER_ALLGATHER,
	PEER_REDUCE_SCATTER,
	PEER_ALLTOALL,
	PEER_BCAST,
	PEER_UNROOTED, /* those above, which Gloo's program has */
	PEER_REDUCE = PEER_UNROOTED,
	PEER_GATHER,
	PEER_SCATTER,
	PEER_COLLS
};

/* Bits of operations between two ranks. */
enum peer_op { PEER_LAT = 1, PEER_BW = 2, PEER_BW_SPREAD = 4, PEER_RATE = 8 };

struct peer_settings {
	const char *peer, *path;
	unsigned iters;        /* round trips of a latency */
	uint64_t volume_bytes; /* bytes of a bandwidth */
	double seconds;        /* time of a collective */
	struct bench_sizes lat, bw, coll[PEER_COLLS];
	unsigned ops;   /* bits of peer_op */
	unsigned colls; /* bits by peer_coll */
};

extern struct peer_settings peer_settings;
extern const char *const peer_coll_names[PEER_COLLS];

/*
 * Reads the environment and the names of operations (none: all), and pins the process to the CPU of
 * its rank. The program has the first `colls` collectives.
 */
void peer_begin(int rank, int count, char *const *ops, unsigned colls);

double peer_now_s(void);
double peer_cpu_s(void); /* of all threads of this process */

/* Mapped memory in which each byte is 1. */
void *peer_memory(uint64_t bytes);
void *peer_walk_memory(void); /* PEER_SPAN, or the largest message of the settings */

unsigned peer_iters(uint64_t bytes);  /* round trips of that size */
unsigned peer_window(uint64_t bytes); /* messages in flight */
unsigned peer_windows(uint64_t bytes, unsigned window, unsigned most);
uint64_t peer_messages(uint64_t bytes, uint64_t most); /* in a stream without windows */
unsigned peer_slots(uint64_t bytes, bool spread);      /* buffers that a stream walks over */

/* The number of calls of a collective that fit the time of the settings. */
unsigned peer_calls(double seconds_each);

void peer_print(const char *op, uint64_t bytes, const char *metric, double value);
void peer_print_latency(uint64_t bytes, double *seconds, unsigned count); /* sorts them */
void peer_print_stream(enum peer_op op, uint64_t bytes, uint64_t messages, double seconds,
		       double cpu_s);
void peer_print_coll(enum peer_coll coll, int ranks, uint64_t bytes, unsigned calls,
		     double slowest_s, double cpu_s);

/* Prints a line on stderr and exits: 1 for a failure, 2 for a wrong request. */
__attribute__((format(printf, 2, 3), noreturn)) void peer_end(int status, const char *format, ...);

#ifdef __cplusplus
}
#endif

#endif
