/*
 * coll_ranks.h - ranks that are processes: a batch of cases among up to eight of them, over shared
 * memory, tcp, both as tow:// chooses, or a mixture in which some ranks have tcp alone.
 */
#ifndef TWT_COLL_RANKS_H
#define TWT_COLL_RANKS_H

#include "coll_batch.h"
#include "store_port.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TWT_RANKS_MAX     8u
#define TWT_RANKS_RESULTS 512u
#define TWT_RANKS_WAIT_NS 60000000000ull
#define TWT_RANKS_ALARM_S 100u

/* X(name, address; NULL: the library's choice) */
#define TWT_LANES(X)                                                                               \
	X(SHM, "shm://*")                                                                          \
	X(TCP, "tcp://127.0.0.1:0")                                                                \
	X(TOW, NULL)                                                                               \
	X(MIXED, NULL)

enum twt_lanes {
#define TWT_LANES_ENUM(name, address) TWT_LANES_##name,
	TWT_LANES(TWT_LANES_ENUM)
#undef TWT_LANES_ENUM
		TWT_LANES_COUNT
};

struct twt_ranks_result {
	uint64_t seed, digest;
	bool all; /* every rank has the same */
};

/* Seen by all of them and by who started them. */
struct twt_ranks_shared {
	struct {
		uint32_t count;
		struct twt_ranks_result results[TWT_RANKS_RESULTS];
	} ranks[TWT_RANKS_MAX];
};

struct twt_ranks {
	uint64_t seed, random;
	uint32_t n, rank, colors, windows;
	enum twt_lanes lanes;
	bool only_tcp[TWT_RANKS_MAX];
	struct tow_options options;
	char store[32];
	struct tow_group *world, *part;
	struct twt_coll_batch batch;
	struct twt_ranks_shared *shared;
};

void twt_ranks_knobs(struct twt_ranks *ranks);

/* All of a batch by its seed; lanes may be given by hand. */
void twt_ranks_init(struct twt_ranks *ranks, uint64_t seed, struct twt_ranks_shared *shared);

const char *twt_ranks_lanes(enum twt_lanes lanes);

/* One that fails says so and ends its process. */
void twt_ranks_ok(const struct twt_ranks *ranks, const char *what, int status);

void twt_ranks_result(struct twt_coll_batch *batch, const struct twt_coll_case *c, uint32_t rank,
		      uint64_t digest);

void twt_ranks_open(struct twt_ranks *ranks);

/* All ranks, from their start to their end. Returns whether all went well. */
bool twt_ranks_run(struct twt_ranks *ranks, uint64_t order);

#endif
