/*
 * test_unfinished.c - what was under way when a capture ended: it is told, in every format, and is
 * nothing that has happened: no analysis, and nothing that XProf reckons with, changes by it.
 */
#include "twt.h"

#include <string.h>

#include <jansson.h>
#include <towline/towline.h>

#include "diag/base/emit.h"
#include "diag/record/coll_kind.h"
#include "diag/trace/analysis.h"
#include "diag/trace/export/export.h"
#include "diag/trace/export/ops.h"
#include "diag/trace/slack.h"
#include "diag/trace/timeline.h"
#include "diag/trace/unfinished.h"
#include "tools/trace/formats.h"
#include "traces.h"

#define S  1000000000ull
#define MS 1000000ull

#define GROUP 3ull

/* `count` ranks with a window of 5 s that begins at 100 s; nothing has ended. */
static void make_idle(struct twi_trace *trace, size_t count)
{
	*trace = (struct twi_trace){ 0 };
	for (size_t r = 0; r < count; r++) {
		struct twi_trace_rank *rank = twt_trace_add_rank(trace, "host", (int64_t)r);

		rank->begin_ns = 100 * S;
		rank->end_ns = 105 * S;
		rank->clock_error_ns = 0;
		twt_trace_add_name(rank, "bucket0");
		twt_trace_add_peer(rank, "tcp://other", (int64_t)(r == 0));
		twt_trace_add_thread(rank, "main", 10);
	}
}

/* A collective since then, and a thread that waits for it. */
static void hang_in(struct twi_trace_rank *rank, uint64_t seq, uint32_t ranks, uint64_t since_ns)
{
	struct twi_span *span = twt_trace_add_unfinished(rank, TWI_SPAN_COLL, since_ns);

	span->id = GROUP << 32 | seq;
	span->detail = TWI_COLL_ALL_REDUCE;
	span->ranks = ranks;
	span->name = 1;
	span = twt_trace_add_unfinished(rank, TWI_SPAN_WAIT, since_ns + MS);
	span->id = GROUP << 32 | seq;
	span->detail = TWI_SPAN_COLL;
}

static void said(const struct twi_trace *trace, size_t count, const char *what)
{
	struct twi_stuck rows[4];
	char text[TWI_STUCK_TEXT];

	assert_int_equal(twi_unfinished_find(trace, rows, 4), count);
	if (count == 0)
		return;
	twi_unfinished_say(trace, &rows[0], text);
	assert_string_equal(text, what);
}

static json_t *timeline_of(const struct twi_trace *trace)
{
	struct twi_emit e = { 0 };
	json_error_t error;
	json_t *root;

	twi_emit_init(&e);
	twi_emit_object_begin(&e, NULL);
	twi_timeline_json(trace, &e);
	twi_emit_object_end(&e);
	assert_int_equal(e.status, TOW_OK);
	root = json_loadb(e.text, e.bytes, 0, &error);
	if (root == NULL)
		fail_msg("%s", error.text);
	twi_emit_fini(&e);
	return root;
}

/* The finding of that kind; NULL: there is none. */
static const json_t *finding_of(const json_t *timeline, const char *kind)
{
	json_t *row;
	size_t i;

	json_array_foreach(json_object_get(timeline, "findings"), i, row)
	{
		if (strcmp(json_string_value(json_object_get(row, "kind")), kind) == 0)
			return row;
	}
	return NULL;
}

