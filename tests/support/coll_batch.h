/*
 * coll_batch.h - lists of cases, one list for each group, of the ranks that this process has: all
 * of them in a simulation, one where each rank is a process. A window of cases is started, those
 * of one group in order, those of different groups in any; then all are awaited in any order.
 */
#ifndef TWT_COLL_BATCH_H
#define TWT_COLL_BATCH_H

#include "coll_call.h"

#define TWT_COLL_LISTS  6
#define TWT_COLL_WINDOW 8

/* One group, as its members here see it. */
struct twt_coll_list {
	uint64_t seed;
	struct twt_coll_world world;
	uint32_t here; /* members in this process */
	uint32_t *members;
	struct tow_group **groups;
	/* The window that is under way: */
	uint32_t cases_n;
	struct twt_coll_case cases[TWT_COLL_WINDOW];
	struct twt_coll_call *calls[TWT_COLL_WINDOW]; /* of each member that is here */
	uint32_t *started;
};

struct twt_coll_batch {
	uint64_t seed, order; /* order: random numbers that need not be the same at all ranks */
	struct tow_runtime *runtime;
	struct twt_coll_list lists[TWT_COLL_LISTS];
	uint32_t lists_n, window;
	uint64_t done; /* cases */
	bool wrong;
	/* A case's result at a member of this process, in an order that the seed alone decides. */
	void (*result)(struct twt_coll_batch *batch, const struct twt_coll_case *c, uint32_t rank,
		       uint64_t digest);
	void *user;
};

struct twt_coll_token {
	uint32_t list, member, index;
};

uint64_t twt_batch_below(struct twt_coll_batch *batch, uint64_t bound);

/* False: something was wrong, and is left as it stands. */
bool twt_batch_window(struct twt_coll_batch *batch, uint32_t cases, uint64_t timeout_ns);

#endif
