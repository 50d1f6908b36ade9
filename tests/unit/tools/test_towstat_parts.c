/*
 * test_towstat_parts.c - what towstat does with documents once it has them: merging OpenMetrics,
 * selecting a part, rates of an interval, and the table of top.
 */
#include "twt.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include <towline/towline.h>

#include "tools/towstat/metrics_merge.h"
#include "tools/towstat/reading.h"
#include "tools/towstat/select.h"
#include "tools/towstat/terminal.h"
#include "tools/towstat/top_screen.h"
#include "tools/towstat/top_table.h"

#define MERGE_MAX (1u << 20)

static void expect_near(double got, double wanted)
{
	if (!(fabs(got - wanted) <= 1e-9 * fabs(wanted)))
		fail_msg("%g, wanted %g", got, wanted);
}

/* --- OpenMetrics --- */

static int add(struct metrics_merge *merge, const char *text, const char *labels)
{
	char error[200] = "";
	int status = metrics_merge_add(merge, text, strlen(text), labels, error, sizeof(error));

	assert_true((status == 0) == (error[0] == '\0'));
	return status;
}

static void expect_merged(struct metrics_merge *merge, const char *wanted)
{
	size_t bytes;
	char *text = metrics_merge_take(merge, &bytes);

	assert_non_null(text);
	assert_int_equal(bytes, strlen(text));
	assert_string_equal(text, wanted);
	free(text);
	metrics_merge_destroy(merge);
}

static void merges(void **state)
{
	struct metrics_merge *merge = metrics_merge_create(MERGE_MAX);

	(void)state;
	assert_int_equal(
		add(merge,
		    "# TYPE a counter\n# HELP a it \\\"is\\\"\na_total 1\n"
		    "# TYPE h histogram\nh_bucket{lane=\"tcp\",le=\"+Inf\"} 2 # {id=\"}\"} "
		    "1.5 2\nh_count 2\nh_sum 1e-06\n# EOF\n",
		    "job=\"j\",rank=\"0\""),
		0);
	assert_int_equal(add(merge,
			     "# TYPE b_bytes gauge\n# UNIT b_bytes bytes\nb_bytes -1 12.5\n"
			     "# TYPE a counter\na_total{x=\"\\\\,}\\\"\",y=\"\"} 5\n# EOF\n",
			     "job=\"j\",rank=\"1\""),
			 0);
	expect_merged(
		merge,
		"# TYPE a counter\n# HELP a it \\\"is\\\"\na_total{job=\"j\",rank=\"0\"} 1\n"
		"a_total{job=\"j\",rank=\"1\",x=\"\\\\,}\\\"\",y=\"\"} 5\n"
		"# TYPE h histogram\nh_bucket{job=\"j\",rank=\"0\",lane=\"tcp\",le=\"+Inf\"} 2 "
		"# {id=\"}\"} 1.5 2\nh_count{job=\"j\",rank=\"0\"} 2\n"
		"h_sum{job=\"j\",rank=\"0\"} 1e-06\n"
		"# TYPE b_bytes gauge\n# UNIT b_bytes bytes\n"
		"b_bytes{job=\"j\",rank=\"1\"} -1 12.5\n# EOF\n");
}

static void keeps_labels_apart(void **state)
{
	struct metrics_merge *merge = metrics_merge_create(MERGE_MAX);
	char text[16];

	(void)state;
	assert_int_equal(add(merge, "# TYPE a gauge\na{rank=\"7\",ranks=\"8\"} 1\n# EOF\n",
			     "job=\"j\",rank=\"0\""),
			 0);
	/* Another type: the first is right. */
	assert_int_equal(add(merge, "# TYPE a counter\na_total 1\na_total 2\n# EOF\n",
			     "job=\"k\",rank=\"0\""),
			 0);
	assert_int_equal(metrics_merge_disagreed(merge), 2);
	expect_merged(merge, "# TYPE a gauge\na{job=\"j\",rank=\"0\",exported_rank=\"7\",ranks="
			     "\"8\"} 1\n# EOF\n");
	metrics_escape(text, sizeof(text), "a\"b\\c\nd");
	assert_string_equal(text, "a\\\"b\\\\c\\nd");
	metrics_escape(text, 6, "aaaaaaaaaa");
	assert_true(strlen(text) < 6);
}

