/*
 * test_alloclog_names.c - names of tags and places in a log's file: they come back, older minors
 * have none, and hostile ones are refused with their byte or made harmless.
 */
#include "twt.h"

#include <string.h>

#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include "diag/record/tag.h"
#include "memreg/alloclog/alloclog_names.h"
#include "memreg/sizing/alloclog_read.h"
#include <towline/stats.h>

#define NAMES 512 /* where they begin in the file */

static struct twi_alloc_event some[] = {
	{ .kind = TWI_ALLOC_ALLOC, .id = 1, .bytes = 100, .tag = 7, .caller = 0x401000 },
	{ .ns = 2, .kind = TWI_ALLOC_FREE, .id = 1, .bytes = 100 },
};

static struct twi_alloc_trace sample(void)
{
	return (struct twi_alloc_trace){ .events = some, .count = 2, .duration_ns = 9 };
}

static int read_bytes(const char *bytes, size_t count, struct twi_alloc_trace *out)
{
	FILE *file = fmemopen((void *)(uintptr_t)bytes, count, "rb");
	int status;

	assert_non_null(file);
	status = twi_alloclog_read(file, out);
	fclose(file);
	return status;
}

static void mend_checksum(char *bytes, size_t count)
{
	uint32_t crc = twi_crc32(0, bytes, count - 16);

	for (unsigned i = 0; i < 4; i++)
		bytes[count - 12 + i] = (char)(crc >> 8 * i);
}

static bool has_name(const struct twi_alloc_trace *trace, unsigned kind, uint64_t key,
		     const char *text)
{
	struct twi_alloclog_name name;
	size_t at = 0;

	while (twi_alloclog_names_next(trace, &at, &name))
		if (name.kind == kind && name.key == key && strcmp(name.text, text) == 0)
			return true;
	return false;
}

static void come_back(void **state)
{
	struct twi_alloc_trace trace = sample(), again;
	char *bytes;
	size_t count;

	(void)state;
	assert_true(twi_alloclog_names_put(&trace, TWI_ALLOCLOG_NAMED_TAG, 7, "weights"));
	assert_true(twi_alloclog_names_put(&trace, TWI_ALLOCLOG_NAMED_CALLER, 0x401000,
					   "train+0x41 in job+0x1041"));
	assert_false(twi_alloclog_names_put(&trace, TWI_ALLOCLOG_NAMED_TAG, 8, ""));
	assert_int_equal(twi_alloclog_encode(&trace, &bytes, &count), TOW_OK);
	/* 2 times 10 and the texts, in whole words. */
	assert_int_equal(count, NAMES + 56 + 2 * 48 + 16);
	assert_int_equal(read_bytes(bytes, count, &again), TOW_OK);
	assert_true(has_name(&again, TWI_ALLOCLOG_NAMED_TAG, 7, "weights"));
	assert_true(
		has_name(&again, TWI_ALLOCLOG_NAMED_CALLER, 0x401000, "train+0x41 in job+0x1041"));
	assert_false(has_name(&again, TWI_ALLOCLOG_NAMED_TAG, 8, ""));
	assert_int_equal(again.count, 2);
	twi_alloc_trace_fini(&again);
	/* A reader of an older minor passes over them: the records begin where the header ends. */
	assert_int_equal((unsigned char)bytes[12] | (unsigned char)bytes[13] << 8, NAMES + 56);
	assert_memory_equal(bytes + NAMES + 56 + 16, "\x64\0\0\0\0\0\0", 8);
	free(bytes);
}

/* More than there is room for: those that come first are there, and the header stays in bounds. */
static void are_bounded(void **state)
{
	struct twi_alloc_trace trace = sample(), again;
	char text[300], *bytes;
	size_t count, put = 0;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	while (twi_alloclog_names_put(&trace, TWI_ALLOCLOG_NAMED_TAG, put + 1, text))
		put++;
	assert_int_equal(put, TWI_ALLOCLOG_NAMES_MAX / (10 + 127));
	assert_int_equal(twi_alloclog_encode(&trace, &bytes, &count), TOW_OK);
	assert_true(count <= 4096 + 2 * 48 + 16);
	assert_int_equal(read_bytes(bytes, count, &again), TOW_OK);
	text[127] = '\0';
	assert_true(has_name(&again, TWI_ALLOCLOG_NAMED_TAG, 1, text));
	assert_true(has_name(&again, TWI_ALLOCLOG_NAMED_TAG, put, text));
	twi_alloc_trace_fini(&again);
	free(bytes);
}

/* Of what occurs: the most memory first. The library's tag and an address of nothing have none. */
static void are_looked_up(void **state)
{
	uint64_t here = (uintptr_t)__builtin_return_address(0);
	struct twi_alloc_event events[] = {
		{ .kind = TWI_ALLOC_ALLOC, .id = 1, .bytes = 10, .caller = 16 },
		{ .kind = TWI_ALLOC_ALLOC, .id = 2, .bytes = 99, .caller = here },
		{ .kind = TWI_ALLOC_FREE, .id = 1, .bytes = 10, .caller = 16 },
		{ .kind = TWI_ALLOC_ALLOC, .id = 3, .bytes = 10, .tag = TWI_TAGS_MAX },
		{ .kind = TWI_ALLOC_ALLOC, .id = 4, .bytes = 5, .tag = TWI_ALLOC_TAG_LIBRARY },
	};
	struct twi_alloc_trace trace = { .events = events, .count = 5 };
	struct twi_alloclog_name name;
	size_t at = 0;

	(void)state;
	assert_int_equal(twi_tag_number("test", "named \"here\"", &events[3].tag), TOW_OK);
	assert_int_equal(twi_alloclog_names_make(&trace), TOW_OK);
	assert_true(twi_alloclog_names_next(&trace, &at, &name));
	assert_int_equal(name.kind, TWI_ALLOCLOG_NAMED_CALLER);
	assert_int_equal(name.key, here);
	assert_non_null(strstr(name.text, "+0x"));
	assert_true(twi_alloclog_names_next(&trace, &at, &name));
	assert_int_equal(name.kind, TWI_ALLOCLOG_NAMED_TAG);
	assert_int_equal(name.key, events[3].tag);
	assert_string_equal(name.text, "named \"here\"");
	assert_false(twi_alloclog_names_next(&trace, &at, &name));
}

