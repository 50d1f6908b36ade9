/*
 * The second collective like one before builds no plan and allocates nothing: every kind, twice to
 * warm up, then many times with every allocation of the thread that drives them counted, at both
 * ranks, over shared memory, over tcp, and with both ranks in one process on the loop lane. None
 * but that thread drives them (`background` is 0); the thread that looks at the job each
 * verdict_interval_ns allocates when it begins and when it looks, which may be at any time.
 *
 * A message that comes before its receive was posted takes a piece of memory of its own on lanes of
 * messages (twi_inbox_keep, twi_session_offer_keep); these are the only ones allowed.
 */
#include "coll_ranks.h"
#include "coll_sim.h"

#include "diag/record/counter.h"
#include "transport/stream/session_parts.h"

#define ROUNDS 40
#define COUNT  500u

#define EARLY_CODE_BYTES 200u

static uint64_t allocations;
static _Thread_local bool drives; /* this thread's allocations are counted */

#ifndef TWT_SANITIZED
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *at, size_t bytes);

void *malloc(size_t bytes)
{
	/* The call is within the first bytes of that function: what comes early has its memory. */
	uintptr_t from = (uintptr_t)__builtin_return_address(0);
	bool early = from - (uintptr_t)twi_inbox_keep < EARLY_CODE_BYTES ||
		     from - (uintptr_t)twi_session_offer_keep < EARLY_CODE_BYTES;

	allocations += drives && !early;
	return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	allocations += drives;
	return __libc_calloc(count, bytes);
}

void *realloc(void *at, size_t bytes)
{
	allocations += drives;
	return __libc_realloc(at, bytes);
}
#endif

/* What is started: the same call at all ranks, each with buffers of its own. */
static int start(struct tow_group *group, int kind, uint32_t *in, uint32_t *out,
		 struct tow_op **op_out)
{
	static const uint64_t counts[] = { COUNT, 3 };
	static const struct tow_coll_pair pairs[] = { { 0, 1 }, { 1, 0 } };
	const struct tow_coll_parts parts = { (const uint64_t[]){ COUNT, COUNT }, NULL };
	int64_t other = 1 - (int64_t)tow_group_rank(group);

	switch (kind) {
	case TWI_COLL_ALL_REDUCE:
		return tow_coll_all_reduce_start(group, in, out, COUNT, TOW_U32, TOW_SUM, NULL,
						 op_out);
	case TWI_COLL_REDUCE_SCATTER:
		return tow_coll_reduce_scatter_start(group, in, out, COUNT, TOW_U32, TOW_SUM, NULL,
						     op_out);
	case TWI_COLL_ALL_GATHER:
		return tow_coll_all_gather_start(group, in, out, COUNT, TOW_U32, NULL, op_out);
	case TWI_COLL_ALL_GATHER_V:
		return tow_coll_all_gather_v_start(group, in, out, counts, NULL, TOW_U32, NULL,
						   op_out);
	case TWI_COLL_BROADCAST:
		return tow_coll_broadcast_start(group, out, COUNT, TOW_U32, 1, NULL, op_out);
	case TWI_COLL_REDUCE:
		return tow_coll_reduce_start(group, in, out, COUNT, TOW_U32, TOW_MAX, 0, NULL,
					     op_out);
	case TWI_COLL_GATHER:
		return tow_coll_gather_start(group, in, out, COUNT, TOW_U32, 0, NULL, op_out);
	case TWI_COLL_SCATTER:
		return tow_coll_scatter_start(group, in, out, COUNT, TOW_U32, 1, NULL, op_out);
	case TWI_COLL_ALL_TO_ALL:
		return tow_coll_all_to_all_start(group, in, out, COUNT, TOW_U32, NULL, op_out);
	case TWI_COLL_ALL_TO_ALL_V:
		return tow_coll_all_to_all_v_start(group, in, &parts, out, &parts, TOW_U32, NULL,
						   op_out);
	case TWI_COLL_PERMUTE:
		return tow_coll_permute_start(group, in, out, COUNT, TOW_U32, pairs, 2, NULL,
					      op_out);
	case TWI_COLL_SEND_RECEIVE:
		return tow_coll_send_receive_start(group, in, other, out, other, COUNT, TOW_U32,
						   NULL, op_out);
	default:
		return tow_coll_barrier_start(group, NULL, op_out);
	}
}

/* Plans of cells have their short way (coll_quick.h), without which they would only be slower. */
static bool short_way(const struct twi_coll_entry *entry)
{
	return strcmp(entry->plan->name, "local-cell") != 0 || entry->quick != NULL;
}

