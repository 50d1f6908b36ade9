/*
 * perf.h - what the parts of tow-perf share.
 *
 *   tow_perf.c      the two sides: forked, threads of one process, or on two hosts
 *   perf_options.c  the command line and the BENCH_ environment
 *   perf_side.c     one side: a runtime, a peer, blocking messages with a time limit
 *   perf_run.c      the measured loops, driven by rank 0
 *   perf_interval.c rates while a measurement runs
 *   perf_report.c   tables, plain lines, JSON
 *
 * Rank 0 sends, times and prints; rank 1 follows its orders. Functions return 0, or an exit code of
 * the program (PERF_*) after printing the error on stderr. Callers return that code unchanged.
 */
#ifndef BENCH_PERF_H
#define BENCH_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <towline/towline.h>

#include "bench/common/sizes.h"

#define PERF_MISMATCH 1 /* payload arrived wrong */
#define PERF_FAILED   2 /* usage, or a call failed */

#define PERF_WINDOW_MAX 1024
#define PERF_SPAN       (UINT64_C(64) << 20) /* larger than the caches */

enum perf_op { PERF_LAT, PERF_VIEW, PERF_BW, PERF_BW_SPREAD, PERF_RATE, PERF_OP_COUNT };

/* The names of `op` in the output, and in --op. */
extern const char *const perf_op_names[PERF_OP_COUNT];

enum perf_format { PERF_TABLE, PERF_PLAIN, PERF_JSON };

struct perf_options {
	const char *lane;              /* the part before "://", or "ofi:PROVIDER" */
	bool loop;                     /* lane loop: both sides in one process */
	const char *listen;            /* address, or NULL */
	const char *connect;           /* address, or NULL */
	bool serve;                    /* listens on all interfaces, for one client after another */
	bool one;                      /* ends after one client */
	uint64_t port;                 /* of serve, and of an address without a port */
	char address[TOW_ADDRESS_MAX]; /* from which listen or connect was made */
	double interval;               /* seconds between lines; 0: none */
	bool ops[PERF_OP_COUNT];
	struct bench_sizes lat, bw;
	uint64_t lat_iters; /* round trips of sizes up to 64 KiB */
	uint64_t iters;     /* round trips or windows of all measurements; 0: by the method */
	double seconds;     /* time of each measurement; 0: by the method */
	uint64_t volume;    /* bytes of a bandwidth measurement */
	uint64_t window;    /* 0: by the method */
	bool pin, stats;
	bool tests;   /* operations are polled with tow_op_test, not waited for */
	bool at_once; /* a message may complete without an operation */
	bool outside; /* the payload lies in memory that is not of the pool */
	enum perf_format format;
	const char *path, *peer; /* names in the output */
	uint64_t timeout_ns;     /* of every wait */
};

/* One measurement: a pure function of the options. */
struct perf_case {
	enum perf_op op;
	uint64_t bytes;
	uint64_t window; /* messages in flight */
	uint64_t slots;  /* buffers that the messages walk over */
	uint64_t warm, rounds;
};

/* The result of one interval of a measurement. */
struct perf_interval {
	double from_s, to_s; /* since the start of the timed phase */
	uint64_t messages;
	double mbps, msgps;
	double mean_us, max_us; /* of the waits given to perf_interval_add; 0: none */
};

/* The intervals of the running measurement. */
struct perf_intervals {
	bool on;
	enum perf_op op;
	uint64_t bytes, messages, waits;
	double start_s, from_s, wait_sum_s, wait_max_s;
	struct perf_interval *rows;
	size_t count;
};

struct perf_result {
	enum perf_op op;
	uint64_t bytes;
	double p50_us, p99_us, avg_us; /* lat, view */
	double mbps, cpu_s_per_gib;    /* bw, bw_spread */
	double mmsgps;                 /* rate */
	const struct perf_intervals *intervals;
};

