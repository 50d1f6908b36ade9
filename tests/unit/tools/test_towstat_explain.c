/*
 * test_towstat_explain.c - the list that `towstat explain` makes of documents: its order, what
 * costs too little for a row, what several ranks have in common, and that no document can harm.
 */
#include "twt.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "tools/towstat/documents.h"
#include "tools/towstat/explain_rows.h"

static json_t *parse(const char *text)
{
	json_error_t wrong;
	json_t *root = text != NULL ? json_loads(text, 0, &wrong) : NULL;

	if (text != NULL && root == NULL)
		fail_msg("%s in %s", wrong.text, text);
	return root;
}

/* Rows of documents; they watched for a second. */
static json_t *rows_of(const char *verdict, const char *ranks, const char *checks)
{
	struct explain_input input = { parse(verdict), parse(ranks), parse(checks), 1 };
	json_t *rows = explain_rows(&input);

	assert_non_null(rows);
	json_decref(input.verdict);
	json_decref(input.ranks);
	json_decref(input.checks);
	return rows;
}

static const char *text_of(json_t *rows, size_t index, const char *key)
{
	const char *text = json_string_value(json_object_get(json_array_get(rows, index), key));

	return text != NULL ? text : "";
}

static void expect_row(json_t *rows, size_t index, const char *from, const char *severity,
		       const char *words, const char *cure)
{
	if (strcmp(text_of(rows, index, "from"), from) != 0 ||
	    strcmp(text_of(rows, index, "severity"), severity) != 0 ||
	    strstr(text_of(rows, index, "text"), words) == NULL ||
	    strstr(text_of(rows, index, "cure"), cure) == NULL)
		fail_msg("row %zu: wanted %s, %s, '%s', '%s'; is %s", index, from, severity, words,
			 cure, json_dumps(json_array_get(rows, index), 0));
}

#define COUNTERS(counters, reasons) "{\"counters\":{" counters "},\"reasons\":[" reasons "]}"
#define ARRIVALS(count, bytes, ns)                                                                 \
	"{\"name\":\"unexpected_arrival\",\"count\":" #count ",\"bytes\":" #bytes ",\"ns\":" #ns "}"
#define SITE(count, bytes, ns)       SITE_AT(7, count, bytes, ns)
#define OTHER_SITE(count, bytes, ns) SITE_AT(8, count, bytes, ns)
#define SITE_AT(at, count, bytes, ns)                                                              \
	"{\"reason\":\"unexpected_arrival\",\"count\":" #count ",\"bytes\":" #bytes ",\"ns\":" #ns \
	",\"build_id\":\"ab\",\"module_offset\":" #at ",\"tag\":null,\"file\":\"a.c\","            \
	"\"line\":" #at ",\"sizes\":[],\"text\":\"" #count " copies: came early from a.c:" #at     \
	"; post receives\",\"text_parts\":[]}"
#define WHY(site, pool)                                                                            \
	"{\"copies\":{\"reasons\":[{\"name\":\"unexpected_arrival\",\"cure\":\"post receives\"}]," \
	"\"sites\":[" site "]},\"registrations\":{},\"pool\":" pool "}"
#define RANK(rank, before, after, why)                                                             \
	"{\"rank\":" #rank ",\"before\":" before ",\"after\":" after ",\"why\":" why "}"
#define NOTHING COUNTERS("", "")
#define LATE                                                                                       \
	"{\"state\":\"slow\",\"findings\":[{\"cause\":\"late\",\"says\":\"comes "                  \
	"late\",\"ranks\":[2],"                                                                    \
	"\"evidence\":[\"by 3 ms\"],\"confidence\":0.9,\"cure\":\"look at rank 2\"}]}"
#define CHECK(severity)                                                                            \
	"{\"name\":\"sack\",\"title\":\"SACK\",\"severity\":\"" severity                           \
	"\",\"found\":\"off\",\"effect\":\"slow\",\"mend\":\"sysctl\"}"