static void refuses_whole(void **state)
{
	static const char *const wrong[] = {
		"",
		"# EOF",
		"# TYPE a gauge\na 1\n",
		"# TYPE a gauge\na 1\n# EOF\na 2\n",
		"# TYPE a gauge\n\na 1\n# EOF\n",
		"a 1\n# EOF\n",
		"# TYPE a gauge\nb 1\n# EOF\n",
		"# TYPE a counter\na 1\n# EOF\n",
		"# TYPE a sundial\na 1\n# EOF\n",
		"# TYPE a gauge\na{x=1} 1\n# EOF\n",
		"# TYPE a gauge\na{x=\"1\" 1\n# EOF\n",
		"# TYPE a gauge\na{x=\"1\",} 1\n# EOF\n",
		"# TYPE a gauge\na{x=\"\\q\"} 1\n# EOF\n",
		"# TYPE a gauge\na one\n# EOF\n",
		"# TYPE a gauge\na 0x10\n# EOF\n",
		"# TYPE a gauge\na 1 2 3\n# EOF\n",
		"# TYPE a gauge\na 1 # {x=\"1\"}\n# EOF\n",
		"# TYPE a gauge\na 1  \n# EOF\n",
		"# TYPE a gauge\na{x=\"\xff\"} 1\n# EOF\n",
		"# UNIT a bytes\n# TYPE a gauge\na 1\n# EOF\n",
		"# OTHER a gauge\na 1\n# EOF\n",
		"<html>\n",
	};
	struct metrics_merge *merge = metrics_merge_create(MERGE_MAX);

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (add(merge, wrong[i], "job=\"j\",rank=\"0\"") == 0)
			fail_msg("taken: %s", wrong[i]);
	}
	expect_merged(merge, "# EOF\n");
}

static void refuses_what_is_cut(void **state)
{
	static const char text[] = "# TYPE a counter\n# HELP a x\na_total{l=\"m\"} 1\n"
				   "# TYPE g gauge\ng 2\n# EOF\n";
	struct metrics_merge *merge = metrics_merge_create(MERGE_MAX);
	char error[200];

	(void)state;
	for (size_t bytes = 0; bytes < sizeof(text) - 1; bytes++)
		assert_int_equal(metrics_merge_add(merge, text, bytes, "", error, sizeof(error)),
				 -1);
	expect_merged(merge, "# EOF\n");
	merge = metrics_merge_create(64); /* room for less than that */
	assert_int_equal(add(merge, text, "job=\"j\",rank=\"0\""), -1);
	expect_merged(merge, "# EOF\n");
}

/* --- a part of a document --- */

static void selects(void **state)
{
	static const struct {
		const char *path, *wanted; /* NULL: refused */
	} table[] = {
		{ "a.b", "1" },
		{ ".a.b", "1" },
		{ "",
		  "{\"a\":{\"b\":1},\"l\":[{\"n\":\"x\",\"v\":2},{\"n\":\"y\",\"v\":3,\"k\":7}]}" },
		{ "l[0].v", "2" },
		{ "l[-1].n", "\"y\"" },
		{ "l[n=y].v", "3" },
		{ "l[v=2].n", "\"x\"" },
		{ "l[*].v", "[2,3]" },
		{ "l[*].k", "[7]" },
		{ "l[2]", NULL },
		{ "l[-3]", NULL },
		{ "l[n=z]", NULL },
		{ "l[x]", NULL },
		{ "l[", NULL },
		{ "l[]", NULL },
		{ "a..b", NULL },
		{ "a.", NULL },
		{ "a[0]", NULL },
		{ "a[*]", NULL },
		{ "l.v", NULL },
		{ "a.b.c", NULL },
	};
	json_t *root = json_loads("{\"a\":{\"b\":1},\"l\":[{\"n\":\"x\",\"v\":2},"
				  "{\"n\":\"y\",\"v\":3,\"k\":7}]}",
				  0, NULL);
	char error[200];

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		json_t *part = select_path(root, table[i].path, error, sizeof(error));
		char *text = part != NULL ? json_dumps(part, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

		if ((text == NULL) != (table[i].wanted == NULL) ||
		    (text != NULL && strcmp(text, table[i].wanted) != 0))
			fail_msg("%s: %s", table[i].path, text != NULL ? text : error);
		free(text);
		json_decref(part);
	}
	json_decref(root);
}

