/* verdict_rank.c - one rank of a job with a fault in it. */
#include "verdict_rank.h"

static void twt_vj_open(struct twt_vj_rank *me, int rank)
{
	const struct twt_vj_job *job = me->job;
	struct tow_group_options where = TOW_GROUP_OPTIONS_INIT;
	struct tow_options options = TOW_OPTIONS_INIT;
	char address[64];
	void *memory;
	int status;

	options.premap_memory_bytes = 8 << 20;
	options.huge_pages = 0;
	options.max_ops = 1024;
	options.job = job->name;
	options.rank = rank;
	options.stats_dir = job->dir;
	if ((job->untraced >> rank & 1) != 0)
		options.trace_on_verdict = 0;
	if (job->fault == VJ_POOL) {
		options.exhaust = "wait";
		options.exhaust_wait_ns = VJ_LIMIT_S * (int64_t)VJ_NS_PER_S;
	}
	if (job->fault == VJ_BUFFERS && rank == job->victim)
		options.socket_buffer_bytes = 8 << 10;
	if (job->fault == VJ_CREDIT || job->fault == VJ_CREDIT_OFI)
		options.credit_bytes = 64 << 10;
	if (job->fault == VJ_CREDIT_OFI)
		snprintf(address, sizeof(address), "ofi://tcp;ofi_rxm@127.0.0.1");
	else if (job->memory)
		snprintf(address, sizeof(address), "shm://*");
	else if (twt_vj_is_far(job))
		snprintf(address, sizeof(address), "tcp://10.77.0.%d:0",
			 1 + (rank >= job->size / 2));
	else
		snprintf(address, sizeof(address), "tcp://127.0.0.1:0");
	where.rank = rank;
	where.world_size = job->size;
	where.store = job->store;
	where.address = address;
	VJ_MUST(tow_runtime_open(&options, &me->runtime) == TOW_OK);
	status = tow_group_open(me->runtime, &where, &me->group);
	if (status == TOW_ENOTSUP && job->fault == VJ_CREDIT_OFI)
		_exit(77);
	VJ_MUST(status == TOW_OK);
	me->count = job->fault == VJ_BUFFERS || job->fault == VJ_SLOW ? 64 << 10 : 1024;
	VJ_MUST(tow_alloc(me->runtime, me->count * 4, 64, &memory) == TOW_OK);
	me->data = memory;
	for (int i = 0; job->fault == VJ_BURST && i < VJ_BUCKETS; i++) {
		VJ_MUST(tow_alloc(me->runtime, me->count * 4, 64, &me->blocks[i]) == TOW_OK);
		memset(me->blocks[i], 0, me->count * 4);
	}
}

int twt_vj_rank_main(const struct twt_vj_job *job, int rank)
{
	struct twt_vj_rank me = { .job = job };
	bool on = true, busy = job->fault == VJ_HOG || job->fault == VJ_QUOTA;

	alarm(VJ_LIMIT_S);
	atomic_store(&job->marks->pids[rank], getpid());
	if (job->fault == VJ_HOG)
		twt_vj_pin(rank == job->victim);
	twt_vj_open(&me, rank);
	for (int n = 0; on; n++) {
		if (job->fault != VJ_BUFFERS) {
			uint64_t jitter = (job->seed + (uint64_t)n * 7919) % 10000;

			twt_vj_compute(busy ? 10000000 : 500000);
			usleep((useconds_t)(busy ? jitter / 4 : 10000 + jitter));
		}
		if (rank == job->victim)
			on = twt_vj_misbehave(&me, rank, n);
		if (n == VJ_STEPS && (job->fault == VJ_CREDIT || job->fault == VJ_CREDIT_OFI)) {
			twt_vj_send_much(&me, rank);
			break;
		}
		if (job->fault == VJ_BARRIER)
			VJ_MUST(tow_group_barrier(me.group, VJ_LIMIT_S * VJ_NS_PER_S) == TOW_OK);
		on = on && twt_vj_step(&me, rank);
	}
	twt_vj_wait_for_stop(job);
	VJ_MUST(tow_group_close(me.group) == TOW_OK);
	VJ_MUST(tow_runtime_close(me.runtime) == TOW_OK);
	atomic_store(&job->marks->ended[rank], 1);
	return 0;
}