/* Bytes over those of a file that has one name of 12 bytes at NAMES, and what is said of them. */
static const struct {
	size_t at, bytes;
	const char *patch, *words;
} rows[] = {
	{ NAMES + 1, 1, "\x0f", "at byte 512: a name is longer" },
	{ NAMES + 1, 1, "\xff", "at byte 512: a name is longer" },
	{ NAMES + 1, 1, "\0", "at byte 512: the length of a name" },
	{ NAMES + 1, 1, "\x04", "at byte 526: a name is longer" },
	{ NAMES, 1, "\0", "at byte 513: there is something" },
	{ 144, 4, "\0\0\0\0", "at byte 144: the names begin" },
	{ 144, 4, "\xff\xff\xff\xff", "at byte 144: the names begin" },
	{ 144, 4, "\x19\x02\0\0", "at byte 144: the names begin" },
	{ 148, 4, "\xff\xff\xff\xff", "at byte 148: the names do not fit" },
	{ 148, 4, "\x20\0\0\0", "at byte 148: the names do not fit" },
	{ 148, 4, "\x05\0\0\0", "at byte 512: a name is longer" },
};

/* A gap has numbers of steps and of events where others have an id and a call site. */
static void gaps_are_no_frees(void **state)
{
	uint64_t more = (uintptr_t)__builtin_return_address(0), less = (uintptr_t)&read_bytes + 1;
	struct twi_alloc_event events[] = {
		{ .kind = TWI_ALLOC_ALLOC, .id = 1, .bytes = 100, .caller = more },
		{ .kind = TWI_ALLOC_GAP, .id = 1, .bytes = 100, .caller = 3 },
		{ .kind = TWI_ALLOC_GAP, .id = 1u << 20, .bytes = 100, .caller = less },
		{ .kind = TWI_ALLOC_STEP, .id = 1u << 20 },
		{ .kind = TWI_ALLOC_ALLOC, .id = 2, .bytes = 60, .caller = more },
		{ .kind = TWI_ALLOC_ALLOC, .id = 3, .bytes = 120, .caller = less },
	};
	struct twi_alloc_trace trace = { .events = events, .count = 6, .duration_ns = 9 };
	struct twi_alloclog_name name;
	size_t at = 0;

	(void)state;
	assert_int_equal(twi_alloclog_names_make(&trace), TOW_OK);
	assert_true(twi_alloclog_names_next(&trace, &at, &name));
	assert_int_equal(name.key, more);
	assert_true(twi_alloclog_names_next(&trace, &at, &name));
	assert_int_equal(name.key, less);
	assert_false(twi_alloclog_names_next(&trace, &at, &name));
}

static void wrong_ones_are_refused(void **state)
{
	struct twi_alloc_trace trace = sample(), again;

	(void)state;
	assert_true(twi_alloclog_names_put(&trace, TWI_ALLOCLOG_NAMED_TAG, 7, "abcdABCDabcd"));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *bytes;
		size_t count;

		assert_int_equal(twi_alloclog_encode(&trace, &bytes, &count), TOW_OK);
		memcpy(bytes + rows[i].at, rows[i].patch, rows[i].bytes);
		mend_checksum(bytes, count);
		assert_int_equal(read_bytes(bytes, count, &again), TOW_EINVAL);
		if (strstr(tow_error_message(), rows[i].words) == NULL)
			fail_msg("row %zu: %s", i, tow_error_message());
		assert_null(again.events);
		free(bytes);
	}
}

/* No end, no UTF-8, control characters: the number stays, and the text can be shown anywhere. */
static void hostile_ones_are_harmless(void **state)
{
	struct twi_alloc_trace trace = sample(), again;
	char *bytes;
	size_t count;

	(void)state;
	assert_true(twi_alloclog_names_put(&trace, TWI_ALLOCLOG_NAMED_TAG, 7, "abcdABCDabcd"));
	assert_int_equal(twi_alloclog_encode(&trace, &bytes, &count), TOW_OK);
	memcpy(bytes + NAMES + 10, "\x1b]0;\x07\0\xff\xc3z<\x7f\"", 12);
	mend_checksum(bytes, count);
	assert_int_equal(read_bytes(bytes, count, &again), TOW_OK);
	assert_true(has_name(&again, TWI_ALLOCLOG_NAMED_TAG, 7, "?]0;????z<?\""));
	twi_alloc_trace_fini(&again);
	/* A kind of a later minor is passed over by who asks for tags. */
	bytes[NAMES] = 9;
	mend_checksum(bytes, count);
	assert_int_equal(read_bytes(bytes, count, &again), TOW_OK);
	assert_false(has_name(&again, TWI_ALLOCLOG_NAMED_TAG, 7, "?]0;????z<?\""));
	twi_alloc_trace_fini(&again);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(come_back),
		cmocka_unit_test(are_bounded),
		cmocka_unit_test(are_looked_up),
		cmocka_unit_test(gaps_are_no_frees),
		cmocka_unit_test(wrong_ones_are_refused),
		cmocka_unit_test(hostile_ones_are_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