/* Every kind once, of the ranks that are here; warming: also what has memory of its own, so that
 * the ranks are connected, both ways, before anything is counted.
 */
static bool all_kinds(struct tow_group **groups, uint32_t here, uint32_t **buffers, bool warming)
{
	struct tow_op *ops[2];
	bool well = true;

	for (int kind = 0; kind < TWI_COLL_KINDS && well; kind++) {
		/* On one host this alone goes by messages; an early one has memory of its own. */
		if (kind == TWI_COLL_ALL_TO_ALL_V && groups[0]->coll->all_local && !warming)
			continue;
		for (uint32_t r = 0; r < here; r++)
			well = well && start(groups[r], kind, buffers[r], buffers[r] + 2 * COUNT,
					     &ops[r]) == TOW_OK;
		for (uint32_t r = 0; r < here && well; r++) {
			well = tow_op_wait(ops[r], TWT_RANKS_WAIT_NS) == TOW_OK;
			tow_op_release(ops[r]);
		}
		well = well && short_way(groups[0]->coll->last);
	}
	return well;
}

/* What has been counted: allocations that are not for early messages, and plans. */
static void counted(struct twi_diag *diag, uint64_t counts[2])
{
	counts[0] = allocations;
	counts[1] = twi_counter_sum(diag, TWI_C_coll_plans_built);
}

/* Many times; true: nothing was built and nothing allocated. */
static bool builds_nothing(struct tow_runtime *runtime, struct tow_group **groups, uint32_t here)
{
	struct twi_diag *diag = twi_runtime_engine(runtime)->diag;
	uint32_t *buffers[2] = { NULL, NULL };
	uint64_t before[2], after[2];
	bool well = true;

	for (uint32_t r = 0; r < here; r++) {
		void *memory = NULL;

		if (tow_alloc(runtime, sizeof(uint32_t[4 * COUNT]), 0, &memory) != TOW_OK)
			return false;
		buffers[r] = memory;
		memset(memory, 0, sizeof(uint32_t[4 * COUNT]));
	}
	drives = true;
	for (int i = 0; i < 3; i++)
		well = well && all_kinds(groups, here, buffers, true);
	counted(diag, before);
	for (int i = 0; i < ROUNDS; i++)
		well = well && all_kinds(groups, here, buffers, false);
	counted(diag, after);
	if (!well || after[0] != before[0] || after[1] != before[1]) {
		fprintf(stderr, "%s; %lld allocations, %lld plans\n",
			well ? "all ended well" : tow_error_message(),
			(long long)(after[0] - before[0]), (long long)(after[1] - before[1]));
		return false;
	}
	return before[1] >= TWI_COLL_KINDS - 1;
}

static void processes(enum twt_lanes lanes)
{
	static struct twt_ranks_shared nothing;
	pid_t child;
	int status = 0, fd;
	struct twt_ranks ranks;
	bool well;

	twt_ranks_init(&ranks, 1, &nothing);
	twt_ranks_knobs(&ranks);
	ranks.options.coll_plan = NULL;
	ranks.options.background = 0;
	ranks.lanes = lanes;
	ranks.n = 2;
	ranks.colors = 0;
	fd = twt_store_port(ranks.store, sizeof(ranks.store));
	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	ranks.rank = child == 0;
	alarm(TWT_RANKS_ALARM_S);
	twt_ranks_open(&ranks);
	well = builds_nothing(ranks.batch.runtime, &ranks.world, 1);
	twt_ranks_ok(&ranks, "close", tow_group_close(ranks.world));
	twt_ranks_ok(&ranks, "close", tow_runtime_close(ranks.batch.runtime));
	free(ranks.batch.lists[0].members);
	free(ranks.batch.lists[0].groups);
	if (child == 0)
		_exit(!well);
	alarm(0);
	close(fd);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(well);
}

static void over_shm(void **state)
{
	(void)state;
	processes(TWT_LANES_SHM);
}

static void over_tcp(void **state)
{
	(void)state;
	processes(TWT_LANES_TCP);
}

static void over_loop(void **state)
{
	static struct twt_coll_sim sim;

	(void)state;
	sim.n = 2;
	sim.options = (struct tow_options)TOW_OPTIONS_INIT;
	sim.options.premap_memory_bytes = 4 << 20;
	sim.options.huge_pages = 0;
	sim.options.stats = 0;
	twt_sim_open(&sim);
	assert_true(builds_nothing(sim.batch.runtime, sim.world, 2));
	twt_sim_close(&sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(over_shm),
		cmocka_unit_test(over_tcp),
		cmocka_unit_test(over_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
