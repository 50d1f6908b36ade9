/*
 * verdict_faults.h - what the ranks of a job with a fault in it share, and what its victim does
 * (verdict_rank.h).
 */
#ifndef TWT_VERDICT_FAULTS_H
#define TWT_VERDICT_FAULTS_H

#include "netlab.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include <towline/towline.h>

#define VJ_RANKS    4
#define VJ_HOGS     12
#define VJ_STEPS    10 /* healthy ones, before the fault */
#define VJ_LIMIT_S  60
#define VJ_NS_PER_S 1000000000ull

enum vj_fault {
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
	VJ_FAULTS
};

static const char *const vj_names[VJ_FAULTS] = { "healthy",          "never enters",
						 "enters late",      "other operation",
						 "SIGSTOP",          "packets dropped one way",
						 "pool exhausted",   "wrong TCP buffers",
						 "CPU hog",          "never enters a barrier",
						 "receives nothing", "receives nothing (ofi)",
						 "device stalls" };
static const char *const vj_causes[VJ_FAULTS] = {
	"",      "never_entered", "late", "other_operation", "stopped", "link",
	"pool",  "tcp_buffers",   "cpu",  "never_entered",   "credit",  "credit",
	"device"
};

/* Shared by all processes of a job. */
struct vj_marks {
	_Atomic int steps[VJ_RANKS]; /* that a rank has ended */
	_Atomic int pids[VJ_RANKS];
	_Atomic int stop, mute, ended[VJ_RANKS];
};

struct vj_job {
	enum vj_fault fault;
	int size, victim;
	bool memory; /* over the shm lane, else tcp */
	uint64_t seed;
	char name[40], dir[32], store[64];
	struct vj_marks *marks;
	pid_t pids[VJ_RANKS], hogs[VJ_HOGS], world;
	int port;
};

static inline uint64_t vj_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * VJ_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static inline void vj_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set); /* with fewer CPUs it stays where it may run */
}

/* --- a rank --- */

