/*
 * test_trace_document.c - what tools do with traces: read, put together, written in each format.
 */
#include "twt.h"

#include <jansson.h>
#include <string.h>

#include <towline/status.h>

#include "diag/trace/export/export.h"
#include "tools/trace/document.h"
#include "tools/trace/formats.h"
#include "traces.h"

#define SKIP_WITHOUT_XSPACE()                                                                      \
	do {                                                                                       \
		if (twi_xspace_ready() < 0)                                                        \
			skip();                                                                    \
	} while (0)

/* The pair as a tool has it. */
static struct trace_document *open_pair(void)
{
	struct trace_document *document = NULL;
	struct twi_trace pair;
	size_t count;
	char *bytes;

	twt_trace_pair(&pair);
	assert_int_equal(twi_export_xspace(&pair, &bytes, &count), TOW_OK);
	assert_int_equal(trace_document_load(bytes, count, &document), TOW_OK);
	free(bytes);
	twi_trace_fini(&pair);
	return document;
}

static void formats_have_names(void **state)
{
	enum trace_format format;

	(void)state;
	assert_int_equal(trace_format_from_name("chrome", &format), TOW_OK);
	assert_int_equal(format, TRACE_CHROME);
	assert_int_equal(trace_format_from_name("html", &format), TOW_OK);
	assert_int_equal(format, TRACE_HTML);
	assert_int_equal(trace_format_from_name("pdf", &format), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "\"pdf\""));
}

static void a_document_tells_its_ranks(void **state)
{
	struct trace_document *document;
	struct trace_rank_info row;

	(void)state;
	SKIP_WITHOUT_XSPACE();
	document = open_pair();
	assert_int_equal(trace_document_rank(document, 1, &row), TOW_OK);
	assert_string_equal(row.host, "host-b");
	assert_int_equal(row.rank, 1);
	assert_int_equal(row.world, 2);
	assert_int_equal(row.spans, 1 + TWT_PAIR_STEPS * 12 + 1);
	assert_int_equal(row.clock_offset_ns, -4000000000);
	assert_int_equal(row.clock_error_ns, 2000);
	assert_int_equal(trace_document_rank(document, 2, &row), TOW_EINVAL);
	trace_document_release(document);
	trace_document_release(NULL);
}

static void the_same_rank_twice_is_refused(void **state)
{
	struct trace_document *one, *other;
	struct trace_rank_info row;

	(void)state;
	SKIP_WITHOUT_XSPACE();
	one = open_pair();
	other = open_pair();
	assert_int_equal(trace_document_merge(one, other), TOW_EINVAL);
	assert_int_equal(trace_document_rank(other, 1, &row), TOW_OK);
	assert_int_equal(trace_document_merge(one, one), TOW_EINVAL);
	trace_document_release(one);
	trace_document_release(other);
}

static void ranks_are_merged_in_their_order(void **state)
{
	struct twi_trace trace = { 0 }, other = { 0 };

	(void)state;
	twt_trace_add_rank(&trace, "a", 3);
	twt_trace_add_rank(&other, "b", 3);
	assert_int_equal(twi_trace_merge(&trace, &other), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "rank 3"));
	other.ranks[0].rank = 1;
	assert_int_equal(twi_trace_merge(&trace, &other), TOW_OK);
	assert_int_equal(trace.rank_count, 2);
	assert_int_equal(trace.ranks[0].rank, 1);
	assert_int_equal(trace.ranks[1].rank, 3);
	assert_int_equal(other.rank_count, 0);
	assert_int_equal(twi_trace_merge(&trace, &other), TOW_OK);
	twi_trace_fini(&other);
	twi_trace_fini(&trace);
}

static void wrong_bytes_are_refused(void **state)
{
	struct trace_document *document = NULL;

	(void)state;
	SKIP_WITHOUT_XSPACE();
	assert_int_equal(trace_document_load("\xff\xff", 2, &document), TOW_EINVAL);
	assert_null(document);
	/* An XSpace, but nobody's of ours: nothing in it at all. */
	assert_int_equal(trace_document_load("", 0, &document), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "another program's"));
	assert_null(document);
}

static void each_format_is_written(void **state)
{
	static const char *const names[] = { "xspace", "perfetto", "chrome", "json", "html" };
	struct trace_document *document;
	char *bytes;
	size_t count;

	(void)state;
	SKIP_WITHOUT_XSPACE();
	document = open_pair();
	for (size_t i = 0; i < twi_array_count(names); i++) {
		enum trace_format format;

		assert_int_equal(trace_format_from_name(names[i], &format), TOW_OK);
		assert_int_equal(trace_document_write(document, format, &bytes, &count), TOW_OK);
		assert_true(count > 1000);
		assert_int_equal(bytes[count], 0);
		free(bytes);
	}
	assert_int_equal(trace_document_write(document, (enum trace_format)99, &bytes, &count),
			 TOW_EINVAL);
	trace_document_release(document);
}

static void chrome_is_json_that_adds_up(void **state)
{
	struct twi_trace pair;
	size_t count, complete = 0, begins = 0, ends = 0, index;
	json_t *root, *events, *event;
	char *bytes;

	(void)state;
	twt_trace_pair(&pair);
	assert_int_equal(twi_export_chrome(&pair, &bytes, &count), TOW_OK);
	root = json_loadb(bytes, count, 0, NULL);
	assert_non_null(root);
	events = json_object_get(root, "traceEvents");
	json_array_foreach(events, index, event)
	{
		const char *phase = json_string_value(json_object_get(event, "ph"));

		assert_true(json_number_value(json_object_get(event, "ts")) >= 0);
		complete += strcmp(phase, "X") == 0;
		begins += strcmp(phase, "b") == 0;
		ends += strcmp(phase, "e") == 0;
	}
	/* A step: STEP, two USER; waits: two at rank 0 and one more each. Once: REGISTER, COPY. */
	assert_int_equal(complete, TWT_PAIR_STEPS * (2 * 3 + 2 + 3) + 4);
	assert_int_equal(begins, ends);
	/* A step: COLL, its SEND and RECV, two DEVICE, a message; a CALL or SERVE. */
	assert_int_equal(begins, TWT_PAIR_STEPS * 2 * 7);
	json_decref(root);
	free(bytes);
	twi_trace_fini(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats_have_names),
		cmocka_unit_test(a_document_tells_its_ranks),
		cmocka_unit_test(the_same_rank_twice_is_refused),
		cmocka_unit_test(ranks_are_merged_in_their_order),
		cmocka_unit_test(wrong_bytes_are_refused),
		cmocka_unit_test(each_format_is_written),
		cmocka_unit_test(chrome_is_json_that_adds_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
