/*
 * test_plan.c - small plans step by step, which rows fit what, how payloads are cut in runs, what
 * is refused. That every plan gives the right result is the property test's.
 */
#include "plan_rules.h"

#include <towline/status.h>

static struct twi_plan_case of(enum twi_coll_kind kind, uint32_t rank, uint32_t ranks,
			       uint64_t count)
{
	return (struct twi_plan_case){ .kind = kind,
				       .type = TOW_F32,
				       .rank = rank,
				       .ranks = ranks,
				       .count = count,
				       .segment_bytes = 1 << 20,
				       .depth = 4 };
}

static struct twi_plan *made(const char *row, const struct twi_plan_case *what)
{
	struct twi_plan *plan = NULL;

	assert_non_null(twi_plan_find(row));
	assert_int_equal(twi_plan_build(twi_plan_find(row), what, &plan), TOW_OK);
	assert_non_null(plan);
	return plan;
}

static void step_is(const struct twi_plan *plan, uint32_t index, enum twi_plan_step_kind kind,
		    uint32_t stage, uint64_t bytes)
{
	assert_true(index < plan->step_count);
	assert_int_equal(plan->steps[index].kind, kind);
	assert_int_equal(plan->steps[index].stage, stage);
	assert_int_equal(plan->steps[index].bytes, bytes);
}

static void ref_is(const struct twi_plan *plan, uint32_t step, uint32_t index, uint32_t rank,
		   enum twi_plan_space space, uint64_t offset)
{
	const struct twi_plan_ref *ref = &plan->refs[plan->steps[step].ref + index];

	assert_int_equal(ref->rank, rank);
	assert_int_equal(ref->space, space);
	assert_int_equal(ref->offset, offset);
}

/* What the rank sends, in all runs. */
static void sent(const struct twi_plan *plan, uint64_t *bytes_out, uint64_t *messages_out)
{
	*bytes_out = *messages_out = 0;
	for (uint32_t p = 0; p < plan->program_count; p++) {
		const struct twi_plan_program *program = &plan->programs[p];

		for (uint32_t i = program->first; i < program->first + program->count; i++) {
			if (plan->steps[i].kind != TWI_PLAN_SEND)
				continue;
			*bytes_out += plan->steps[i].bytes * program->repeats;
			*messages_out += program->repeats;
		}
	}
}

static void exchange_of_two(void **state)
{
	struct twi_plan_case what = of(TWI_COLL_ALL_REDUCE, 1, 2, 100);
	struct twi_plan *plan;

	(void)state;
	what.in_place = true;
	what.reduce = TOW_AVG;
	plan = made("exchange", &what);
	assert_true(plan->canonical);
	assert_int_equal(plan->program_count, 1);
	assert_int_equal(plan->step_count, 3);
	assert_int_equal(plan->depth, 1);
	assert_int_equal(plan->messages_max, 2);
	assert_int_equal(plan->scratch_bytes, 448);
	step_is(plan, 0, TWI_PLAN_SEND, 0, 400);
	step_is(plan, 1, TWI_PLAN_RECV, 0, 400);
	step_is(plan, 2, TWI_PLAN_REDUCE, 1, 400);
	assert_int_equal(plan->steps[0].peer, 0);
	assert_int_equal(plan->steps[2].results_n, 1);
	assert_int_equal(plan->steps[2].sources_n, 2);
	assert_true(plan->steps[2].divide);
	ref_is(plan, 2, 0, 1, TWI_PLAN_OUT, 0);
	ref_is(plan, 2, 1, 1, TWI_PLAN_SCRATCH, 0);
	ref_is(plan, 2, 2, 1, TWI_PLAN_IN, 0);
	twi_plan_free(plan);
}

