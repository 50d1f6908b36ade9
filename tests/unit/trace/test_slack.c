/* test_slack.c - slack, stall, observed duration and bytes, against numbers worked out by hand. */
#include "twt.h"

#include <jansson.h>
#include <string.h>

#include "diag/base/emit.h"
#include "diag/record/coll_kind.h"
#include "diag/trace/slack.h"
#include "diag/trace/trace_view.h"
#include "traced.h"

#define ID(group, seq) ((uint64_t)(group) << 32 | (seq))

static void formulas(void **state)
{
	static const struct {
		unsigned kind;
		uint64_t ranks, bytes, want;
		bool sized;
	} rows[] = {
		{ TWI_COLL_ALL_REDUCE, 4, 1000, 1500, true },
		{ TWI_COLL_ALL_REDUCE, 1, 1000, 0, true },
		{ TWI_COLL_ALL_REDUCE, 3, 100, 133, true },
		{ TWI_COLL_ALL_GATHER, 4, 1000, 750, true },
		{ TWI_COLL_ALL_GATHER_V, 4, 1000, 750, true },
		{ TWI_COLL_ALL_TO_ALL, 8, 800, 700, true },
		{ TWI_COLL_ALL_TO_ALL_V, 8, 800, 700, true },
		{ TWI_COLL_REDUCE_SCATTER, 4, 1000, 750, true },
		{ TWI_COLL_PERMUTE, 4, 1000, 1000, true },
		{ TWI_COLL_SEND_RECEIVE, 4, 1000, 1000, true },
		{ TWI_COLL_ALL_REDUCE, 0, 1000, 0, true },
		{ TWI_COLL_REDUCE_SCATTER, 0, 1000, 0, true },
		{ TWI_COLL_BROADCAST, 4, 1000, 0, false },
		{ TWI_COLL_BARRIER, 4, 0, 0, false },
		{ TWI_COLL_KINDS, 4, 1000, 0, false },
		{ TWI_COLL_ALL_REDUCE, 1u << 31, UINT64_MAX, UINT64_MAX, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t got = 7;

		assert_int_equal(
			twi_slack_wire_bytes(rows[i].kind, rows[i].ranks, rows[i].bytes, &got),
			rows[i].sized);
		assert_true(got == rows[i].want);
	}
	/* 1500 B in 600 ns: 20 Gb/s. 1 B in 3 ns: 2.666.. Gb/s, rounded down. */
	assert_true(twi_slack_required(1500, 600) == 20000000000u);
	assert_true(twi_slack_required(1, 3) == 2666666666u);
	assert_true(twi_slack_required(0, 0) == 0);
	assert_true(twi_slack_required(1, 0) == TWI_SLACK_UNBOUNDED);
	assert_true(twi_slack_required(UINT64_MAX, 1) < TWI_SLACK_UNBOUNDED);
}

/*
 *	0    100 120        300 330      500       700 720    900
 *	     |A call|        |B call|     |wait A---|  |wait B-|
 */
static void two_overlapping(void **state)
{
	struct twt_build b;
	struct twi_slack slack;
	const struct twi_slack_row *a, *other;

	(void)state;
	twt_build_init(&b, 1, 1, 8, 0, 1000);
	twt_build_coll(&b, 0, 0, TWI_COLL_ALL_REDUCE, ID(1, 1), 1000, 100, 20, 690)->ranks = 2;
	twt_build_coll(&b, 0, 0, TWI_COLL_ALL_GATHER, ID(1, 2), 1000, 300, 30, 890)->ranks = 2;
	twt_build_wait(&b, 0, 0, TWI_SPAN_COLL, ID(1, 1), 500, 700);
	twt_build_wait(&b, 0, 0, TWI_SPAN_COLL, ID(1, 2), 720, 900);
	assert_int_equal(twi_slack_make(&b.trace, &slack), 0);
	assert_int_equal(slack.row_count, 2);
	a = &slack.rows[0];
	other = &slack.rows[1];
	assert_int_equal(a->observed_ns, 600);
	assert_int_equal(a->send_ns, 20);
	assert_int_equal(a->wait_ns, 200);
	/* 500 - 100, less its own call and B's */
	assert_int_equal(a->slack_ns, 400 - 20 - 30);
	assert_int_equal(a->wire_bytes, 1000);
	assert_true(a->required_bps == 1000ull * 8 * 1000000000 / 350);
	assert_true(a->waited);
	assert_int_equal(other->observed_ns, 600);
	/* 720 - 300, less its own call and the wait for A */
	assert_int_equal(other->slack_ns, 420 - 30 - 200);
	assert_int_equal(other->wire_bytes, 500);
	assert_int_equal(slack.group_count, 2);
	/* the dearer first: 220 against 210 */
	assert_int_equal(slack.groups[0].kind, TWI_COLL_ALL_REDUCE);
	assert_int_equal(slack.groups[0].stall_total_ns, 220);
	assert_int_equal(slack.groups[1].stall_total_ns, 210);
	twi_slack_fini(&slack);
	twt_build_fini(&b);
}

/* Waited for twice, never, by another thread, and before it had begun by a liar's clock. */
static void odd_waits(void **state)
{
	struct twt_build b;
	struct twi_slack slack;

	(void)state;
	twt_build_init(&b, 1, 2, 16, 0, 10000);
	twt_build_coll(&b, 0, 0, TWI_COLL_BROADCAST, ID(1, 1), 64, 100, 10, 600);
	twt_build_wait(&b, 0, 0, TWI_SPAN_COLL, ID(1, 1), 200, 250); /* a deadline */
	twt_build_wait(&b, 0, 1, TWI_SPAN_COLL, ID(1, 1), 400, 650);
	twt_build_coll(&b, 0, 0, TWI_COLL_BARRIER, ID(1, 2), 0, 1000, 50, 1500);
	twt_build_coll(&b, 0, 0, TWI_COLL_BARRIER, ID(1, 3), 0, 3000, UINT32_MAX, 3200);
	twt_build_wait(&b, 0, 0, TWI_SPAN_COLL, ID(1, 3), 2000, 2500);
	twt_build_coll(&b, 0, 0, TWI_COLL_BARRIER, ID(1, 4), 0, 5000, 0, 4000); /* ends before */
	assert_int_equal(twi_slack_make(&b.trace, &slack), 0);
	assert_int_equal(slack.row_count, 4);
	assert_int_equal(slack.rows[0].wait_ns, 300);
	assert_int_equal(slack.rows[0].observed_ns, 550);
	assert_int_equal(slack.rows[0].slack_ns, 300 - 10 - 50);
	assert_false(slack.rows[0].sized);
	assert_int_equal(slack.rows[0].required_bps, 0);
	assert_false(slack.rows[1].waited);
	assert_int_equal(slack.rows[1].observed_ns, 500);
	assert_int_equal(slack.rows[1].slack_ns, 450);
	assert_int_equal(slack.rows[2].send_ns, 200); /* not more than it lasted */
	assert_int_equal(slack.rows[2].slack_ns, 0);
	assert_int_equal(slack.rows[2].observed_ns, 0);
	assert_int_equal(slack.rows[3].observed_ns, 0);
	twi_slack_fini(&slack);
	twt_build_fini(&b);
}

/* Waits for messages take slack; waits for a device do not. */
static void other_operations(void **state)
{
	struct twt_build b;
	struct twi_slack slack;

	(void)state;
	twt_build_init(&b, 1, 1, 8, 0, 1000);
	twt_build_coll(&b, 0, 0, TWI_COLL_ALL_REDUCE, ID(1, 1), 1000, 100, 10, 690);
	twt_build_wait(&b, 0, 0, TWI_SPAN_RECV, 77, 200, 240);
	twt_build_wait(&b, 0, 0, TWI_SPAN_DEVICE, 78, 300, 350);
	twt_build_wait(&b, 0, 0, TWI_SPAN_COLL, ID(1, 1), 600, 700);
	assert_int_equal(twi_slack_make(&b.trace, &slack), 0);
	assert_int_equal(slack.rows[0].slack_ns, 500 - 10 - 40);
	twi_slack_fini(&slack);
	twt_build_fini(&b);
}

/* 100 occurrences at two ranks, with stalls of 1..200 ns. */
static void quantiles(void **state)
{
	struct twt_build b;
	struct twi_slack slack;
	const struct twi_slack_group *g;

	(void)state;
	twt_build_init(&b, 2, 1, 256, 0, 100000);
	for (unsigned i = 0; i < 200; i++) {
		size_t rank = i & 1;
		uint64_t id = ID(5, i / 2 + 1), at = 1000ull * (i / 2);

		twt_build_coll(&b, rank, 0, TWI_COLL_ALL_REDUCE, id, 4000, at, 0, at + 500)->name =
			twt_build_name(&b, rank, "gradients");
		twt_build_wait(&b, rank, 0, TWI_SPAN_COLL, id, at + 100, at + 100 + i + 1);
	}
	assert_int_equal(twi_slack_make(&b.trace, &slack), 0);
	assert_int_equal(slack.group_count, 1);
	g = &slack.groups[0];
	assert_int_equal(g->occurrences, 200);
	assert_int_equal(g->seen_ranks, 2);
	assert_int_equal(g->context, 5);
	assert_string_equal(g->name, "gradients");
	assert_int_equal(g->stall.p50, 100);
	assert_int_equal(g->stall.p99, 198);
	assert_int_equal(g->stall.max, 200);
	assert_int_equal(g->stall.mean, 100); /* 100.5 */
	assert_int_equal(g->stall_total_ns, 20100);
	assert_int_equal(g->slack.p50, 100);
	/* 4000 B in 100 ns */
	assert_true(g->required_bps == 320000000000u);
	twi_slack_fini(&slack);
	twt_build_fini(&b);
}

static void groups_apart(void **state)
{
	struct twt_build b;
	struct twi_slack slack;

	(void)state;
	twt_build_init(&b, 1, 1, 8, 0, 1000);
	twt_build_coll(&b, 0, 0, TWI_COLL_ALL_REDUCE, ID(1, 1), 8, 0, 0, 10);
	twt_build_coll(&b, 0, 0, TWI_COLL_ALL_REDUCE, ID(2, 1), 8, 20, 0, 30);
	twt_build_coll(&b, 0, 0, TWI_COLL_ALL_GATHER, ID(2, 2), 8, 40, 0, 50);
	twt_build_coll(&b, 0, 0, TWI_COLL_ALL_GATHER, ID(2, 3), 8, 60, 0, 70)->name =
		twt_build_name(&b, 0, "x");
	twt_build_coll(&b, 0, 0, TWI_COLL_ALL_GATHER, ID(2, 4), 8, 80, 0, 90);
	assert_int_equal(twi_slack_make(&b.trace, &slack), 0);
	assert_int_equal(slack.group_count, 4);
	twi_slack_fini(&slack);
	twt_build_fini(&b);
}

/* Ranks on one axis: by offset where it is known, else by UNIX time, and then with no bound. */
static void one_axis(void **state)
{
	struct twt_build b;
	struct twi_view view;

	(void)state;
	twt_build_init(&b, 3, 0, 0, 1000, 2000);
	b.trace.ranks[1].clock_offset_ns = -500;
	b.trace.ranks[1].clock_error_ns = 20;
	b.trace.ranks[1].begin_ns = 1400; /* 900 of rank 0 */
	b.trace.ranks[2].clock_error_ns = UINT64_MAX;
	b.trace.ranks[2].clock_offset_ns = 123456;
	b.trace.ranks[2].unix_ns += 300;
	assert_int_equal(twi_view_init(&b.trace, &view), 0);
	assert_int_equal(twi_view_at(&view, 0, 1000), 100);
	assert_int_equal(twi_view_at(&view, 1, 1400), 0);
	assert_int_equal(twi_view_at(&view, 1, 1000), -400);
	assert_int_equal(twi_view_at(&view, 2, 1000), 400);
	assert_int_equal(view.end_ns, 1400);
	assert_true(view.unix_ns == 1700000000000000000 + 900);
	assert_true(twi_view_error(&view, 0, 1) == 20);
	assert_true(twi_view_error(&view, 1, 2) == UINT64_MAX);
	assert_true(twi_view_error(&view, 2, 2) == 0);
	twi_view_fini(&view);
	twt_build_fini(&b);
}

static void document(void **state)
{
	struct twt_build b;
	struct twi_emit e;
	json_t *root, *group;
	char *text;

	(void)state;
	twt_build_init(&b, 1, 1, 8, 0, 1000);
	twt_build_coll(&b, 0, 0, TWI_COLL_ALL_REDUCE, ID(1, 1), 1000, 100, 20, 690)->ranks = 2;
	twt_build_wait(&b, 0, 0, TWI_SPAN_COLL, ID(1, 1), 120, 700);
	twi_emit_init(&e);
	twi_emit_object_begin(&e, NULL);
	twi_slack_json(&b.trace, &e);
	twi_emit_object_end(&e);
	assert_int_equal(twi_emit_take(&e, &text), 0);
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	group = json_array_get(json_object_get(root, "groups"), 0);
	assert_string_equal(json_string_value(json_object_get(group, "kind")), "all-reduce");
	assert_int_equal(json_integer_value(json_object_get(group, "stall_total_ns")), 600);
	assert_true(json_is_null(json_object_get(group, "required_bits_per_second")));
	assert_int_equal(json_array_size(json_object_get(root, "worst")), 1);
	json_decref(root);
	free(text);
	twt_build_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formulas),  cmocka_unit_test(two_overlapping),
		cmocka_unit_test(odd_waits), cmocka_unit_test(other_operations),
		cmocka_unit_test(quantiles), cmocka_unit_test(groups_apart),
		cmocka_unit_test(one_axis),  cmocka_unit_test(document),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