struct perf_side {
	const struct perf_options *options;
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
	int rank;
	uint8_t *area; /* the buffers of one measurement, in the pool */
	struct tow_op *view;
	bool lends; /* sent buffers stay unchanged while the other side views them */
	struct tow_op *ops[PERF_WINDOW_MAX];
	struct perf_intervals intervals;
};

/* The distance between buffers, so that the pattern's words are aligned. */
static inline uint64_t perf_stride(uint64_t bytes)
{
	return (bytes + 7) & ~UINT64_C(7);
}

/* Whether the operation measures half of a round trip, not a stream. */
static inline bool perf_is_latency(uint64_t op)
{
	return op == PERF_LAT || op == PERF_VIEW;
}

/* Returns 0, PERF_FAILED, or -1 when --help was printed. */
int perf_options_parse(struct perf_options *options, int argc, char **argv);
struct perf_case perf_plan(const struct perf_options *options, enum perf_op op, uint64_t bytes);
/*
 * The sizes of an operation, and the bytes of pool that the largest measurement takes on one side.
 */
const struct bench_sizes *perf_op_sizes(const struct perf_options *options, enum perf_op op);
uint64_t perf_need(const struct perf_options *options);

double perf_now(void);
double perf_cpu(void);
void perf_pin(int rank);

/* Prints `what` with the library's message, and returns PERF_FAILED. */
int perf_failed(const struct perf_side *side, const char *what, int status);
int perf_side_open(struct perf_side *side, const char *address);
/* Waits for a client, for timeout_ns at most. */
int perf_side_accept(struct perf_side *side, uint64_t timeout_ns);
/* Closes the peer, so that another can be accepted. */
void perf_side_part(struct perf_side *side);
int perf_side_connect(struct perf_side *side, const char *address);
void perf_side_close(struct perf_side *side);
/* Start a message as the options say. *op_out is NULL when it is already complete. */
int perf_send_start(struct perf_side *side, const void *data, uint64_t bytes, uint64_t tag,
		    struct tow_op **op_out);
int perf_recv_start(struct perf_side *side, void *data, uint64_t bytes, uint64_t tag,
		    struct tow_op **op_out);
int perf_send(struct perf_side *side, const void *data, uint64_t bytes, uint64_t tag);
int perf_recv(struct perf_side *side, void *data, uint64_t bytes, uint64_t tag);
/* Receives a view. *data_out is its memory, valid until the next view or perf_view_drop. */
int perf_view(struct perf_side *side, uint64_t bytes, uint64_t tag, const uint8_t **data_out);
void perf_view_drop(struct perf_side *side);
/* Waits for the first `count` operations of side->ops and releases them, also after an error. */
int perf_wait_all(struct perf_side *side, uint64_t count);
/* The same for operation i. */
int perf_wait_one(struct perf_side *side, uint64_t i);

/*
 * The intervals of a measurement. open: it is about to run. close: frees its rows. start: starts
 * its clock. add: so many messages are complete at `now`, after a wait of wait_s; negative: not
 * timed. end: ends the last interval.
 */
void perf_interval_open(struct perf_side *side, enum perf_op op, uint64_t bytes);
void perf_interval_close(struct perf_side *side);
void perf_interval_start(struct perf_side *side);
void perf_interval_add(struct perf_side *side, uint64_t messages, double wait_s, double now);
void perf_interval_end(struct perf_side *side);

int perf_lead(struct perf_side *side);   /* rank 0: all measurements */
int perf_follow(struct perf_side *side); /* rank 1: until rank 0 ends */

void perf_report_begin(const struct perf_options *options);
void perf_report_interval(const struct perf_options *options, const struct perf_intervals *of,
			  const struct perf_interval *row);
void perf_report_result(const struct perf_options *options, const struct perf_result *result);
void perf_report_end(const struct perf_options *options, bool complete);
int perf_report_stats(const struct perf_side *side);

#endif