/* A job that waits, and of which nobody is named, has a row; once somebody is, theirs is enough. */
static void tells_who_only_waits(void **state)
{
	static const char waits[] = "\"blocked\":{\"share\":0.8,\"says\":\"ranks are blocked\","
				    "\"cure\":\"send less\"}";
	char text[512];
	json_t *rows;

	(void)state;
	snprintf(text, sizeof(text), "{\"state\":\"slow\",%s,\"findings\":[]}", waits);
	rows = rows_of(text, "[]", NULL);
	assert_int_equal(json_array_size(rows), 1);
	expect_row(rows, 0, "verdict", "error", "ranks are blocked", "send less");
	json_decref(rows);
	snprintf(text, sizeof(text), "{\"state\":\"healthy\",%s,\"findings\":[]}", waits);
	rows = rows_of(text, "[]", NULL);
	assert_int_equal(json_array_size(rows), 0);
	json_decref(rows);
}

#define REFUSED(name, why)                                                                         \
	"{\"name\":\"" name "\",\"registered\":false,\"failures\":3,\"reason\":\"" why             \
	"\",\"mend\":\"ulimit\"}"
#define REFUSED_POOL                                                                               \
	"{\"registrars\":[" REFUSED("io_uring", "no table") "," REFUSED(                           \
		"io_uring",                                                                        \
		"no table") ","                                                                    \
			    "{\"name\":\"fabric\",\"registered\":true,\"failures\":1}," REFUSED(   \
				    "gpu", "no peer") "]}"

/* Each kind that was refused once, with the ranks that have one. */
static void tells_refused_registrars(void **state)
{
	json_t *rows =
		rows_of(NULL, "[" RANK(4, NOTHING, NOTHING, WHY("", REFUSED_POOL)) "]", NULL);

	(void)state;
	assert_int_equal(json_array_size(rows), 2);
	expect_row(rows, 0, "registrations", "note", "could not be registered: no table", "ulimit");
	expect_row(rows, 1, "registrations", "note", "could not be registered: no peer", "ulimit");
	assert_int_equal(json_integer_value(json_array_get(
				 json_object_get(json_array_get(rows, 0), "ranks"), 0)),
			 4);
	json_decref(rows);
}

/* Everything at once: verdict, what fails, what goes on, the host's warnings, what was before. */
static void has_the_worst_first(void **state)
{
	static const char ranks[] = "[" RANK(
		0, COUNTERS("\"credit_stalls\":0,\"ops_failed\":1", ARRIVALS(0, 0, 0)),
		COUNTERS("\"credit_stalls\":500,\"ops_failed\":1", ARRIVALS(100, 800, 2000000)),
		WHY(SITE(100, 800, 2000000), "{}")) "]";
	json_t *rows = rows_of(
		LATE, ranks,
		"[" CHECK("warning") "," CHECK("note") "," CHECK("error") "," CHECK("ok") "]");

	(void)state;
	assert_int_equal(json_array_size(rows), 6);
	expect_row(rows, 0, "verdict", "error", "comes late", "look at rank 2");
	expect_row(rows, 1, "host", "error", "SACK: off", "sysctl");
	expect_row(rows, 2, "copies", "warning", "100 copies: came early from a.c:7",
		   "post receives");
	assert_null(strstr(text_of(rows, 2, "text"), "post receives"));
	expect_row(rows, 3, "counters", "warning",
		   "credit_stalls 500, 500 just now: ", "credit_bytes");
	expect_row(rows, 4, "host", "warning", "SACK: off", "sysctl");
	expect_row(rows, 5, "counters", "note", "ops_failed 1: ", "/v1/flight");
	for (size_t i = 0; i < 6; i++) {
		const json_t *running = json_object_get(json_array_get(rows, i), "running");

		assert_int_equal(json_is_true(running), i == 2 || i == 3);
		assert_true(text_of(rows, i, "cure")[0] != '\0');
	}
	json_decref(rows);
}

/* Start-up's copies, operations that the program has canceled, a few stalls: no row at all. */
static void passes_over_little(void **state)
{
	static const char *const quiet[] = {
		"[" RANK(0, NOTHING, COUNTERS("", ARRIVALS(12, 96, 152)),
			 WHY(SITE(12, 96, 152), "{\"extents\":[{}],\"exhausted\":0}")) "]",
		"[" RANK(0, NOTHING, COUNTERS("\"ops_failed\":3,\"ops_canceled\":3", ""), "{}") "]",
		"[" RANK(0, NOTHING, COUNTERS("\"credit_stalls\":100", ""), "{}") "]",
		"[" RANK(0, NOTHING, COUNTERS("\"sends\":100000", ""), "{}") "]",
		"[]",
	};
	json_t *rows;

	(void)state;
	for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
		rows = rows_of("{\"state\":\"healthy\",\"findings\":[]}", quiet[i], NULL);
		if (json_array_size(rows) > 0)
			fail_msg("%zu: %s", i, json_dumps(rows, 0));
		json_decref(rows);
	}
	rows = rows_of(
		NULL,
		"[" RANK(0, NOTHING, COUNTERS("\"ops_failed\":4,\"ops_canceled\":3", ""), "{}") "]",
		NULL);
	assert_int_equal(json_array_size(rows), 1);
	expect_row(rows, 0, "counters", "warning", "ops_failed 1, 1 just now", "/v1/flight");
	json_decref(rows);
}

