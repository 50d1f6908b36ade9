/*
 * coll_team.h - a job of a few ranks, each a process with a runtime and the group of all.
 *
 *	twt_ranks(&(struct twt_job){ .ranks = 2, .lane = "tcp://127.0.0.1:0", .run = sum });
 *
 * The test's own process is no rank: it waits for them, a bounded time, and fails if one has not
 * ended well. In a rank TWT_OK and TWT_TRUE end the process with what was wrong.
 */
#ifndef TWT_COLL_TEAM_H
#define TWT_COLL_TEAM_H

#include "pair.h"
#include "store_port.h"

#include <towline/coll.h>

#include "twt.h"

#define TWT_RANKS_MAX  8
#define TWT_RANKS_WAIT 120 /* seconds */

#define TWT_TRUE(what)                                                                             \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what,     \
				tow_error_message());                                              \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct twt_rank {
	struct tow_runtime *runtime;
	struct tow_group *group;
	uint32_t rank, ranks;
	void *arg;
};

struct twt_job {
	uint32_t ranks;
	const char *lane; /* address of the endpoints; NULL: that of all lanes */
	void (*run)(struct twt_rank *rank);
	void *arg;
	int64_t pool_bytes; /* 0: 32 MiB */
	void (*options)(struct tow_options *options);
};

/* Runs the job; the test has failed when a rank has. */
void twt_ranks(const struct twt_job *job);

/*
 * Runs the job over each lane that joins processes (job_lanes.h); its own options and lane do not
 * count.
 */
void twt_ranks_by_lane(const struct twt_job *job);

/* Waits at most 60 s, gives the operation back, and returns its status. */
int twt_coll_end(struct tow_op *op);

/* All ranks have come here. */
void twt_coll_meet(struct twt_rank *rank);

#endif