static void local_of_two(void **state)
{
	static const uint32_t both[] = { 0, 1 };
	struct twi_plan_case what = of(TWI_COLL_ALL_REDUCE, 1, 2, 100);
	struct twi_plan *plan;

	(void)state;
	what.locals = both;
	what.locals_n = 2;
	what.peers_write = true;
	plan = made("local", &what);
	assert_int_equal(plan->step_count, 3);
	assert_int_equal(plan->syncs, 2);
	assert_int_equal(plan->scratch_bytes, 0);
	assert_true(plan->programs[0].fence);
	step_is(plan, 0, TWI_PLAN_SYNC, 0, 0);
	/* 7 cache lines: 4 for rank 0, 3, of which the last is not full, for rank 1. */
	step_is(plan, 1, TWI_PLAN_REDUCE, 1, 144);
	step_is(plan, 2, TWI_PLAN_SYNC, 2, 0);
	ref_is(plan, 1, 0, 0, TWI_PLAN_OUT, 256);
	ref_is(plan, 1, 1, 1, TWI_PLAN_OUT, 256);
	ref_is(plan, 1, 2, 0, TWI_PLAN_IN, 256);
	ref_is(plan, 1, 3, 1, TWI_PLAN_IN, 256);
	twi_plan_free(plan);
	what.peers_write = false;
	plan = made("local", &what);
	assert_int_equal(plan->syncs, 3);
	step_is(plan, 3, TWI_PLAN_COPY, 3, 256);
	ref_is(plan, 3, 1, 0, TWI_PLAN_OUT, 0);
	twi_plan_free(plan);
}

static void cells(void **state)
{
	static const uint32_t both[] = { 0, 1 };
	struct twi_plan_case what = of(TWI_COLL_ALL_REDUCE, 0, 2, 16);
	struct twi_plan *plan;

	(void)state;
	what.locals = both;
	what.locals_n = 2;
	assert_false(twi_plan_fits(twi_plan_find("local-cell"), &what));
	what.cell_bytes = 64;
	plan = made("local-cell", &what);
	assert_int_equal(plan->syncs, 1);
	step_is(plan, 0, TWI_PLAN_COPY, 0, 64);
	step_is(plan, 1, TWI_PLAN_SYNC, 1, 0);
	step_is(plan, 2, TWI_PLAN_REDUCE, 2, 64);
	ref_is(plan, 2, 1, 0, TWI_PLAN_CELL, 0);
	ref_is(plan, 2, 2, 1, TWI_PLAN_CELL, 0);
	twi_plan_free(plan);
	what.count = 17;
	assert_false(twi_plan_fits(twi_plan_find("local-cell"), &what));
}

static void rows(void **state)
{
	struct twi_plan_case what = of(TWI_COLL_ALL_REDUCE, 0, 3, 8);
	static const uint32_t hosts[] = { 0, 0, 1 }, locals[] = { 0, 1 };
	uint32_t kinds = 0;

	(void)state;
	assert_null(twi_plan_find("none"));
	for (unsigned i = 0; i < twi_plan_row_count; i++) {
		assert_ptr_equal(twi_plan_find(twi_plan_rows[i].name), &twi_plan_rows[i]);
		assert_true(strlen(twi_plan_rows[i].what) > 10);
		if (!twi_plan_rows[i].local)
			kinds |= twi_plan_rows[i].kinds;
	}
	/* Without shared memory each kind has a plan, too. */
	assert_int_equal(kinds, (1u << TWI_COLL_KINDS) - 1);
	assert_string_equal(twi_coll_kind_name(TWI_COLL_ALL_TO_ALL_V), "all-to-all-v");
	assert_string_equal(twi_coll_kind_name(TWI_COLL_KINDS), "?");
	assert_true(twi_coll_kind_reduces(TWI_COLL_REDUCE));
	assert_false(twi_coll_kind_reduces(TWI_COLL_GATHER));
	assert_false(twi_plan_fits(twi_plan_find("bruck"), &what));
	assert_false(twi_plan_fits(twi_plan_find("local"), &what));
	assert_false(twi_plan_fits(twi_plan_find("hierarchical"), &what));
	what.hosts = hosts;
	what.hosts_n = 2;
	what.locals = locals;
	what.locals_n = 2;
	assert_true(twi_plan_fits(twi_plan_find("hierarchical"), &what));
	assert_false(twi_plan_fits(twi_plan_find("local"), &what));
	what.ranks = TWI_PLAN_SOURCES_MAX + 1;
	assert_false(twi_plan_fits(twi_plan_find("direct"), &what));
	assert_true(twi_plan_fits(twi_plan_find("ring"), &what));
	what.kind = TWI_COLL_ALL_GATHER;
	assert_true(twi_plan_fits(twi_plan_find("direct"), &what));
	what.count = 8 << 20;
	assert_false(twi_plan_fits(twi_plan_find("bruck"), &what));
}

