/*
 * test_coll_batch.c - fused all-reduces between processes: results, order, thresholds, the ways in
 * which what is held back is let go, and how one ends for all.
 */
#include "coll_team.h"
#include "lane_pair.h"

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

#define PARTS 16

static uint64_t counted(struct twt_rank *rank, enum twi_counter counter)
{
	return twi_counter_sum(twi_runtime_engine(rank->runtime)->diag, counter);
}

/* Small whole numbers: their sums are exact in any order. */
static float value(uint32_t rank, uint32_t part, uint64_t i)
{
	return (float)((i * 7 + part * 31 + rank * 3) % 1000);
}

static void fill(float *at, uint64_t count, uint32_t rank, uint32_t part)
{
	for (uint64_t i = 0; i < count; i++)
		at[i] = value(rank, part, i);
}

static void check_sum(const float *at, uint64_t count, uint32_t ranks, uint32_t part)
{
	for (uint64_t i = 0; i < count; i++) {
		float sum = 0;

		for (uint32_t r = 0; r < ranks; r++)
			sum += value(r, part, i);
		TWT_TRUE(at[i] == sum);
	}
}

static void check_max(const float *at, uint64_t count, uint32_t ranks, uint32_t part)
{
	for (uint64_t i = 0; i < count; i++) {
		float most = 0;

		for (uint32_t r = 0; r < ranks; r++)
			most = most > value(r, part, i) ? most : value(r, part, i);
		TWT_TRUE(at[i] == most);
	}
}

/* Some sums, in the pool and outside of it, in place and not, with counts that fit nothing. */
struct set {
	uint32_t n;
	uint64_t counts[PARTS];
	float *in[PARTS], *out[PARTS];
	struct tow_op *ops[PARTS];
};

static void make_set(struct twt_rank *rank, struct set *set, const uint64_t *counts, uint32_t n)
{
	*set = (struct set){ .n = n };
	for (uint32_t i = 0; i < n; i++) {
		size_t bytes = (size_t)counts[i] * sizeof(float) + 4;
		void *in, *out;

		set->counts[i] = counts[i];
		TWT_OK(tow_alloc(rank->runtime, bytes, 0, &in));
		if (i % 3 == 0)
			out = in;
		else
			out = malloc(bytes);
		TWT_TRUE(out != NULL);
		set->in[i] = in;
		set->out[i] = out;
		fill(set->in[i], counts[i], rank->rank, i);
	}
}

static void end_set(struct twt_rank *rank, struct set *set)
{
	for (uint32_t i = 0; i < set->n; i++) {
		if (set->out[i] != set->in[i])
			free(set->out[i]);
		TWT_OK(tow_free(rank->runtime, set->in[i]));
	}
}

static void start_sums(struct twt_rank *rank, struct set *set)
{
	for (uint32_t i = 0; i < set->n; i++)
		TWT_OK(tow_coll_all_reduce_start(rank->group, set->in[i], set->out[i],
						 set->counts[i], TOW_F32, TOW_SUM, NULL,
						 &set->ops[i]));
}

static void end_sums(struct twt_rank *rank, struct set *set)
{
	for (uint32_t i = 0; i < set->n; i++) {
		TWT_OK(twt_coll_end(set->ops[i]));
		check_sum(set->out[i], set->counts[i], rank->ranks, i);
	}
}

/* As many as are fused, all and nothing else. */
static void sums(struct twt_rank *rank, const uint64_t *counts, uint32_t n, uint64_t fused)
{
	uint64_t before = counted(rank, TWI_C_combined_collectives);
	struct set set;

	make_set(rank, &set, counts, n);
	TWT_OK(tow_coll_batch_begin(rank->group));
	start_sums(rank, &set);
	TWT_TRUE(tow_op_test(set.ops[0]) == TOW_AGAIN); /* the batch is not issued by it */
	TWT_TRUE(counted(rank, TWI_C_combined_collectives) == before);
	TWT_OK(tow_coll_batch_end(rank->group));
	end_sums(rank, &set);
	TWT_TRUE(counted(rank, TWI_C_combined_collectives) - before == fused);
	end_set(rank, &set);
}

static void run_sums(struct twt_rank *rank)
{
	static const uint64_t odd[] = { 0, 1, 7, 16, 100, 0, 1001, 3 }, none[] = { 0, 0 };
	uint64_t plans, copied = counted(rank, TWI_C_combined_copy_bytes);

	sums(rank, odd, 8, 8);
	TWT_TRUE(counted(rank, TWI_C_combined_copy_bytes) - copied == 2 * 4 * 1128);
	sums(rank, none, 2, 2);
	plans = counted(rank, TWI_C_coll_plans_built);
	sums(rank, odd, 8, 8); /* the same again: nothing is built */
	TWT_TRUE(counted(rank, TWI_C_coll_plans_built) == plans);
	TWT_OK(tow_coll_batch_begin(rank->group)); /* an empty one */
	TWT_OK(tow_coll_batch_end(rank->group));
	twt_coll_meet(rank);
}