static void *refuse_memory(size_t bytes)
{
	(void)bytes;
	return NULL;
}

/* Without memory there is a reason, too. */
static void selects_without_memory(void **state)
{
	json_t *root = json_loads("{\"a\":[1]}", 0, NULL), *part;
	char error[256] = "";

	(void)state;
	json_set_alloc_funcs(refuse_memory, free);
	part = select_path(root, "a[*]", error, sizeof(error));
	json_set_alloc_funcs(malloc, free);
	assert_null(part);
	assert_string_equal(error, "no memory, at \"[*]\" of \"a[*]\"");
	json_decref(root);
}

/* --- what lies between two readings --- */

static struct reading *read_all(double at_s, const char *counters, const char *latency,
				const char *coll)
{
	struct reading *reading = calloc(1, sizeof(*reading));
	json_t *document = json_loads(counters, 0, NULL);

	assert_non_null(reading);
	reading->at_s = at_s;
	assert_non_null(document);
	reading_counters(reading, document);
	json_decref(document);
	document = json_loads(latency, 0, NULL);
	assert_non_null(document);
	reading_latency(reading, document);
	json_decref(document);
	document = json_loads(coll, 0, NULL);
	assert_non_null(document);
	reading_colls(reading, document);
	json_decref(document);
	return reading;
}

static void measures_between(void **state)
{
	struct figures f;
	struct reading *from = read_all(
		10, "{\"counters\":{\"sends\":5,\"send_bytes\":1000,\"late_registrations\":1}}",
		"{\"rpcs\":[{\"buckets\":[[100,1000],[900,50]]}]}",
		"{\"now_ns\":1000,\"groups\":[],\"last\":[{\"group\":0,\"seq\":1,\"wait_ns\":900,"
		"\"done_ns\":950,\"slack_ns\":1}]}");
	struct reading *to = read_all(
		12,
		"{\"counters\":{\"sends\":9,\"send_bytes\":4000,\"call_send_bytes\":600,"
		"\"coll_send_bytes\":400,\"internal_send_bytes\":70,\"late_registrations\":3}}",
		"{\"rpcs\":[{\"buckets\":[[100,1060]]}],\"calls\":[{\"buckets\":[[200,30]]}],"
		"\"colls\":[{\"buckets\":[[200,9],[900,51]]}]}",
		/* waits 1100 to 1300 and 1200 to 1400, and one that goes on since 1900 */
		"{\"now_ns\":2000,\"groups\":[{\"entries\":[{\"calls\":2,\"in_place_read_bytes\":"
		"50}]}],\"last\":[{\"seq\":1,\"wait_ns\":900,\"done_ns\":950,\"slack_ns\":1},"
		"{\"seq\":2,\"wait_ns\":1100,\"done_ns\":1300,\"slack_ns\":30},"
		"{\"seq\":3,\"wait_ns\":1200,\"done_ns\":1400,\"slack_ns\":40},"
		"{\"seq\":4,\"kind\":\"barrier\",\"wait_ns\":1200,\"done_ns\":1400,\"slack_ns\":0},"
		"{\"seq\":5,\"wait_ns\":1900,\"done_ns\":null,\"slack_ns\":null}]}");

	(void)state;
	figures_between(from, to, &f);
	expect_near(f.sends, 2);
	expect_near(f.out_bytes, 2000);
	expect_near(f.in_bytes, 50); /* read in place: 2 calls of 50 in 2 s */
	assert_int_equal(f.late_count, 2);
	expect_near(f.p50_ns, 100); /* 60 of 100 */
	expect_near(f.p99_ns, 900);
	expect_near(f.slack_p50_ns, 30);
	expect_near(f.exposed_share, 0.4);
	/* Backwards, as when another process has taken the name: nothing, and no nonsense. */
	figures_between(to, from, &f);
	expect_near(f.sends, 0);
	assert_true(f.p50_ns < 0 && f.exposed_share < 0);
	free(from);
	free(to);
}