/* docs/collectives.md says how much each rank sends. */
static void bytes_as_documented(void **state)
{
	static const struct {
		const char *row;
		enum twi_coll_kind kind;
		uint64_t bytes, messages; /* of rank 3 of 8, 64 KiB a rank or vector */
	} table[] = {
		{ "ring", TWI_COLL_ALL_REDUCE, 2 * 7 * 8192, 14 },
		{ "ring", TWI_COLL_REDUCE_SCATTER, 7 * 65536, 7 },
		{ "ring", TWI_COLL_ALL_GATHER, 7 * 65536, 7 },
		{ "direct", TWI_COLL_ALL_REDUCE, 2 * 7 * 8192, 14 },
		{ "direct", TWI_COLL_REDUCE, 8 * 8192, 8 },
		{ "direct", TWI_COLL_ALL_TO_ALL, 7 * 65536, 7 },
		{ "exchange", TWI_COLL_ALL_REDUCE, 7 * 65536, 7 },
		{ "exchange", TWI_COLL_REDUCE, 65536, 1 },
		{ "halving", TWI_COLL_ALL_REDUCE, 2 * 7 * 8192, 6 },
		{ "doubling", TWI_COLL_ALL_REDUCE, 3 * 65536, 3 },
		{ "double-tree", TWI_COLL_ALL_REDUCE, 65536 + 65536, 4 },
		{ "bruck", TWI_COLL_ALL_GATHER, 7 * 65536, 3 },
		{ "bruck", TWI_COLL_ALL_TO_ALL, 3 * 4 * 65536, 3 },
		{ "binomial", TWI_COLL_REDUCE, 65536, 1 },
		{ "dissemination", TWI_COLL_BARRIER, 0, 3 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct twi_plan_case what = of(table[i].kind, 3, 8, 16384);
		uint64_t bytes, messages;
		struct twi_plan *plan;

		what.segment_bytes = 1 << 30;
		plan = made(table[i].row, &what);
		sent(plan, &bytes, &messages);
		assert_int_equal(bytes, table[i].bytes);
		assert_int_equal(messages, table[i].messages);
		twi_plan_free(plan);
	}
}

static uint64_t runs(const struct twi_plan *plan)
{
	uint64_t sum = 0;

	for (uint32_t p = 0; p < plan->program_count; p++)
		sum += plan->programs[p].repeats;
	return sum;
}

static void segments(void **state)
{
	struct twi_plan_case what = of(TWI_COLL_BROADCAST, 1, 4, 10 << 20);
	struct twi_plan *plan = made("binomial", &what);

	(void)state;
	/* 40 MiB in runs of 1 MiB. */
	assert_int_equal(plan->program_count, 1);
	assert_int_equal(plan->programs[0].repeats, 40);
	assert_int_equal(plan->programs[0].in_stride, 1 << 20);
	assert_int_equal(plan->programs[0].out_stride, 1 << 20);
	assert_int_equal(plan->depth, 4);
	twi_plan_free(plan);
	/* A rest is a program of its own. */
	what.count += 5;
	plan = made("binomial", &what);
	assert_int_equal(plan->program_count, 2);
	assert_int_equal(plan->programs[1].repeats, 1);
	assert_int_equal(runs(plan), 41);
	twi_plan_free(plan);
	/* Messages of a ring have 4 KiB at least, whatever the segment. */
	what = of(TWI_COLL_ALL_REDUCE, 1, 16, 1 << 20);
	what.segment_bytes = 4096;
	plan = made("ring", &what);
	assert_int_equal(plan->steps[0].bytes, 4096);
	twi_plan_free(plan);
}

/* However large, no more runs than messages can name. */
static void many_runs(void **state)
{
	(void)state;
	for (unsigned i = 0; i < twi_plan_row_count; i++) {
		for (int kind = 0; kind < TWI_COLL_KINDS; kind++) {
			static const uint32_t hosts[] = { 0, 0, 1, 1, 2 }, locals[] = { 0, 1 };
			struct twi_plan_case what =
				of((enum twi_coll_kind)kind, 1, 5, (1ull << 52) + 12345);
			struct twi_plan *plan;

			what.hosts = hosts;
			what.hosts_n = 3;
			what.locals = locals;
			what.locals_n = 2;
			what.segment_bytes = 1;
			what.target = what.source = 2;
			if (kind == TWI_COLL_ALL_GATHER_V || kind == TWI_COLL_ALL_TO_ALL_V ||
			    !twi_plan_fits(&twi_plan_rows[i], &what))
				continue;
			plan = made(twi_plan_rows[i].name, &what);
			assert_true(runs(plan) <= TWI_PLAN_RUNS_MAX);
			twi_plan_free(plan);
		}
	}
}

static void thousands_of_ranks(void **state)
{
	struct twi_plan_case what = of(TWI_COLL_ALL_REDUCE, 4095, 4096, 1 << 20);
	struct twi_plan *plan = made("ring", &what);
	int status;

	(void)state;
	assert_int_equal(plan->steps[plan->step_count - 1].stage, 3 * 4095 - 1);
	twi_plan_free(plan);
	plan = made("double-tree", &what);
	assert_true(plan->step_count < 32);
	twi_plan_free(plan);
	/* More stages than a step can name. */
	what.ranks = 30000;
	status = twi_plan_build(twi_plan_find("ring"), &what, &plan);
	assert_int_equal(status, TOW_ENOTSUP);
	assert_non_null(strstr(tow_error_message(), "another plan"));
}

static void nothing_and_alone(void **state)
{
	(void)state;
	for (unsigned i = 0; i < twi_plan_row_count; i++) {
		struct twi_plan_case what = of(TWI_COLL_ALL_REDUCE, 0, 7, 0);
		struct twi_plan *plan;

		if (!(twi_plan_rows[i].kinds & 1u << TWI_COLL_ALL_REDUCE))
			continue;
		plan = made(twi_plan_rows[i].name, &what);
		assert_int_equal(plan->program_count, 0);
		assert_int_equal(plan->depth, 1);
		twi_plan_free(plan);
		what.ranks = 1;
		what.count = 9;
		plan = made(twi_plan_rows[i].name, &what);
		assert_int_equal(plan->step_count, 1);
		step_is(plan, 0, TWI_PLAN_COPY, 0, 36);
		twi_plan_free(plan);
		what.in_place = true;
		plan = made(twi_plan_rows[i].name, &what);
		assert_int_equal(plan->program_count, 0);
		twi_plan_free(plan);
	}
	twi_plan_free(NULL);
}

static void refused(const struct twi_plan_case *what, const char *word)
{
	struct twi_plan *plan = NULL;

	assert_int_equal(twi_plan_build(twi_plan_find("direct"), what, &plan), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), word));
	assert_null(plan);
}

