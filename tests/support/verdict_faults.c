/* verdict_faults.c - faults that are planted in a job. */
#include "verdict_faults.h"

const char *const twt_vj_names[VJ_FAULTS] = { "healthy",          "never enters",
					      "enters late",      "other operation",
					      "SIGSTOP",          "packets dropped one way",
					      "pool exhausted",   "wrong TCP buffers",
					      "CPU hog",          "never enters a barrier",
					      "receives nothing", "receives nothing (ofi)",
					      "device stalls",    "late in bursts",
					      "CPU quota",        "slow cable",
					      "SIGSTOP pulses" };

const char *const twt_vj_causes[VJ_FAULTS] = {
	"",       "never_entered", "late",      "other_operation", "stopped", "link",
	"pool",   "tcp_buffers",   "cpu",       "never_entered",   "credit",  "credit",
	"device", "late",          "throttled", "slow_link",       "held"
};

uint64_t twt_vj_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * VJ_NS_PER_S + (uint64_t)ts.tv_nsec;
}

void twt_vj_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set); /* with fewer CPUs it stays where it may run */
}

void twt_vj_compute(uint64_t cpu_ns)
{
	struct timespec ts;
	uint64_t now, until = 0;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
		now = (uint64_t)ts.tv_sec * VJ_NS_PER_S + (uint64_t)ts.tv_nsec;
		until = until == 0 ? now + cpu_ns : until;
	} while (now < until);
}

void twt_vj_wait_for_stop(const struct twt_vj_job *job)
{
	for (int i = 0; i < VJ_LIMIT_S * 1000 && atomic_load(&job->marks->stop) == 0; i++)
		usleep(1000);
}

/* What is under way beside a step's own collective, 2 ms apart. */
static bool twt_vj_buckets_begin(struct twt_vj_rank *me, struct tow_op *ops[VJ_BUCKETS])
{
	for (int i = 0; me->job->fault == VJ_BURST && i < VJ_BUCKETS; i++) {
		if (tow_coll_all_reduce_start(me->group, me->blocks[i], me->blocks[i], me->count,
					      TOW_F32, TOW_SUM, NULL, &ops[i]) < 0)
			return false;
		usleep(2000);
	}
	return true;
}

static bool twt_vj_buckets_end(const struct twt_vj_rank *me, struct tow_op *ops[VJ_BUCKETS])
{
	bool well = true;

	for (int i = 0; me->job->fault == VJ_BURST && i < VJ_BUCKETS; i++) {
		well &= tow_op_wait(ops[i], TOW_FOREVER) == TOW_OK;
		tow_op_release(ops[i]);
	}
	return well;
}

bool twt_vj_step(struct twt_vj_rank *me, int rank)
{
	const struct twt_vj_job *job = me->job;
	struct tow_op *ops[VJ_BUCKETS], *op;
	int status;

	if (!twt_vj_buckets_begin(me, ops))
		return false;
	for (uint64_t i = 0; i < me->count; i++)
		me->data[i] = 1;
	me->data[0] = (float)atomic_load(&job->marks->stop);
	status = tow_coll_all_reduce_start(me->group, me->data, me->data, me->count, TOW_F32,
					   TOW_SUM, NULL, &op);
	if (status < 0)
		return false;
	status = tow_op_wait(op, TOW_FOREVER);
	tow_op_release(op);
	if (status < 0 || !twt_vj_buckets_end(me, ops))
		return false;
	VJ_MUST(me->count < 2 || me->data[1] == (float)job->size);
	atomic_fetch_add(&job->marks->steps[rank], 1);
	return me->data[0] == 0;
}

/* Takes all of the pool; frees a block when it is told to. */
static void *twt_vj_free_later(void *arg)
{
	struct twt_vj_rank *me = arg;

	twt_vj_wait_for_stop(me->job);
	if (atomic_load(&me->holds))
		tow_free(me->runtime, me->blocks[0]);
	return NULL;
}

static void twt_vj_exhaust(struct twt_vj_rank *me, int rank)
{
	const struct twt_vj_job *job = me->job;
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
	VJ_MUST(pthread_create(&thread, NULL, twt_vj_free_later, me) == 0);
	VJ_MUST(tow_alloc(me->runtime, 2 << 20, 64, &memory) == TOW_OK);
	pthread_join(thread, NULL);
	tow_free(me->runtime, memory);
}

static void twt_vj_other_operation(struct twt_vj_rank *me)
{
	struct tow_op *op;

	if (tow_coll_broadcast_start(me->group, me->data, me->count / 2, TOW_F32, 0, NULL, &op) ==
	    TOW_OK) {
		tow_op_wait(op, TOW_FOREVER);
		tow_op_release(op);
	}
}

/* A copy to a device that takes longer than the question. */
static void twt_vj_stall_device(struct twt_vj_rank *me, int rank)
{
	const struct twt_vj_job *job = me->job;
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

void twt_vj_send_much(struct twt_vj_rank *me, int rank)
{
	const struct twt_vj_job *job = me->job;
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
		twt_vj_wait_for_stop(job);
	for (int i = 0; i < VJ_MESSAGES; i++)
		VJ_MUST((receives ? tow_recv_start(peer, me->data, 4096, 1, NULL, &ops[i])
				  : tow_send_start(peer, me->data, 4096, 1, NULL, &ops[i])) ==
			TOW_OK);
	for (int i = 0; i < VJ_MESSAGES; i++) {
		VJ_MUST(tow_op_wait(ops[i], TOW_FOREVER) == TOW_OK);
		tow_op_release(ops[i]);
	}
}

bool twt_vj_misbehave(struct twt_vj_rank *me, int rank, int n)
{
	switch (me->job->fault) {
	case VJ_NEVER:
	case VJ_BARRIER:
		if (n == VJ_STEPS)
			twt_vj_wait_for_stop(me->job);
		return true;
	case VJ_LATE:
		if (n >= VJ_STEPS && atomic_load(&me->job->marks->stop) == 0)
			usleep(400000);
		return true;
	case VJ_BURST:
		if (n >= VJ_STEPS && atomic_load(&me->job->marks->stop) == 0)
			usleep(25000);
		return true;
	case VJ_OTHER:
		if (n == VJ_STEPS)
			twt_vj_other_operation(me);
		return n != VJ_STEPS;
	case VJ_DEVICE:
		if (n == VJ_STEPS)
			twt_vj_stall_device(me, rank);
		return true;
	case VJ_POOL:
		if (n == VJ_STEPS)
			twt_vj_exhaust(me, rank);
		return true;
	default:
		return true;
	}
}
