/*
 * test_coll_held.c - more collectives than TOW_COLL_IN_FLIGHT: those beyond it are held back, begin
 * in their order and end in every way, over every lane that ranks can have. What was never begun
 * has touched no buffer; how one fails is how all do.
 *
 *	TOW_TEST_SEED=S   the calls, and the ways in which each rank waits for them
 */
#include "coll_call.h"
#include "coll_team.h"
#include "job_lanes.h"

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

#ifdef TWT_SANITIZED
#define MANY 300u
#else
#define MANY 1000u
#endif

static uint64_t seed;
static unsigned lane;

/* What the ranks of a job share. */
static struct shared {
	_Atomic unsigned come;
	_Atomic uint32_t count;
} * shared;

static void common_options(struct tow_options *options)
{
	twt_job_lane_options(lane, options);
	options->background = twt_coll_hash(seed, 99) % 3 != 0;
}

static void over_lanes(uint32_t ranks, void (*run)(struct twt_rank *rank),
		       void (*options)(struct tow_options *options))
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_true(shared != MAP_FAILED);
	for (lane = 0; lane < TWT_LANES; lane++) {
		if (!twt_job_lane(lane))
			continue;
		atomic_store(&shared->come, 0);
		twt_ranks(&(struct twt_job){ .ranks = ranks,
					     .lane = twt_lanes[lane].address[0],
					     .run = run,
					     .options = options });
	}
	munmap(shared, sizeof(*shared));
}

static uint64_t counted(struct twt_rank *rank, enum twi_counter counter)
{
	return twi_counter_sum(twi_runtime_engine(rank->runtime)->diag, counter);
}

static bool is_last(const struct twt_rank *rank)
{
	return rank->rank == rank->ranks - 1;
}

/* The last rank goes on when the others have come: what they have started waits for it. */
static void let_others_start(const struct twt_rank *rank)
{
	static unsigned rounds;

	rounds++;
	if (!is_last(rank))
		atomic_fetch_add(&shared->come, 1);
	while (is_last(rank) && atomic_load(&shared->come) < rounds * (rank->ranks - 1))
		usleep(1000);
}

/* --- a thousand of all kinds --- */

enum style { BY_WAIT, BY_TEST, BY_CALLBACK, BY_QUEUE, STYLES };

struct many {
	struct twt_coll_case cases[MANY];
	struct twt_coll_call calls[MANY];
	enum style styles[MANY];
	uint32_t order[MANY];
	struct tow_queue *queue;
	uint64_t random; /* this rank's own */
};

static void called_back(struct tow_op *op, const struct tow_result *result)
{
	struct twt_coll_call *call = result->user;

	(void)op;
	TWT_TRUE(result->status == TOW_OK);
	call->called++;
}

static void start_many(struct twt_rank *rank, struct many *many)
{
	for (uint32_t i = 0; i < MANY; i++) {
		struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
		struct twt_coll_call *call = &many->calls[i];

		many->styles[i] = (enum style)twt_random_below(&many->random, STYLES);
		options.user = call;
		if (many->styles[i] == BY_CALLBACK)
			options.done = called_back;
		if (many->styles[i] == BY_QUEUE)
			options.queue = many->queue;
		TWT_OK(twt_coll_call_start_by(call, &options));
		if (is_last(rank) && twt_random_below(&many->random, 32) == 0)
			tow_progress(rank->runtime);
	}
}

static void take_results(struct many *many)
{
	struct tow_result results[7];
	size_t count;
	int status;

	for (size_t i = 0; i < 7; i++)
		results[i] = (struct tow_result)TOW_RESULT_INIT;
	status = tow_queue_take(many->queue, results, 7, &count);
	TWT_TRUE(status == TOW_OK || (status == TOW_AGAIN && count == 0));
	for (size_t i = 0; i < count; i++) {
		struct twt_coll_call *call = results[i].user;

		TWT_TRUE(results[i].status == TOW_OK);
		call->called++;
	}
}

static void drive(struct twt_rank *rank)
{
	int events = tow_progress(rank->runtime);

	TWT_TRUE(events >= 0);
	if (events == 0)
		usleep(50);
}