static void over_lanes(uint32_t ranks, void (*run)(struct twt_rank *rank),
		       void (*options)(struct tow_options *options))
{
	for (unsigned i = 0; i < TWT_LANE_ROWS_ALWAYS; i++)
		twt_ranks(&(struct twt_job){ .ranks = ranks,
					     .lane = twt_lane_rows[i].address[0],
					     .run = run,
					     .options = options });
}

static void test_sums(void **state)
{
	(void)state;
	over_lanes(2, run_sums, NULL);
	over_lanes(3, run_sums, NULL);
	twt_ranks(&(struct twt_job){
		.ranks = 1, .lane = twt_lane_rows[TWT_LANE_ROW_SHM].address[0], .run = run_sums });
}

static void kib_threshold(struct tow_options *options)
{
	options->combine_threshold_bytes = 1024;
}

static void no_threshold(struct tow_options *options)
{
	options->combine_threshold_bytes = 0;
}

static void run_edges(struct twt_rank *rank)
{
	static const uint64_t full[] = { 128, 128, 1 }, alone[] = { 256, 1 }, over[] = { 257, 1 },
			      late[] = { 1, 1, 255, 1 };

	sums(rank, full, 3, 2);
	sums(rank, alone, 2, 0);
	sums(rank, over, 2, 0);
	sums(rank, late, 4, 4);
	twt_coll_meet(rank);
}

static void run_never(struct twt_rank *rank)
{
	static const uint64_t counts[] = { 0, 0, 1, 1 };

	sums(rank, counts, 4, 0);
	twt_coll_meet(rank);
}

static void test_threshold(void **state)
{
	(void)state;
	over_lanes(2, run_edges, kib_threshold);
	over_lanes(2, run_never, no_threshold);
}

/* What cannot be fused divides the batch, and all of it keeps its order. */
static void run_mixed(struct twt_rank *rank)
{
	static const uint64_t counts[] = { 5, 6, 7, 8, 9, 10, 11, 12 };
	struct tow_coll_options urgent = TOW_COLL_OPTIONS_INIT;
	uint64_t before;
	uint32_t word = rank->rank == 1 ? 4711 : 0;
	struct tow_op *op;
	struct set set;

	urgent.priority = 3;
	urgent.name = "urgent";
	twt_coll_meet(rank);
	before = counted(rank, TWI_C_combined_collectives);
	make_set(rank, &set, counts, 8);
	TWT_OK(tow_coll_batch_begin(rank->group));
#define START(i, reduce, options)                                                                  \
	TWT_OK(tow_coll_all_reduce_start(rank->group, set.in[i], set.out[i], counts[i], TOW_F32,   \
					 reduce, options, &set.ops[i]))
	START(0, TOW_SUM, NULL);
	START(1, TOW_SUM, NULL);
	TWT_OK(tow_coll_broadcast_start(rank->group, &word, 1, TOW_U32, 1, NULL, &op));
	START(2, TOW_SUM, NULL);
	START(3, TOW_MAX, NULL);
	START(4, TOW_MAX, NULL);
	START(5, TOW_MAX, &urgent);
	START(6, TOW_MAX, &urgent);
	START(7, TOW_MAX, NULL);
#undef START
	TWT_OK(tow_coll_batch_end(rank->group));
	for (uint32_t i = 0; i < 8; i++) {
		TWT_OK(twt_coll_end(set.ops[i]));
		if (i < 3)
			check_sum(set.out[i], counts[i], rank->ranks, i);
		else
			check_max(set.out[i], counts[i], rank->ranks, i);
	}
	TWT_OK(twt_coll_end(op));
	TWT_TRUE(word == 4711);
	TWT_TRUE(counted(rank, TWI_C_combined_collectives) - before == 6);
	end_set(rank, &set);
	twt_coll_meet(rank);
}

static void test_mixed(void **state)
{
	(void)state;
	over_lanes(3, run_mixed, NULL);
}