static void a_rank_that_has_not_come_is_named(void **state)
{
	struct twi_trace trace;
	const json_t *row;
	json_t *timeline;

	(void)state;
	make_idle(&trace, 3);
	hang_in(&trace.ranks[0], 51, 3, 93 * S);
	hang_in(&trace.ranks[2], 51, 3, 95 * S);
	said(&trace, 1, "Rank 0 and another one wait in all-reduce 51 \"bucket0\" since 12 s");
	timeline = timeline_of(&trace);
	row = finding_of(timeline, "unfinished");
	assert_non_null(row);
	assert_string_equal(json_string_value(json_object_get(row, "cause")),
			    "Rank 1 has not come to it.");
	assert_int_equal(json_integer_value(json_object_get(row, "cost_ns")), 5 * S);
	assert_int_equal(json_array_size(json_object_get(timeline, "unfinished")), 4);
	json_decref(timeline);
	twi_trace_fini(&trace);
	/* of another group's ranks, or of ranks that are not here, nothing is said */
	make_idle(&trace, 2);
	hang_in(&trace.ranks[0], 51, 3, 93 * S);
	timeline = timeline_of(&trace);
	assert_string_equal(
		json_string_value(json_object_get(finding_of(timeline, "unfinished"), "cause")),
		"Not all of its ranks are in this trace.");
	json_decref(timeline);
	twi_trace_fini(&trace);
	/* all are there: it is the network, or one that is in it */
	make_idle(&trace, 2);
	hang_in(&trace.ranks[0], 51, 2, 93 * S);
	hang_in(&trace.ranks[1], 51, 2, 93 * S);
	timeline = timeline_of(&trace);
	assert_string_equal(
		json_string_value(json_object_get(finding_of(timeline, "unfinished"), "cause")),
		"All of its ranks are in it.");
	json_decref(timeline);
	twi_trace_fini(&trace);
}

/* What is under way in a job that goes on is no news. */
static void what_is_usual_is_not_told(void **state)
{
	struct twi_trace trace;
	struct twi_span *span;

	(void)state;
	make_idle(&trace, 2);
	hang_in(&trace.ranks[0], 51, 2, 105 * S - 300 * MS);
	said(&trace, 0, NULL);
	twi_trace_fini(&trace);
	/* steps of 2 s: such waits end */
	make_idle(&trace, 2);
	hang_in(&trace.ranks[0], 51, 2, 103 * S);
	span = twt_trace_add_span(trace.ranks[0].threads, TWI_SPAN_WAIT, 100 * S, 102 * S);
	span->detail = TWI_SPAN_COLL;
	said(&trace, 0, NULL);
	span->kind = TWI_SPAN_COLL;
	said(&trace, 0, NULL);
	/* a wait that was given up is none of them */
	span->kind = TWI_SPAN_WAIT;
	span->status = TOW_ETIMEDOUT;
	said(&trace, 1, "Rank 0 waits in all-reduce 51 \"bucket0\" since 2 s");
	span->status = TOW_OK;
	span->end_ns = 100 * S + 500 * MS;
	said(&trace, 1, "Rank 0 waits in all-reduce 51 \"bucket0\" since 2 s");
	twi_trace_fini(&trace);
	/* a program that only tests */
	make_idle(&trace, 2);
	hang_in(&trace.ranks[0], 51, 2, 93 * S);
	trace.ranks[0].unfinished_count = 1;
	said(&trace, 1, "Rank 0 waits in all-reduce 51 \"bucket0\" since 12 s");
	twi_trace_fini(&trace);
	/* a thread that waits for the end of the job, when nothing goes on, and when others work */
	make_idle(&trace, 2);
	span = twt_trace_add_unfinished(&trace.ranks[0], TWI_SPAN_WAIT, 60 * S);
	span->detail = TWI_SPAN_RECV;
	span->peer = 1;
	said(&trace, 1, "Rank 0 waits for a recv with rank 1 since 45 s");
	twt_trace_add_span(trace.ranks[0].threads, TWI_SPAN_SEND, 102 * S, 103 * S);
	said(&trace, 0, NULL);
	twi_trace_fini(&trace);
}

static void add_all_kinds(struct twi_trace *trace)
{
	for (size_t r = 0; r < trace->rank_count; r++) {
		struct twi_trace_rank *rank = &trace->ranks[r];

		hang_in(rank, 1000, 2, rank->end_ns - 3 * S);
		for (unsigned kind = 0; kind < TWI_SPAN_KINDS; kind++)
			twt_trace_add_unfinished(rank, kind, rank->end_ns - 2 * S)->detail = 0;
	}
}

static void without(json_t *timeline)
{
	json_object_del(timeline, "unfinished");
	json_object_del(timeline, "unfinished_left_out");
}

