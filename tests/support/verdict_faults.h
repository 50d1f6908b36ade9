/*
 * verdict_faults.h - what the ranks of a job with a fault in it share, and what its victim does
 * (verdict_rank.h).
 */
#ifndef TWT_VERDICT_FAULTS_H
#define TWT_VERDICT_FAULTS_H

#include "cpu_quota.h"
#include "netlab.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include <towline/towline.h>

#define VJ_RANKS         4
#define VJ_HOGS          12
#define VJ_STEPS         10 /* healthy ones, before the fault */
#define VJ_LIMIT_S       60
#define VJ_BUCKETS       2       /* of a burst, before its last */
#define VJ_SLOW_RATE     4000000 /* bytes a second */
#define VJ_QUOTA_PERCENT 5       /* far less than a busy machine leaves it */
#define VJ_NS_PER_S      1000000000ull

enum twt_vj_fault {
	VJ_HEALTHY,
	VJ_NEVER,
	VJ_LATE,
	VJ_OTHER,
	VJ_STOPPED,
	VJ_DROPPED,
	VJ_POOL,
	VJ_BUFFERS,
	VJ_HOG,
	VJ_BARRIER,
	VJ_CREDIT,
	VJ_CREDIT_OFI, /* the same over libfabric's tcp */
	VJ_DEVICE,
	VJ_BURST, /* late to the first of three collectives that are under way at once */
	VJ_QUOTA, /* its control group may have a CPU for a part of the time alone */
	VJ_SLOW,  /* between the halves of the job there are 4 MB/s, in both directions */
	VJ_HELD,  /* its process is stopped for 100 ms and continued, again and again */
	VJ_FAULTS
};

extern const char *const twt_vj_names[VJ_FAULTS];
extern const char *const twt_vj_causes[VJ_FAULTS];

/* Shared by all processes of a job. */
struct twt_vj_marks {
	_Atomic int steps[VJ_RANKS]; /* that a rank has ended */
	_Atomic int pids[VJ_RANKS];
	_Atomic int stop, mute, rate, ended[VJ_RANKS];
};

struct twt_vj_job {
	enum twt_vj_fault fault;
	int size, victim;
	bool memory;       /* over the shm lane, else tcp */
	unsigned untraced; /* bits of ranks whose knob trace_on_verdict is off, whatever else is */
	uint64_t seed;
	char name[40], dir[32], store[64];
	struct twt_vj_marks *marks;
	pid_t pids[VJ_RANKS], hogs[VJ_HOGS], world;
	struct twt_quota quota;
	int port;
};

/* There is a cable between the halves of its ranks. */
static inline bool twt_vj_is_far(const struct twt_vj_job *job)
{
	return job->fault == VJ_DROPPED || job->fault == VJ_SLOW;
}

uint64_t twt_vj_now(void);

void twt_vj_pin(int cpu);

/* --- a rank --- */

#define VJ_MUST(truth)                                                                             \
	do {                                                                                       \
		if (!(truth)) {                                                                    \
			fprintf(stderr, "%s:%d: %s, rank %d: not so: %s; last error: %s\n",        \
				__FILE__, __LINE__, twt_vj_names[job->fault], rank, #truth,        \
				tow_error_message());                                              \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

void twt_vj_compute(uint64_t cpu_ns);

void twt_vj_wait_for_stop(const struct twt_vj_job *job);

struct twt_vj_rank {
	const struct twt_vj_job *job;
	struct tow_runtime *runtime;
	struct tow_group *group;
	float *data;
	uint64_t count;
	void *blocks[64];
	_Atomic bool holds;
};

/* One step; false: all have been told to stop, or the group is broken. */
bool twt_vj_step(struct twt_vj_rank *me, int rank);

/* Far more than its credit lets go to a rank that does not receive before the end. */
#define VJ_MESSAGES 64

void twt_vj_send_much(struct twt_vj_rank *me, int rank);

/* What the victim does before step `n`; false: it steps no more. */
bool twt_vj_misbehave(struct twt_vj_rank *me, int rank, int n);

#endif
