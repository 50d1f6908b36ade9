/*
 * test_label.c - labels of groups: what is legal, one for each group, what becomes of those that
 * were closed, and how they are told in words and in traces.
 */
#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "diag/record/tag.h"
#include "diag/trace/trace.h"

static struct twi_diag *diag;

static int setup(void **state)
{
	(void)state;
	return twi_diag_create(&diag);
}

static int teardown(void **state)
{
	(void)state;
	twi_diag_destroy(diag);
	return 0;
}

static void must_read(uint32_t group, const char *label)
{
	char text[TOW_GROUP_LABEL_MAX];

	assert_string_equal(twi_label_read(diag, group, text), label);
}

static void legal(void **state)
{
	char longest[TOW_GROUP_LABEL_MAX + 1];
	static const struct {
		const char *text, *words;
	} rows[] = {
		{ "", "empty" },
		{ "a\nb", "byte 1 of the label is 0x0a" },
		{ "caf\xc3\xa9", "byte 3 of the label is 0xc3" },
		{ "\x7f", "0x7f" },
	};

	(void)state;
	memset(longest, 'x', sizeof(longest));
	longest[TOW_GROUP_LABEL_MAX] = '\0';
	assert_int_equal(twi_label_check("call", longest), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "call: the label 'xxxxxxxxxxxxxxxx...'"));
	longest[TOW_GROUP_LABEL_MAX - 1] = '\0';
	assert_int_equal(twi_label_check("call", longest), TOW_OK);
	assert_int_equal(twi_label_check("call", " ~\"\\"), TOW_OK);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(twi_label_check("call", rows[i].text), TOW_EINVAL);
		assert_non_null(strstr(tow_error_message(), rows[i].words));
	}
}

static void from_anything(void **state)
{
	char out[TOW_GROUP_LABEL_MAX], wide[200];

	(void)state;
	twi_label_from("a\tb\xc3\xa9 c", out);
	assert_string_equal(out, "ab c");
	twi_label_from("\n\x1b", out);
	assert_string_equal(out, "");
	memset(wide, 'w', sizeof(wide));
	wide[sizeof(wide) - 1] = '\0';
	twi_label_from(wide, out);
	assert_int_equal(strlen(out), TOW_GROUP_LABEL_MAX - 1);
	assert_int_equal(twi_label_check("call", out), TOW_OK);
}

static void one_for_each(void **state)
{
	char words[TWI_LABEL_WORDS];

	(void)state;
	must_read(7, "");
	assert_string_equal(twi_label_words(diag, 7, words), "group 7");
	for (uint32_t i = 0; i < 100; i++) {
		snprintf(words, sizeof(words), "label %u", i);
		assert_int_equal(twi_label_set(diag, i * 3, words), TOW_OK);
	}
	assert_int_equal(twi_label_set(diag, 30, "another"), TOW_OK);
	assert_int_equal(twi_label_set(diag, 33, NULL), TOW_OK);
	assert_int_equal(twi_label_set(diag, 36, ""), TOW_OK);
	must_read(30, "another");
	must_read(33, "");
	must_read(36, "");
	must_read(27, "label 9");
	must_read(39, "label 13");
	must_read(297, "label 99");
	assert_string_equal(twi_label_words(diag, 27, words), "group 27 \"label 9\"");
	/* The longest fits with the largest number. */
	memset(words, 'x', TOW_GROUP_LABEL_MAX - 1);
	words[TOW_GROUP_LABEL_MAX - 1] = '\0';
	assert_int_equal(twi_label_set(diag, UINT32_MAX, words), TOW_OK);
	twi_label_words(diag, UINT32_MAX, words);
	assert_int_equal(words[strlen(words) - 1], '"');
}