/* Parts of one fused all-reduce have factors of their own. */
static void run_scaled(struct twt_rank *rank)
{
	uint64_t before = counted(rank, TWI_C_combined_collectives);
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	static float in[PARTS][9], out[PARTS][9];
	struct tow_op *ops[PARTS];

	TWT_OK(tow_coll_batch_begin(rank->group));
	for (uint32_t i = 0; i < PARTS; i++) {
		fill(in[i], 9, rank->rank, i);
		options.scale = i % 3 == 0 ? 0 : (double)(1 + i);
		TWT_OK(tow_coll_all_reduce_start(rank->group, in[i], i % 2 == 0 ? in[i] : out[i], 9,
						 TOW_F32, TOW_SUM, &options, &ops[i]));
	}
	TWT_OK(tow_coll_batch_end(rank->group));
	for (uint32_t i = 0; i < PARTS; i++) {
		float factor = i % 3 == 0 ? 1 : (float)(1 + i), *at = i % 2 == 0 ? in[i] : out[i];

		TWT_OK(twt_coll_end(ops[i]));
		for (uint64_t k = 0; k < 9; k++)
			at[k] /= factor; /* small whole numbers: exact */
		check_sum(at, 9, rank->ranks, i);
	}
	TWT_TRUE(counted(rank, TWI_C_combined_collectives) - before == PARTS);
	twt_coll_meet(rank);
}

static void test_scaled(void **state)
{
	(void)state;
	over_lanes(3, run_scaled, NULL);
}

static void run_misuse(struct twt_rank *rank)
{
	struct tow_op *ops[3 * TOW_COLL_IN_FLIGHT];
	float data = 1;

	TWT_TRUE(tow_coll_batch_begin(NULL) == TOW_EINVAL);
	TWT_TRUE(tow_coll_batch_end(NULL) == TOW_EINVAL);
	TWT_TRUE(tow_coll_batch_end(rank->group) == TOW_EINVAL);
	TWT_OK(tow_coll_batch_begin(rank->group));
	TWT_TRUE(tow_coll_batch_begin(rank->group) == TOW_EINVAL);
	for (uint32_t i = 0; i < 3 * TOW_COLL_IN_FLIGHT; i++) /* a batch may have any number */
		TWT_OK(tow_coll_all_reduce_start(rank->group, &data, &data, 0, TOW_F32, TOW_SUM,
						 NULL, &ops[i]));
	TWT_OK(tow_coll_batch_end(rank->group));
	for (uint32_t i = 0; i < 3 * TOW_COLL_IN_FLIGHT; i++)
		TWT_OK(twt_coll_end(ops[i]));
	TWT_TRUE(tow_coll_batch_end(rank->group) == TOW_EINVAL);
	twt_coll_meet(rank);
}

static void test_misuse(void **state)
{
	(void)state;
	over_lanes(2, run_misuse, NULL);
}

/* --- the knob --- */

static void combine(struct tow_options *options)
{
	options->combine = 1;
	options->combine_threshold_bytes = 4096;
}

static void by_wait(struct twt_rank *rank, struct set *set)
{
	(void)rank;
	TWT_OK(tow_op_wait(set->ops[1], 60 * TWT_SECOND));
}

static void by_test(struct twt_rank *rank, struct set *set)
{
	(void)rank;
	for (int i = 0; i < 60000 && tow_op_test(set->ops[2]) == TOW_AGAIN; i++)
		usleep(1000);
	TWT_OK(tow_op_test(set->ops[2]));
}

/* Waits until there is a result. */
static int look(struct tow_op *op)
{
	struct tow_result result = { .size = sizeof(result) };

	for (int i = 0; i < 60000 && tow_op_result(op, &result) == TOW_AGAIN; i++)
		usleep(1000);
	return tow_op_result(op, &result);
}

static void by_flush(struct twt_rank *rank, struct set *set)
{
	struct tow_result result = { .size = sizeof(result) };

	tow_flush(rank->runtime);
	TWT_OK(look(set->ops[0])); /* it moves by itself */
	TWT_OK(tow_op_result(set->ops[0], &result));
	TWT_TRUE(result.bytes == set->counts[0] * sizeof(float));
}

static void by_another(struct twt_rank *rank, struct set *set)
{
	(void)set;
	twt_coll_meet(rank);
}

static void run_knob(struct twt_rank *rank)
{
	static void (*const ways[])(struct twt_rank * rank,
				    struct set * set) = { by_wait, by_test, by_flush, by_another };
	static const uint64_t counts[] = { 3, 0, 17, 1003 };

	for (unsigned i = 0; i < 4; i++) {
		uint64_t before = counted(rank, TWI_C_combined_collectives);
		uint64_t runs = counted(rank, TWI_C_colls_started);
		struct set set;

		make_set(rank, &set, counts, 4); /* 4,092 bytes */
		start_sums(rank, &set);
		TWT_TRUE(counted(rank, TWI_C_colls_started) == runs);
		ways[i](rank, &set);
		end_sums(rank, &set);
		TWT_TRUE(counted(rank, TWI_C_combined_collectives) - before == 4);
		end_set(rank, &set);
	}
	twt_coll_meet(rank);
}