static void tells_verdicts(void **state)
{
	json_t *document =
		json_loads("{\"state\":\"stuck\",\"short\":\"rank 1\\u001b[2J is stopped\","
			   "\"findings\":[{\"cause\":\"stopped\",\"ranks\":[1,\"x\",7]},"
			   "{\"ranks\":[3]}]}",
			   0, NULL);
	struct verdict verdict;

	(void)state;
	assert_non_null(document);
	reading_verdict(document, &verdict);
	assert_string_equal(verdict.text, "rank 1?[2J is stopped");
	assert_int_equal(verdict.rank_count, 2);
	assert_int_equal(verdict.ranks[1], 7);
	json_object_del(document, "short");
	reading_verdict(document, &verdict);
	assert_string_equal(verdict.text, "stopped");
	json_decref(document);
	document = json_loads("{\"state\":\"healthy\",\"findings\":[]}", 0, NULL);
	reading_verdict(document, &verdict);
	assert_string_equal(verdict.text, "healthy");
	assert_int_equal(verdict.rank_count, 0);
	json_decref(document);
	document = json_pack("{s:s, s:s, s:i, s:i}", "state", "healthy", "short", "",
			     "ranks_in_job", 3, "ranks_answered", 2);
	reading_verdict(document, &verdict);
	json_decref(document);
	assert_string_equal(verdict.state, "partial");
	assert_string_equal(verdict.text, "healthy, as far as is known: 2 of 3 ranks answered");
	reading_verdict(NULL, &verdict);
	assert_string_equal(verdict.text, "");
	assert_string_equal(verdict.state, "");
}

/* --- the table --- */

static struct top_row row_of(const char *job, int64_t rank, double out_bytes)
{
	struct top_row row = { .rank = rank, .state = TOP_LIVE, .known = true };

	row.figures = (struct figures){ .out_bytes = out_bytes,
					.p50_ns = UNKNOWN,
					.p99_ns = 1500,
					.slack_p50_ns = UNKNOWN,
					.exposed_share = 0.5,
					.pool_share = UNKNOWN };
	snprintf(row.name, sizeof(row.name), "%s.%d", job, (int)rank);
	snprintf(row.job, sizeof(row.job), "%s", job);
	return row;
}

static void expect_order(struct top_row *rows, enum top_column key, bool reverse,
			 const char *wanted)
{
	char order[64] = "";

	top_sort(rows, 4, key, reverse);
	for (size_t i = 0; i < 4; i++) {
		strcat(order, rows[i].name);
		strcat(order, i < 3 ? " " : "");
	}
	assert_string_equal(order, wanted);
}

static void sorts(void **state)
{
	struct top_row rows[4] = { row_of("b", 0, 5), row_of("a", 10, 5), row_of("a", 9, 7),
				   row_of("a", 2, 1) };

	(void)state;
	rows[3].known = false;
	expect_order(rows, TOP_name, false, "a.2 a.9 a.10 b.0");
	expect_order(rows, TOP_name, true, "b.0 a.10 a.9 a.2");
	expect_order(rows, TOP_out, false, "a.9 a.10 b.0 a.2");
	expect_order(rows, TOP_out, true, "a.2 a.10 b.0 a.9");
	rows[3].accused = true; /* a.9 now */
	expect_order(rows, TOP_verdict, false, "a.9 a.2 a.10 b.0");
}

static void filters(void **state)
{
	struct top_row row = row_of("gpt2", 3, 0);
	static const struct {
		const char *text;
		int passes; /* -1: refused */
	} table[] = {
		{ "", 1 },        { "job=gpt2", 1 }, { "job=gpt", 0 },   { "rank=3", 1 },
		{ "rank=33", 0 }, { "rank=x", -1 },  { "rank=", -1 },    { "^GPT2[.]", 1 },
		{ "bert", 0 },    { "(", -1 },       { "answering", 1 }, { "stopped", 1 },
	};
	struct top_filter filter;
	char error[100];

	(void)state;
	row.state = TOP_SILENT;
	snprintf(row.verdict, sizeof(row.verdict), "rank 3 is stopped");
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int status = top_filter_init(&filter, table[i].text, error, sizeof(error));

		if (status != 0 ? table[i].passes >= 0
				: top_filter_passes(&filter, &row) != table[i].passes)
			fail_msg("filter %s", table[i].text);
		top_filter_fini(&filter);
	}
}