/* Traces tell of them for a while, and what is told is bounded. */
static void closed(void **state)
{
	(void)state;
	assert_int_equal(twi_label_set(diag, 5, "open"), TOW_OK);
	for (uint32_t i = 1000; i < 1000 + TWI_LABELS_CLOSED + 10; i++) {
		assert_int_equal(twi_label_set(diag, i, "short-lived"), TOW_OK);
		twi_label_close(diag, i);
		twi_label_close(diag, i); /* once is enough */
	}
	must_read(5, "open");
	must_read(1009, "");
	must_read(1010, "short-lived");
	must_read(1000 + TWI_LABELS_CLOSED + 9, "short-lived");
	assert_int_equal(diag->labels.closed, TWI_LABELS_CLOSED);
	/* A new group with its number, without a label or with one. */
	assert_int_equal(twi_label_set(diag, 1010, NULL), TOW_OK);
	must_read(1010, "");
	assert_int_equal(twi_label_set(diag, 1011, "new"), TOW_OK);
	must_read(1011, "new");
	assert_int_equal(diag->labels.closed, TWI_LABELS_CLOSED - 2);
	twi_label_close(diag, 123456); /* that has none */
}

static void record(enum twi_span_kind kind, uint32_t group, uint32_t number, uint32_t name)
{
	uint64_t now = twi_now_ns();
	const struct twi_span span = { .kind = (uint8_t)kind,
				       .id = (uint64_t)group << 32 | number,
				       .name = name,
				       .start_ns = now,
				       .end_ns = now + 1,
				       .lane = TWI_SPAN_NO_LANE };

	twi_span_record(diag, &span);
}

static const char *name_in(const struct twi_trace_rank *rank, uint32_t number)
{
	for (size_t i = 0; i < rank->threads[0].span_count; i++) {
		const struct twi_span *span = &rank->threads[0].spans[i];

		if ((uint32_t)span->id == number)
			return span->name == 0 ? "" : rank->names[span->name - 1];
	}
	return "not there";
}

static void in_traces(void **state)
{
	uint32_t reduce = twi_tag_name("all_reduce"), gather = twi_tag_name("all_gather");
	struct twi_trace trace;

	(void)state;
	assert_int_equal(twi_label_set(diag, 3, "dp"), TOW_OK);
	assert_int_equal(twi_label_set(diag, 4, "tp"), TOW_OK);
	record(TWI_SPAN_COLL, 3, 1, reduce);
	record(TWI_SPAN_COLL, 4, 2, reduce);
	record(TWI_SPAN_COLL, 4, 3, gather);
	record(TWI_SPAN_COLL, 4, 4, 0);
	record(TWI_SPAN_COLL, 5, 5, reduce); /* without a label */
	record(TWI_SPAN_SEND, 3, 6, gather); /* no collective: its id is no group's */
	record(TWI_SPAN_COLL, 3, 7, reduce);
	for (uint32_t group = 100; group < 300; group++) { /* they push each other out */
		char label[32];

		snprintf(label, sizeof(label), "g%u", group);
		assert_int_equal(twi_label_set(diag, group, label), TOW_OK);
		record(TWI_SPAN_COLL, group, group, reduce);
	}
	for (uint32_t i = 0; i < 70; i++) { /* so do names of one group */
		char name[32];

		snprintf(name, sizeof(name), "n%u", i);
		record(TWI_SPAN_COLL, 4, 1000 + i, twi_tag_name(name));
	}
	assert_int_equal(twi_trace_read(diag, 0, &trace), TOW_OK);
	assert_int_equal(trace.ranks[0].thread_count, 1);
	assert_string_equal(name_in(&trace.ranks[0], 1), "all_reduce of dp");
	assert_string_equal(name_in(&trace.ranks[0], 2), "all_reduce of tp");
	assert_string_equal(name_in(&trace.ranks[0], 3), "all_gather of tp");
	assert_string_equal(name_in(&trace.ranks[0], 4), "tp");
	assert_string_equal(name_in(&trace.ranks[0], 5), "all_reduce");
	assert_string_equal(name_in(&trace.ranks[0], 6), "all_gather");
	assert_string_equal(name_in(&trace.ranks[0], 7), "all_reduce of dp");
	assert_string_equal(name_in(&trace.ranks[0], 100), "all_reduce of g100");
	assert_string_equal(name_in(&trace.ranks[0], 299), "all_reduce of g299");
	assert_string_equal(name_in(&trace.ranks[0], 1001), "n1 of tp");
	assert_string_equal(name_in(&trace.ranks[0], 1065), "n65 of tp");
	twi_trace_fini(&trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(legal),
		cmocka_unit_test(from_anything),
		cmocka_unit_test_setup_teardown(one_for_each, setup, teardown),
		cmocka_unit_test_setup_teardown(closed, setup, teardown),
		cmocka_unit_test_setup_teardown(in_traces, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