static void nothing_is_reckoned_with_it(void **state)
{
	struct twi_trace plain, hung;
	struct twi_slack slack[2];
	json_t *left, *right;

	(void)state;
	twt_trace_pair(&plain);
	twt_trace_pair(&hung);
	add_all_kinds(&hung);
	left = timeline_of(&plain);
	right = timeline_of(&hung);
	assert_null(finding_of(left, "unfinished"));
	assert_non_null(finding_of(right, "unfinished"));
	for (size_t i = json_array_size(json_object_get(right, "findings")); i-- > 0;) {
		json_t *rows = json_object_get(right, "findings");
		const json_t *kind = json_object_get(json_array_get(rows, i), "kind");

		if (strcmp(json_string_value(kind), "unfinished") == 0)
			json_array_remove(rows, i);
	}
	without(left);
	without(right);
	assert_true(json_equal(left, right));
	json_decref(left);
	json_decref(right);
	assert_int_equal(twi_slack_make(&plain, &slack[0]), TOW_OK);
	assert_int_equal(twi_slack_make(&hung, &slack[1]), TOW_OK);
	assert_int_equal(slack[0].row_count, slack[1].row_count);
	twi_slack_fini(&slack[0]);
	twi_slack_fini(&slack[1]);
	twi_trace_fini(&plain);
	twi_trace_fini(&hung);
}

/* What XProf's Megascale Stats are made of: ops of the devices, and names of the program. */
static void xprof_does_not_see_it(void **state)
{
	struct twi_trace plain, hung;
	struct twi_ops ops[2];

	(void)state;
	twt_trace_pair(&plain);
	twt_trace_pair(&hung);
	add_all_kinds(&hung);
	assert_int_equal(twi_ops_make(&plain, &ops[0]), TOW_OK);
	assert_int_equal(twi_ops_make(&hung, &ops[1]), TOW_OK);
	assert_int_equal(ops[0].rendezvous_count, ops[1].rendezvous_count);
	for (size_t r = 0; r < plain.rank_count; r++) {
		assert_int_equal(ops[0].ranks[r].coll_count, ops[1].ranks[r].coll_count);
		assert_int_equal(ops[0].ranks[r].op_count, ops[1].ranks[r].op_count);
	}
	twi_ops_fini(&ops[0]);
	twi_ops_fini(&ops[1]);
	twi_trace_fini(&plain);
	twi_trace_fini(&hung);
}

typedef int (*export_function)(const struct twi_trace *trace, char **bytes_out, size_t *count_out);

static size_t times_in(const char *bytes, size_t count, const char *text)
{
	const char *at = bytes;
	size_t n = 0;

	while ((at = memmem(at, count - (size_t)(at - bytes), text, strlen(text))) != NULL) {
		at++;
		n++;
	}
	return n;
}

static void every_format_shows_it(void **state)
{
	static const export_function formats[] = { twi_export_chrome, twi_export_xspace,
						   twi_export_perfetto };
	struct twi_trace hung;

	(void)state;
	make_idle(&hung, 2);
	hang_in(&hung.ranks[0], 51, 2, 93 * S);
	for (size_t i = 0; i < (twi_xspace_ready() < 0 ? 1u : twi_array_count(formats)); i++) {
		char *bytes;
		size_t count;

		assert_int_equal(formats[i](&hung, &bytes, &count), TOW_OK);
		assert_true(times_in(bytes, count, "all-reduce unfinished bucket0") > 0);
		assert_true(times_in(bytes, count, "tow_op_wait (collective) unfinished") > 0);
		/* no message, and no collective, has been */
		assert_int_equal(times_in(bytes, count, "all-reduce bucket0"), 0);
		free(bytes);
	}
	twi_trace_fini(&hung);
}

static void the_report_names_it(void **state)
{
	struct twi_trace hung;
	char *bytes;
	size_t count;

	(void)state;
	make_idle(&hung, 2);
	hang_in(&hung.ranks[0], 51, 2, 93 * S);
	assert_int_equal(twi_report_html(&hung, &bytes, &count), TOW_OK);
	assert_int_equal(times_in(bytes, count, "Rank 0 waits in all-reduce 51 "), 1);
	assert_int_equal(times_in(bytes, count, "Rank 1 has not come to it."), 1);
	free(bytes);
	twi_trace_fini(&hung);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rank_that_has_not_come_is_named),
		cmocka_unit_test(what_is_usual_is_not_told),
		cmocka_unit_test(nothing_is_reckoned_with_it),
		cmocka_unit_test(xprof_does_not_see_it),
		cmocka_unit_test(every_format_shows_it),
		cmocka_unit_test(the_report_names_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