#define VJ_MUST(truth)                                                                             \
	do {                                                                                       \
		if (!(truth)) {                                                                    \
			fprintf(stderr, "%s:%d: %s, rank %d: not so: %s; last error: %s\n",        \
				__FILE__, __LINE__, vj_names[job->fault], rank, #truth,            \
				tow_error_message());                                              \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static inline void vj_compute(uint64_t cpu_ns)
{
	struct timespec ts;
	uint64_t now, until = 0;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
		now = (uint64_t)ts.tv_sec * VJ_NS_PER_S + (uint64_t)ts.tv_nsec;
		until = until == 0 ? now + cpu_ns : until;
	} while (now < until);
}

static inline void vj_wait_for_stop(const struct vj_job *job)
{
	for (int i = 0; i < VJ_LIMIT_S * 1000 && atomic_load(&job->marks->stop) == 0; i++)
		usleep(1000);
}

struct vj_rank {
	const struct vj_job *job;
	struct tow_runtime *runtime;
	struct tow_group *group;
	float *data;
	uint64_t count;
	void *blocks[64];
	_Atomic bool holds;
};

/* One step; false: all have been told to stop, or the group is broken. */
static inline bool vj_step(struct vj_rank *me, int rank)
{
	const struct vj_job *job = me->job;
	struct tow_op *op;
	int status;

	for (uint64_t i = 0; i < me->count; i++)
		me->data[i] = 1;
	me->data[0] = (float)atomic_load(&job->marks->stop);
	status = tow_coll_all_reduce_start(me->group, me->data, me->data, me->count, TOW_F32,
					   TOW_SUM, NULL, &op);
	if (status < 0)
		return false;
	status = tow_op_wait(op, TOW_FOREVER);
	tow_op_release(op);
	if (status < 0)
		return false;
	VJ_MUST(me->count < 2 || me->data[1] == (float)job->size);
	atomic_fetch_add(&job->marks->steps[rank], 1);
	return me->data[0] == 0;
}

/* Takes all of the pool; frees a block when it is told to. */
static inline void *vj_free_later(void *arg)
{
	struct vj_rank *me = arg;

	vj_wait_for_stop(me->job);
	if (atomic_load(&me->holds))
		tow_free(me->runtime, me->blocks[0]);
	return NULL;
}

static inline void vj_exhaust(struct vj_rank *me, int rank)
{
	const struct vj_job *job = me->job;
	pthread_t thread;
	uint64_t bytes = 4 << 20;
	void *memory;
	int n = 0;

	/* The last that fits, by halves; the policy waits for what does not. */
	while (n < 60 && bytes >= 4096) {
		char *text, *at;
		unsigned long long largest = 0;

		VJ_MUST(tow_stats_get(me->runtime, "/v1/pool", &text) == TOW_OK);
		at = strstr(text, "\"largest_free_bytes\":");
		VJ_MUST(at != NULL);
		largest = strtoull(at + strlen("\"largest_free_bytes\":"), NULL, 10);
		tow_stats_release(text);
		if (largest < bytes) {
			bytes /= 2;
			continue;
		}
		VJ_MUST(tow_alloc(me->runtime, bytes, 64, &me->blocks[n++]) == TOW_OK);
	}
	atomic_store(&me->holds, n > 0);
	VJ_MUST(pthread_create(&thread, NULL, vj_free_later, me) == 0);
	VJ_MUST(tow_alloc(me->runtime, 2 << 20, 64, &memory) == TOW_OK);
	pthread_join(thread, NULL);
	tow_free(me->runtime, memory);
}

static inline void vj_other_operation(struct vj_rank *me)
{
	struct tow_op *op;

	if (tow_coll_broadcast_start(me->group, me->data, me->count / 2, TOW_F32, 0, NULL, &op) ==
	    TOW_OK) {
		tow_op_wait(op, TOW_FOREVER);
		tow_op_release(op);
	}
}

/* A copy to a device that takes longer than the question. */
static inline void vj_stall_device(struct vj_rank *me, int rank)
{
	const struct vj_job *job = me->job;
	struct tow_device_memory *memory;
	struct tow_device *device;
	struct tow_op *op;

	VJ_MUST(tow_device_open(me->runtime, "fake:latency=2600ms", &device) == TOW_OK);
	VJ_MUST(tow_device_alloc(device, 4096, &memory) == TOW_OK);
	VJ_MUST(tow_device_copy_start(device, TOW_TO_DEVICE, memory, 0, me->data, 4096, NULL,
				      &op) == TOW_OK);
	VJ_MUST(tow_op_wait(op, TOW_FOREVER) == TOW_OK);
	tow_op_release(op);
	VJ_MUST(tow_device_free(memory) == TOW_OK);
	VJ_MUST(tow_device_close(device) == TOW_OK);
}

/* Far more than its credit lets go to a rank that does not receive before the end. */
#define VJ_MESSAGES 64

static inline void vj_send_much(struct vj_rank *me, int rank)
{
	const struct vj_job *job = me->job;
	bool receives = rank == job->victim;
	uint32_t to = (uint32_t)(receives ? (rank + 1) % job->size : job->victim);
	struct tow_op *ops[VJ_MESSAGES], *op;
	struct tow_peer *peer;

	if (!receives && rank != (job->victim + 1) % job->size)
		return;
	VJ_MUST(tow_group_connect_start(me->group, to, NULL, &op) == TOW_OK);
	VJ_MUST(tow_op_wait(op, TOW_FOREVER) == TOW_OK);
	tow_op_release(op);
	VJ_MUST(tow_group_peer(me->group, to, &peer) == TOW_OK);
	if (receives)
		vj_wait_for_stop(job);
	for (int i = 0; i < VJ_MESSAGES; i++)
		VJ_MUST((receives ? tow_recv_start(peer, me->data, 4096, 1, NULL, &ops[i])
				  : tow_send_start(peer, me->data, 4096, 1, NULL, &ops[i])) ==
			TOW_OK);
	for (int i = 0; i < VJ_MESSAGES; i++) {
		VJ_MUST(tow_op_wait(ops[i], TOW_FOREVER) == TOW_OK);
		tow_op_release(ops[i]);
	}
}

/* What the victim does before step `n`; false: it steps no more. */
static inline bool vj_misbehave(struct vj_rank *me, int rank, int n)
{
	switch (me->job->fault) {
	case VJ_NEVER:
	case VJ_BARRIER:
		if (n == VJ_STEPS)
			vj_wait_for_stop(me->job);
		return true;
	case VJ_LATE:
		if (n >= VJ_STEPS && atomic_load(&me->job->marks->stop) == 0)
			usleep(400000);
		return true;
	case VJ_OTHER:
		if (n == VJ_STEPS)
			vj_other_operation(me);
		return n != VJ_STEPS;
	case VJ_DEVICE:
		if (n == VJ_STEPS)
			vj_stall_device(me, rank);
		return true;
	case VJ_POOL:
		if (n == VJ_STEPS)
			vj_exhaust(me, rank);
		return true;
	default:
		return true;
	}
}

#endif