static void adds_up(void **state)
{
	struct top_row rows[4] = { row_of("b", 0, 5), row_of("a", 10, 5), row_of("a", 9, 7),
				   row_of("a", 2, 1) };
	const struct top_layout layout = { 16, TOP_FIRST, 0 };
	struct top_row total;
	struct top_line line;

	(void)state;
	rows[0].figures.p99_ns = 900000;
	rows[1].figures.slack_p50_ns = 10;
	rows[2].figures.slack_p50_ns = 5;
	rows[3].state = TOP_GONE;
	top_total(rows, 4, &total);
	expect_near(total.figures.out_bytes, 18);
	expect_near(total.figures.p99_ns, 900000);
	expect_near(total.figures.slack_p50_ns, 5);
	top_line_row(&line, &layout, &total);
	assert_non_null(strstr(line.text, "900us"));
	assert_non_null(strstr(line.text, " 3 up "));
	assert_non_null(strstr(line.text, "50%"));
}

/* A terminal of 80 columns shows whole columns, up to the pool; of further ones none in part. */
static void fits_a_terminal(void **state)
{
	struct top_layout layout = { 10, TOP_FIRST, 80 };
	struct top_row row = row_of("gpt2", 127, 1e9);
	struct top_line head, line, wide;

	(void)state;
	row.figures = (struct figures){ .in_bytes = 1e18,
					.out_bytes = 1e18,
					.sends = 1e9,
					.copied_bytes = 1e18,
					.p50_ns = 99.9e3,
					.p99_ns = 99.9e6,
					.slack_p50_ns = 99.9e3,
					.exposed_share = 1 };
	row.pool_used_bytes = row.pool_bytes = 999u << 20;
	snprintf(row.says, sizeof(row.says), "other_operation");
	top_line_head(&head, &layout, TOP_name, false);
	top_line_row(&line, &layout, &row);
	assert_int_equal(head.bytes, 80);
	assert_int_equal(line.bytes, 80);
	assert_non_null(strstr(head.text, "RANK*      VERDICT   IN/s"));
	assert_string_equal(head.text + 80 - 4, "POOL");
	assert_non_null(strstr(line.text, " other_op "));
	assert_string_equal(line.text + 80 - 9, "999M/999M");
	layout.room = 79;
	top_line_head(&head, &layout, TOP_name, false);
	assert_null(strstr(head.text, "POOL"));
	layout.room = 0;
	top_line_head(&wide, &layout, TOP_name, false);
	assert_non_null(strstr(wide.text, "COPIED"));
	layout.first = TOP_LAST; /* scrolled: name and verdict stay */
	top_line_head(&wide, &layout, TOP_name, false);
	assert_string_equal(wide.text, "RANK*      VERDICT  COPIED");
	row.says[0] = '\0';
	layout.first = TOP_FIRST;
	top_line_row(&line, &layout, &row);
	assert_non_null(strstr(line.text, " ? "));
}

/* The verdict of each job is above all, and in a list of lines as well. */
static void has_the_verdict_first(void **state)
{
	struct top_screen screen = { .interval_s = 1, .first = TOP_FIRST };
	struct top_row rows[3] = { row_of("b", 0, 1), row_of("b", 1, 1), row_of("a", 0, 1) };
	char *text = NULL, *drawn;
	size_t bytes = 0, size = 0;
	FILE *file = open_memstream(&text, &size);

	(void)state;
	for (size_t i = 0; i < 3; i++)
		snprintf(rows[i].verdict, sizeof(rows[i].verdict), i < 2 ? "slow: x" : "not known");
	assert_non_null(file);
	top_screen_take(&screen, rows, 3, 0);
	top_screen_print(&screen, file);
	fclose(file);
	assert_ptr_equal(strstr(text, "a: not known\nb: slow: x\n"), text);
	assert_null(strstr(text + 10, "a: not known"));
	free(text);
	drawn = top_screen_draw(&screen, 80, 24, &bytes);
	assert_non_null(drawn);
	text = strndup(drawn, bytes);
	assert_true(strstr(text, "\033[1;1H\033[1ma: not known") != NULL ||
		    strstr(text, "\033[1;1Ha: not known") != NULL);
	assert_non_null(strstr(text, "\033[2;1H"));
	assert_true(strstr(text, "b: slow: x") < strstr(text, "\033[3;1H"));
	free(text);
	free(drawn);
}