static void wrong_cases(void **state)
{
	static const uint32_t twisted[] = { 1, 0 }, strangers[] = { 1, 2 }, hosts[] = { 0, 1, 9 };
	static const struct tow_coll_pair pair = { 0, 3 };
	const struct twi_plan_case good = of(TWI_COLL_SEND_RECEIVE, 0, 3, 10);
	struct twi_plan_case what = good;
	struct twi_plan *plan;

	(void)state;
#define WRONG(member, value, word)                                                                 \
	what = good;                                                                               \
	what.member = (value);                                                                     \
	refused(&what, word)
	WRONG(rank, 3, "rank 3 of 3");
	WRONG(root, 4, "root 4 of 3");
	WRONG(ranks, 0, "from 1");
	WRONG(depth, 0, "from 1");
	WRONG(segment_bytes, 0, "from 1");
	WRONG(target, 3, "target 3");
	WRONG(source, 7, "source 7");
	WRONG(type, TOW_TYPE_COUNT, "type 17");
	WRONG(kind, TWI_COLL_KINDS, "collective 13");
	WRONG(count, UINT64_MAX / 8, "too many");
#undef WRONG
	what = good;
	what.pairs = &pair;
	what.pair_count = 1;
	refused(&what, "pair 0");
	what = good;
	what.locals_n = 2;
	what.locals = twisted;
	refused(&what, "ascending");
	what.locals = strangers;
	refused(&what, "not among");
	what = good;
	what.hosts = hosts;
	what.hosts_n = 2;
	refused(&what, "host 9");
	what = good;
	assert_int_equal(twi_plan_build(twi_plan_find("ring"), &what, &plan), TOW_ENOTSUP);
	assert_non_null(strstr(tow_error_message(), "send-receive"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exchange_of_two),
		cmocka_unit_test(local_of_two),
		cmocka_unit_test(cells),
		cmocka_unit_test(rows),
		cmocka_unit_test(bytes_as_documented),
		cmocka_unit_test(segments),
		cmocka_unit_test(many_runs),
		cmocka_unit_test(thousands_of_ranks),
		cmocka_unit_test(nothing_and_alone),
		cmocka_unit_test(wrong_cases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