static void end_one(struct twt_rank *rank, struct many *many, uint32_t i)
{
	struct twt_coll_call *call = &many->calls[i];

	switch (many->styles[i]) {
	case BY_WAIT:
		TWT_OK(tow_op_wait(call->op, TWT_FINISH_NS));
		call->called++;
		break;
	case BY_TEST:
		while (tow_op_test(call->op) == TOW_AGAIN)
			usleep(50); /* there are more ranks than cores */
		TWT_OK(tow_op_test(call->op));
		call->called++;
		break;
	case BY_CALLBACK:
		while (call->called == 0)
			drive(rank);
		TWT_OK(tow_op_wait(call->op, TWT_FINISH_NS));
		break;
	default:
		while (call->called == 0) {
			drive(rank);
			take_results(many);
		}
		return; /* its handle is the queue's */
	}
	TWT_OK(tow_op_release(call->op));
}

static void judge_many(struct twt_rank *rank, struct many *many)
{
	bool wrong = false;

	for (uint32_t i = 0; i < MANY; i++) {
		struct twt_coll_truth truth;

		twt_coll_truth_init(&truth, &many->cases[i]);
		twt_coll_call_end(&many->calls[i], &truth, &wrong);
		twt_coll_truth_fini(&truth);
		if (wrong)
			fprintf(stderr, "rank %u: collective %u\n", rank->rank, i);
		TWT_TRUE(!wrong);
		twt_coll_call_fini(&many->calls[i]);
		twt_coll_case_fini(&many->cases[i]);
	}
}

static void run_many(struct twt_rank *rank)
{
	const struct twt_coll_world world = {
		.n = rank->ranks, .segment_bytes = 1 << 20, .bytes_max = 8192, .depth = 4
	};
	struct many *many = calloc(1, sizeof(*many));

	TWT_TRUE(many != NULL);
	many->random = twt_coll_hash(seed, 1000 + rank->rank);
	TWT_OK(tow_queue_open(rank->runtime, MANY, &many->queue));
	for (uint32_t i = 0; i < MANY; i++) {
		twt_coll_case_init(&many->cases[i], twt_coll_hash(seed, i), &world);
		twt_coll_call_init(&many->calls[i], &many->cases[i], rank->rank, rank->group,
				   twt_coll_hash(many->random, i));
		many->order[i] = i;
	}
	if (is_last(rank))
		let_others_start(rank);
	start_many(rank, many);
	if (!is_last(rank)) {
		TWT_TRUE(rank->ranks == 1 || counted(rank, TWI_C_colls_held_back) > 0);
		let_others_start(rank);
	}
	for (uint32_t i = MANY; i > 1; i--) {
		uint32_t k = (uint32_t)twt_random_below(&many->random, i), was = many->order[k];

		many->order[k] = many->order[i - 1];
		many->order[i - 1] = was;
	}
	for (uint32_t i = 0; i < MANY; i++)
		end_one(rank, many, many->order[i]);
	judge_many(rank, many);
	TWT_OK(tow_queue_close(many->queue));
	TWT_TRUE(counted(rank, TWI_C_colls_started) == counted(rank, TWI_C_colls_completed));
	twt_coll_meet(rank);
	free(many);
}

static void test_many(void **state)
{
	(void)state;
	seed = twt_seed();
	for (uint32_t ranks = 2; ranks <= 4; ranks++)
		over_lanes(ranks, run_many, common_options);
}

/* --- what is held touches nothing --- */

#define LONG 200u /* collectives */

static float in[LONG][8], out[LONG][8];

static void write_inputs(const struct twt_rank *rank)
{
	for (uint32_t i = 0; i < LONG; i++)
		for (uint32_t k = 0; k < 8; k++)
			in[i][k] = (float)(rank->rank + i + k);
}

static void check_sums(const struct twt_rank *rank)
{
	for (uint32_t i = 0; i < LONG; i++) {
		for (uint32_t k = 0; k < 8; k++) {
			float sum = 0;

			for (uint32_t r = 0; r < rank->ranks; r++)
				sum += (float)(r + i + k);
			TWT_TRUE((i % 2 == 0 ? out : in)[i][k] == sum);
		}
	}
}

/*
 * Barriers take all places. What is behind them reads its input when it begins, though the program
 * should not write it any more; in a batch, when the fused one begins.
 */