/* What was dear once is a note; the same while it goes on a warning, if it costs enough. */
static void tells_past_from_present(void **state)
{
	static const struct {
		const char *ranks, *severity;
	} cases[] = {
		{ "[" RANK(0, COUNTERS("", ARRIVALS(9, 9, 9000000)),
			   COUNTERS("", ARRIVALS(9, 9, 9000000)),
			   WHY(SITE(9, 9, 9000000), "{}")) "]",
		  "note" },
		{ "[" RANK(0, COUNTERS("", ARRIVALS(8, 9, 8999999)),
			   COUNTERS("", ARRIVALS(9, 9, 9000000)),
			   WHY(SITE(9, 9, 9000000), "{}")) "]",
		  "note" },
		{ "[" RANK(0, COUNTERS("", ARRIVALS(8, 9, 8000000)),
			   COUNTERS("", ARRIVALS(9, 9, 9000000)),
			   WHY(SITE(9, 9, 9000000), "{}")) "]",
		  "warning" },
		{ "[" RANK(0, COUNTERS("", ARRIVALS(8, 0, 0)),
			   COUNTERS("", ARRIVALS(9, 1048576, 9)),
			   WHY(SITE(9, 1048576, 9), "{}")) "]",
		  "warning" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *rows = rows_of(NULL, cases[i].ranks, NULL);

		assert_int_equal(json_array_size(rows), 1);
		expect_row(rows, 0, "copies", cases[i].severity, "9 copies", "post receives");
		json_decref(rows);
	}
}

/* Two places copy for one reason: the one that goes on is told, and not what the other did once. */
static void tells_which_place_goes_on(void **state)
{
	json_t *rows =
		rows_of(NULL,
			"[" RANK(0, COUNTERS("", ARRIVALS(0, 0, 0)),
				 COUNTERS("", ARRIVALS(500, 4000, 9000000)),
				 WHY(SITE(499, 3992, 8999990) "," OTHER_SITE(1, 8, 10), "{}")) "]",
			NULL);

	(void)state;
	assert_int_equal(json_array_size(rows), 1);
	expect_row(rows, 0, "copies", "warning", "499 copies", "post receives");
	json_decref(rows);
}

/* A runtime may say any number. */
static void bounds_what_runtimes_say(void **state)
{
	json_t *rows =
		rows_of(NULL,
			"[" RANK(0, COUNTERS("", ARRIVALS(0, 0, 0)),
				 COUNTERS("\"credit_stalls\":1e300", ARRIVALS(1e300, 1e300, 1e300)),
				 WHY(SITE(9, 9, 1e300), "{}")) "]",
			NULL);

	(void)state;
	assert_int_equal(json_array_size(rows), 2);
	for (size_t i = 0; i < 2; i++)
		assert_in_range(
			json_integer_value(json_object_get(json_array_get(rows, i), "cost_ns")), 0,
			INT64_MAX);
	json_decref(rows);
}

/* Of what is as grave the dearest is first, whichever document tells it. */
static void has_the_dearest_first(void **state)
{
	json_t *rows = rows_of(NULL,
			       "[{\"rank\":0,\"before\":{},\"after\":{},\"why\":{"
			       "\"copies\":{\"sites\":[" SITE(
				       9, 9, 2000000) "]},\"registrations\":{"
						      "\"sites\":[{\"reason\":\"late_extent\","
						      "\"ns\":9000000,\"text\":\"one\"}]}}}]",
			       NULL);

	(void)state;
	assert_int_equal(json_array_size(rows), 2);
	expect_row(rows, 0, "registrations", "note", "one", "");
	expect_row(rows, 1, "copies", "note", "9 copies", "");
	json_decref(rows);
}

/* One place that two ranks copy at is one row, with both; so are their counters and pools. */
static void joins_ranks(void **state)
{
#define FULL(enough)                                                                               \
	"{\"exhausted\":2,\"extents\":[{}],\"asked_bytes\":4,\"recommended_premap_memory_"         \
	"bytes\":" #enough "}"
	static const char ranks[] =
		"[" RANK(0, NOTHING, COUNTERS("\"credit_stalls\":60", ""),
			 WHY(SITE(4, 8, 2000000),
			     FULL(8))) "," RANK(3, NOTHING, COUNTERS("\"credit_stalls\":90", ""),
						WHY(SITE(5, 8, 3000000), FULL(12))) "]";
	json_t *rows = rows_of(NULL, ranks, NULL);

	(void)state;
	assert_int_equal(json_array_size(rows), 3);
	expect_row(rows, 0, "counters", "warning", "credit_stalls 150, 90 of them at rank 3",
		   "credit_bytes");
	expect_row(rows, 1, "copies", "note", "9 copies, 16 B, 5 ms: came early", "post receives");
	expect_row(rows, 2, "pool", "note", "premap_memory_bytes=4, and needs at least 12",
		   "premap_memory_bytes=12");
	for (size_t i = 0; i < 3; i++) {
		const json_t *both = json_object_get(json_array_get(rows, i), "ranks");

		assert_int_equal(json_array_size(both), 2);
		assert_int_equal(json_integer_value(json_array_get(both, 1)), 3);
	}
	json_decref(rows);
}

/* Of runtimes that no group joins each says its own. */
static void takes_several_verdicts(void **state)
{
	json_t *rows = rows_of("[{\"document\":{}},{\"document\":" LATE "}]", "[]", NULL);

	(void)state;
	assert_int_equal(json_array_size(rows), 1);
	expect_row(rows, 0, "verdict", "error", "comes late", "look at rank 2");
	json_decref(rows);
}

/* A value where another is expected, deep down or at the top. */
static json_t *random_value(uint64_t *seed, unsigned depth)
{
	static const char *const keys[] = {
		"findings", "reasons", "counters",      "sites",         "copies",   "why",
		"before",   "after",   "rank",          "pool",          "extents",  "name",
		"reason",   "ns",      "count",         "ranks",         "text",     "severity",
		"cure",     "bytes",   "credit_stalls", "registrations", "document", "exhausted"
	};
	json_t *value;

	switch (twt_random_below(seed, depth > 0 ? 7 : 5)) {
	case 0:
		return json_null();
	case 1:
		return json_integer((json_int_t)twt_random(seed));
	case 2:
		return json_real(-1e300);
	case 3:
		return json_string(twt_random_below(seed, 2) ? "unexpected_arrival" : "error");
	case 4:
		return json_true();
	case 5:
		value = json_array();
		for (uint64_t i = twt_random_below(seed, 4); i > 0; i--)
			json_array_append_new(value, random_value(seed, depth - 1));
		return value;
	default:
		value = json_object();
		for (uint64_t i = twt_random_below(seed, 8); i > 0; i--)
			json_object_set_new(
				value, keys[twt_random_below(seed, sizeof(keys) / sizeof(keys[0]))],
				random_value(seed, depth - 1));
		return value;
	}
}

/* Whatever documents say, the answer is a list of rows that can be printed. */
static void bears_anything(void **state)
{
	uint64_t seed = twt_seed();

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		struct explain_input input = { random_value(&seed, 5), random_value(&seed, 6),
					       random_value(&seed, 3), 1 };
		json_t *rows = explain_rows(&input), *row;
		size_t at;

		assert_non_null(rows);
		json_array_foreach(rows, at, row)
		{
			assert_true(json_is_string(json_object_get(row, "text")));
			assert_true(json_is_string(json_object_get(row, "cure")));
		}
		json_decref(rows);
		json_decref(input.verdict);
		json_decref(input.ranks);
		json_decref(input.checks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(has_the_worst_first),
		cmocka_unit_test(tells_who_only_waits),
		cmocka_unit_test(tells_refused_registrars),
		cmocka_unit_test(passes_over_little),
		cmocka_unit_test(tells_past_from_present),
		cmocka_unit_test(joins_ranks),
		cmocka_unit_test(has_the_dearest_first),
		cmocka_unit_test(takes_several_verdicts),
		cmocka_unit_test(bears_anything),
		cmocka_unit_test(tells_which_place_goes_on),
		cmocka_unit_test(bounds_what_runtimes_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