/* The threshold would be passed, another operator, too large to be held: what was held goes. */
static void run_knob_edges(struct twt_rank *rank)
{
	static const uint64_t counts[] = { 1000, 24, 1, 1, 1025 };
	uint64_t before = counted(rank, TWI_C_combined_collectives);
	uint64_t runs = counted(rank, TWI_C_colls_started);
	struct set set;

	make_set(rank, &set, counts, 5);
#define START(i, reduce)                                                                           \
	TWT_OK(tow_coll_all_reduce_start(rank->group, set.in[i], set.out[i], counts[i], TOW_F32,   \
					 reduce, NULL, &set.ops[i]))
	START(0, TOW_SUM);
	START(1, TOW_SUM); /* 4,096 bytes */
	TWT_TRUE(counted(rank, TWI_C_colls_started) - runs == 0);
	START(2, TOW_SUM);
	TWT_TRUE(counted(rank, TWI_C_colls_started) - runs == 1);
	START(3, TOW_MAX);
	TWT_TRUE(counted(rank, TWI_C_colls_started) - runs == 2);
	START(4, TOW_MAX);
	TWT_TRUE(counted(rank, TWI_C_colls_started) - runs == 4);
#undef START
	for (uint32_t i = 0; i < 5; i++) {
		TWT_OK(twt_coll_end(set.ops[i]));
		if (i < 3)
			check_sum(set.out[i], counts[i], rank->ranks, i);
		else
			check_max(set.out[i], counts[i], rank->ranks, i);
	}
	TWT_TRUE(counted(rank, TWI_C_combined_collectives) - before == 2);
	end_set(rank, &set);
	twt_coll_meet(rank);
}

/*
 * Starts `n` sums of one number. The other rank may be faster, and have broken the group: then
 * there is no operation. Returns how many there are.
 */
static int start_some(struct twt_rank *rank, float *data, struct tow_op **ops, int n)
{
	int started = 0;

	for (int i = 0; i < n; i++) {
		int status = tow_coll_all_reduce_start(rank->group, &data[i], &data[i], 1, TOW_F32,
						       TOW_SUM, NULL, &ops[i]);

		TWT_TRUE(status == TOW_OK || status == TOW_EPEER);
		started += status == TOW_OK;
		TWT_TRUE(status < 0 || started == i + 1);
	}
	return started;
}

/* The group goes while calls are held back: they end, and the message says why. */
static void run_knob_close(struct twt_rank *rank)
{
	float data[2] = { 0 };
	struct tow_op *ops[2];
	int n;

	twt_coll_meet(rank);
	n = start_some(rank, data, ops, 2);
	TWT_TRUE(rank->rank != 0 || n == 2);
	if (rank->rank == 1) /* it stays until it has heard of it */
		for (int i = 0; i < n; i++)
			tow_op_wait(ops[i], 60 * TWT_SECOND);
	TWT_OK(tow_group_close(rank->group));
	rank->group = NULL;
	for (int i = 0; i < n; i++) {
		int status = tow_op_wait(ops[i], 60 * TWT_SECOND);

		TWT_TRUE(status == TOW_ECLOSED || status == TOW_EPEER);
		TWT_TRUE(strstr(tow_error_message(), "closed the group") != NULL);
		TWT_OK(tow_op_release(ops[i]));
	}
}

static void test_knob(void **state)
{
	(void)state;
	over_lanes(2, run_knob, combine);
	over_lanes(3, run_knob_edges, combine);
	over_lanes(2, run_knob_close, combine);
}

/* --- ends --- */

/* One that is canceled takes its company along, at all ranks. */
static void run_cancel(struct twt_rank *rank)
{
	float data[3] = { 0 };
	struct tow_op *ops[3];
	int n;

	twt_coll_meet(rank);
	TWT_OK(tow_coll_batch_begin(rank->group));
	n = start_some(rank, data, ops, 3);
	TWT_TRUE(rank->rank == 1 || n == 3);
	if (rank->rank == 0) {
		TWT_OK(tow_coll_batch_end(rank->group));
		TWT_OK(tow_op_cancel(ops[1]));
	}
	for (int i = 0; i < n; i++) {
		/* The other rank's are still held: the group breaks under them. */
		TWT_TRUE(twt_coll_end(ops[i]) == TOW_ECANCELED);
		TWT_TRUE(strstr(tow_error_message(), "rank 0 has canceled") != NULL);
	}
	if (rank->rank == 1)
		TWT_OK(tow_coll_batch_end(rank->group));
	TWT_TRUE(tow_coll_barrier_start(rank->group, NULL, &ops[0]) == TOW_EPEER);
}