/* Printable bytes between two places of the screen; escapes take none. */
static void check_picture(const char *text, size_t bytes, size_t columns, size_t lines)
{
	size_t used = 0, row = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (text[i] != '\033') {
			assert_true(text[i] >= 0x20 && text[i] < 0x7f);
			if (++used > columns)
				fail_msg("more than %zu columns", columns);
			continue;
		}
		assert_int_equal(text[++i], '[');
		if (text[i + 1] >= '0' && text[i + 1] <= '9')
			row = (size_t)atoi(text + i + 1);
		do
			i++;
		while (i < bytes && (text[i] < 0x40 || text[i] > 0x7e));
		if (text[i] == 'H') {
			used = 0;
			assert_true(row >= 1 && row <= lines);
		}
	}
}

static void draws_in_bounds(void **state)
{
	static const size_t sizes[][2] = { { 1, 1 },   { 2, 2 },  { 20, 3 },
					   { 80, 24 }, { 80, 5 }, { 400, 100 } };
	static const int keys[] = { '?', 'x', KEY_DOWN,  KEY_END,    KEY_RIGHT, KEY_RIGHT,
				    's', 'S', 'r',       '/',        'a',       KEY_ENTER,
				    '/', '(', KEY_ENTER, KEY_PAGE_UP };
	struct top_screen screen = { .interval_s = 1, .first = TOP_FIRST, .colours = true };
	struct top_row rows[40];
	size_t bytes;
	char *text;

	(void)state;
	for (size_t key = 0; key < sizeof(keys) / sizeof(keys[0]); key++) {
		for (int i = 0; i < 40; i++) {
			rows[i] = row_of("a_job_with_a_name_that_is_rather_long", i, 1e300);
			rows[i].state = (enum top_state)(i % 5);
			rows[i].accused = i % 2;
			memset(rows[i].verdict, 'v', sizeof(rows[i].verdict) - 1);
		}
		top_screen_take(&screen, rows, 40, 1);
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			text = top_screen_draw(&screen, sizes[i][0], sizes[i][1], &bytes);
			assert_non_null(text);
			check_picture(text, bytes, sizes[i][0], sizes[i][1]);
			free(text);
		}
		assert_true(top_screen_key(&screen, keys[key]));
	}
	assert_false(top_screen_key(&screen, 'q'));
	top_filter_fini(&screen.filter);
}

/* A caller that was built before rows told of lanes gets what it knows, and nothing behind it. */
static void tells_old_callers(void **state)
{
	struct tow_counter_info row = { .size = offsetof(struct tow_counter_info, lanes),
					.lanes = "untouched" };

	(void)state;
	assert_int_equal(tow_counter_info(1, &row), TOW_OK);
	assert_string_equal(row.name, "call_messages");
	assert_string_equal(row.lanes, "untouched");
	row.size = sizeof(row);
	assert_int_equal(tow_counter_info(0, &row), TOW_OK);
	assert_string_equal(row.name, "sends");
	assert_null(row.lanes);
	row.size = offsetof(struct tow_counter_info, lanes) - 1;
	assert_int_equal(tow_counter_info(0, &row), TOW_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merges),
		cmocka_unit_test(keeps_labels_apart),
		cmocka_unit_test(refuses_whole),
		cmocka_unit_test(refuses_what_is_cut),
		cmocka_unit_test(selects),
		cmocka_unit_test(selects_without_memory),
		cmocka_unit_test(measures_between),
		cmocka_unit_test(tells_verdicts),
		cmocka_unit_test(sorts),
		cmocka_unit_test(filters),
		cmocka_unit_test(adds_up),
		cmocka_unit_test(draws_in_bounds),
		cmocka_unit_test(fits_a_terminal),
		cmocka_unit_test(has_the_verdict_first),
		cmocka_unit_test(tells_old_callers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
