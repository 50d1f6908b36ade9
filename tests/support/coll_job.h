/*
 * coll_job.h - a job of forked ranks for scenario tests of collectives: each runs a function, some
 * are killed or stopped on the way, and the parent looks at how all of them have ended.
 *
 *	twt_job_run("tcp", 3, play, &plan);      every rank runs play(job, &plan)
 *	twt_job.marks[...]                       shared by all of them: who has come how far
 *
 * A rank that finds something wrong says so and ends with 1. Every wait is bounded; ranks that are
 * left over are killed by pid.
 */
#ifndef TWT_COLL_JOB_H
#define TWT_COLL_JOB_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/towline.h>

#include "listening.h"
#include "store_port.h"
#include "twt.h"

#define TWT_JOB_RANKS   8
#define TWT_JOB_WAIT_NS 20000000000ull /* for what should end at once */
#define TWT_JOB_LIMIT_S 100

struct twt_job {
	const char *lane; /* "tcp", "shm", or an address to open */
	int size, rank;
	bool keep_runtime; /* the rank closes it itself */
	struct tow_runtime *runtime;
	struct tow_group *group;
};

/* What ranks and parent share. */
struct twt_job_marks {
	_Atomic int at[TWT_JOB_RANKS]; /* how far a rank is, by the test's own count */
	_Atomic int pids[TWT_JOB_RANKS];
	struct twt_listening listening; /* of a rank that is going to be killed */
};

int __lsan_do_recoverable_leak_check(void) __attribute__((weak)); /* with ASan alone */

extern struct twt_job_marks *twt_marks;

#define twt_must(truth)                                                                            \
	do {                                                                                       \
		if (!(truth)) {                                                                    \
			fprintf(stderr, "%s:%d: rank %d of %d, %s: not so: %s; last error: %s\n",  \
				__FILE__, __LINE__, job->rank, job->size, job->lane, #truth,       \
				tow_error_message());                                              \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* Of each rank; 8 MiB. A test with many jobs says less: each GiB of pools is a second of CPU. */
extern int64_t twt_job_pool_bytes;

uint64_t twt_job_now(void);

void twt_job_mark(const struct twt_job *job, int value);

/* All ranks in the bits of `ranks` have come to `value`. False: not within the time. */
bool twt_job_reached(unsigned ranks, int value);

/* Sets this rank's mark, and waits until all ranks have it. */
void twt_job_meet(const struct twt_job *job, int mark);

/* Waits for an operation; its status, and its message in `text`. */
int twt_job_end(const struct twt_job *job, struct tow_op *op, char text[512]);

/* An all-reduce of `count` that must be right. The buffers are the pool's. */
void twt_job_sum(const struct twt_job *job, struct tow_group *group, uint64_t count);

/* Bits of the ranks that did not end with 0; those in `victims` may have been killed. */
unsigned twt_job_wait(const pid_t *pids, int size, unsigned victims);

/* Of lanes.def the lanes, without their variants. */
enum {
	TWT_JOB_ADDRESSES = 0
#define TWT_LANE(...) +1
#define TWT_VARIANT(...)
#include "lanes.def"
#undef TWT_LANE
#undef TWT_VARIANT
};

/* For twt_job_run, each of these lanes. NULL: this build or system does not have the lane. */
extern const char *const twt_job_addresses[TWT_JOB_ADDRESSES];

/*
 * Runs a job. The bits of `victims` are the ranks that may die by SIGKILL; `watch`, if any, runs in
 * the parent meanwhile.
 */
void twt_job_run(const char *lane, int size, unsigned victims,
		 void (*play)(struct twt_job *job, const void *plan), const void *plan,
		 void (*watch)(const pid_t *pids, const void *plan));

#endif