/* One that is canceled while it is held is issued, and then canceled. */
static void run_cancel_held(struct twt_rank *rank)
{
	float data[2] = { 0 };
	struct tow_op *ops[2];
	int n;

	twt_coll_meet(rank);
	n = start_some(rank, data, ops, 2);
	TWT_TRUE(rank->rank == 1 || n == 2);
	if (rank->rank == 0)
		TWT_OK(tow_op_cancel(ops[1]));
	for (int i = 0; i < n; i++) /* who looks at a result does not let it go */
		TWT_TRUE(rank->rank == 0 || look(ops[i]) == TOW_OK);
	for (int i = 0; i < n; i++)
		TWT_TRUE(twt_coll_end(ops[i]) == TOW_ECANCELED);
}

static void run_deadline(struct twt_rank *rank)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	float data[2] = { 0 };
	struct tow_op *ops[2];

	twt_coll_meet(rank);
	if (rank->rank == 1) { /* does not come, and hears why it should have */
		for (int i = 0; i < 6000; i++) {
			int status = tow_coll_barrier_start(rank->group, NULL, &ops[0]);

			if (status == TOW_EPEER)
				return;
			TWT_OK(status);
			status = twt_coll_end(ops[0]);
			TWT_TRUE(status < 0);
		}
		TWT_TRUE(false);
	}
	TWT_OK(tow_coll_batch_begin(rank->group));
	options.timeout_ns = TOW_FOREVER;
	TWT_OK(tow_coll_all_reduce_start(rank->group, &data[0], &data[0], 1, TOW_F32, TOW_SUM,
					 &options, &ops[0]));
	options.timeout_ns = 100 * 1000 * 1000;
	TWT_OK(tow_coll_all_reduce_start(rank->group, &data[1], &data[1], 1, TOW_F32, TOW_SUM,
					 &options, &ops[1]));
	TWT_OK(tow_coll_batch_end(rank->group));
	for (int i = 0; i < 2; i++)
		TWT_TRUE(twt_coll_end(ops[i]) < 0);
}

/* The same sum of counts, divided otherwise. */
static void run_mismatch(struct twt_rank *rank)
{
	uint64_t counts[2] = { rank->rank == 0 ? 16 : 48, rank->rank == 0 ? 48 : 16 };
	float data[2][48] = { { 0 } };
	struct tow_op *ops[2];

	twt_coll_meet(rank);
	TWT_OK(tow_coll_batch_begin(rank->group));
	for (int i = 0; i < 2; i++)
		TWT_OK(tow_coll_all_reduce_start(rank->group, data[i], data[i], counts[i], TOW_F32,
						 TOW_SUM, NULL, &ops[i]));
	TWT_OK(tow_coll_batch_end(rank->group));
	for (int i = 0; i < 2; i++) {
		TWT_TRUE(twt_coll_end(ops[i]) == TOW_EMISMATCH);
		TWT_TRUE(strstr(tow_error_message(), "2 combined") != NULL);
	}
}

/* Fused at one rank, not at the other. */
static void run_alone(struct twt_rank *rank)
{
	float data[2] = { 0 };
	struct tow_op *ops[2];
	int n;

	twt_coll_meet(rank);
	if (rank->rank == 0)
		TWT_OK(tow_coll_batch_begin(rank->group));
	n = start_some(rank, data, ops, 2);
	if (rank->rank == 0)
		TWT_OK(tow_coll_batch_end(rank->group));
	TWT_TRUE(n > 0);
	for (int i = 0; i < n; i++)
		TWT_TRUE(twt_coll_end(ops[i]) == TOW_EMISMATCH);
}

static void test_ends(void **state)
{
	(void)state;
	over_lanes(2, run_cancel, NULL);
	over_lanes(2, run_cancel_held, combine);
	over_lanes(2, run_mismatch, NULL);
	over_lanes(2, run_alone, NULL);
}

static void test_deadline(void **state)
{
	(void)state;
	over_lanes(2, run_deadline, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),     cmocka_unit_test(test_threshold),
		cmocka_unit_test(test_mixed),    cmocka_unit_test(test_misuse),
		cmocka_unit_test(test_knob),     cmocka_unit_test(test_ends),
		cmocka_unit_test(test_deadline), cmocka_unit_test(test_scaled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