static void stay_untouched(struct twt_rank *rank, bool batch)
{
	struct tow_op *ops[LONG], *first[TOW_COLL_IN_FLIGHT];
	uint64_t before;

	memset(in, 0xff, sizeof(in)); /* NaN */
	if (is_last(rank)) {
		let_others_start(rank);
		write_inputs(rank);
	}
	for (uint32_t i = 0; i < TOW_COLL_IN_FLIGHT; i++)
		TWT_OK(tow_coll_barrier_start(rank->group, NULL, &first[i]));
	before = counted(rank, TWI_C_combined_copy_bytes);
	if (batch)
		TWT_OK(tow_coll_batch_begin(rank->group));
	for (uint32_t i = 0; i < LONG; i++)
		TWT_OK(tow_coll_all_reduce_start(rank->group, in[i], i % 2 == 0 ? out[i] : in[i], 8,
						 TOW_F32, TOW_SUM, NULL, &ops[i]));
	if (batch)
		TWT_OK(tow_coll_batch_end(rank->group));
	if (!is_last(rank)) {
		TWT_TRUE(counted(rank, TWI_C_combined_copy_bytes) == before);
		write_inputs(rank);
		let_others_start(rank);
	}
	for (uint32_t i = 0; i < TOW_COLL_IN_FLIGHT; i++)
		TWT_OK(twt_coll_end(first[i]));
	for (uint32_t i = 0; i < LONG; i++)
		TWT_OK(twt_coll_end(ops[i]));
	check_sums(rank);
}

/* Once with a group that is not set up yet, and once more. */
static void run_untouched(struct twt_rank *rank)
{
	for (int i = 0; i < 4; i++)
		stay_untouched(rank, i % 2 == 1);
	twt_coll_meet(rank);
}

static void run_untouched_batch(struct twt_rank *rank)
{
	stay_untouched(rank, true);
	twt_coll_meet(rank);
}

static void test_untouched(void **state)
{
	(void)state;
	seed = twt_seed();
	over_lanes(2, run_untouched, common_options);
	over_lanes(3, run_untouched_batch, common_options);
}

/* --- words and bounds --- */

static void few_operations(struct tow_options *options)
{
	common_options(options);
	options->max_ops = 200;
}

static void check_report(struct twt_rank *rank, uint32_t behind)
{
	char wanted[40], *text;

	TWT_OK(tow_stats_get(rank->runtime, "/v1/coll", &text));
	snprintf(wanted, sizeof(wanted), "\"held_behind\":%u,", behind);
	TWT_TRUE(strstr(text, wanted) != NULL && strstr(text, "\"in_flight\":64,") != NULL);
	tow_stats_release(text);
}

/* max_ops is the bound; and waits say what they wait for. */
static void run_bound(struct twt_rank *rank)
{
	struct tow_op *ops[256], *none;
	uint32_t count = 0;
	int status = TOW_OK;

	twt_coll_meet(rank); /* connections take operations, too */
	if (is_last(rank))
		let_others_start(rank);
	while (!is_last(rank) &&
	       (status = tow_coll_barrier_start(rank->group, NULL, &ops[count])) == TOW_OK)
		count++;
	if (!is_last(rank)) {
		TWT_TRUE(status == TOW_EBUSY && strstr(tow_error_message(), "max_ops") != NULL);
		TWT_TRUE(count > 2 * TOW_COLL_IN_FLIGHT && ops[count] == NULL);
		TWT_TRUE(tow_coll_barrier_start(rank->group, NULL, &none) == TOW_EBUSY);
		TWT_TRUE(counted(rank, TWI_C_colls_held_back) == count - TOW_COLL_IN_FLIGHT);
		TWT_TRUE(tow_op_wait(ops[count - 1], 1000000) == TOW_ETIMEDOUT);
		TWT_TRUE(strstr(tow_error_message(), "waits behind other operations") != NULL);
		TWT_TRUE(tow_op_wait(ops[0], 1000000) == TOW_ETIMEDOUT);
		TWT_TRUE(strstr(tow_error_message(), "waits behind") == NULL);
		check_report(rank, count - TOW_COLL_IN_FLIGHT);
		atomic_store(&shared->count, count);
		let_others_start(rank);
	}
	for (; is_last(rank) && count < atomic_load(&shared->count); count++)
		while ((status = tow_coll_barrier_start(rank->group, NULL, &ops[count])) < 0)
			TWT_TRUE(status == TOW_EBUSY && tow_progress(rank->runtime) >= 0);
	while (count > 0)
		TWT_OK(twt_coll_end(ops[--count]));
	twt_coll_meet(rank);
}

static void test_bound(void **state)
{
	(void)state;
	seed = twt_seed();
	over_lanes(2, run_bound, few_operations);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_untouched),
		cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
