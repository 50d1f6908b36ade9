/* test_alloclog_file.c - logs come back as they were written; faults are named by their byte. */
#include "twt.h"

#include <string.h>

#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include "memreg/sizing/alloclog_read.h"

static struct twi_alloc_event some[] = {
	{ .ns = 0, .kind = TWI_ALLOC_STEP, .id = 1, .caller = 5, .thread = 4, .tag = 3 },
	{ .ns = 5, .kind = TWI_ALLOC_ALLOC, .id = 1, .bytes = 100, .align_log2 = 6, .thread = 1 },
	{ .ns = 5, .kind = TWI_ALLOC_FREE, .bytes = 4096, .thread = 2, .caller = UINT64_MAX },
	{ .ns = 7, .kind = TWI_ALLOC_ALLOC, .id = 2, .bytes = 0, .align_log2 = 21, .tag = 77 },
	{ .ns = 9, .kind = TWI_ALLOC_FREE, .id = 1, .bytes = 100 },
};

static struct twi_alloc_trace sample(void)
{
	return (struct twi_alloc_trace){
		.events = some,
		.count = sizeof(some) / sizeof(some[0]),
		.start_realtime_ns = 1700000000000000001u,
		.start_monotonic_ns = 123,
		.duration_ns = 9,
		.lost = 4,
		.live_bytes_at_start = 1 << 20,
		.taken_bytes_at_start = 3 << 20,
		.taken_peak_bytes = 5 << 20,
		.spread_bytes = 6 << 20,
		.live_allocations_at_start = 3,
		.pool_bytes = 1 << 28,
		.page_bytes = 4096,
		.sampling_shift = 2,
		.staging_bytes = 5 << 20,
		.pid = 99,
		.from_open = true,
		.arena = "jemalloc",
	};
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

/* All of it but what the header says: structs have padding, files have none. */
static void same_events(const struct twi_alloc_trace *a, const struct twi_alloc_trace *b)
{
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		const struct twi_alloc_event *x = &a->events[i], *y = &b->events[i];

		assert_true(x->ns == y->ns && x->id == y->id && x->bytes == y->bytes);
		assert_true(x->caller == y->caller && x->thread == y->thread && x->tag == y->tag);
		assert_true(x->kind == y->kind && x->align_log2 == y->align_log2);
	}
}

static void comes_back(void **state)
{
	struct twi_alloc_trace trace = sample(), again;
	char *bytes;
	size_t count;

	(void)state;
	assert_int_equal(twi_alloclog_encode(&trace, &bytes, &count), TOW_OK);
	assert_int_equal(count, 192 + 5 * 48 + 16);
	assert_int_equal(read_bytes(bytes, count, &again), TOW_OK);
	same_events(&again, &trace);
	assert_int_equal(again.start_realtime_ns, trace.start_realtime_ns);
	assert_int_equal(again.start_monotonic_ns, 123);
	assert_int_equal(again.duration_ns, 9);
	assert_int_equal(again.lost, 4);
	assert_int_equal(again.live_bytes_at_start, 1 << 20);
	assert_int_equal(again.taken_bytes_at_start, 3 << 20);
	assert_int_equal(again.taken_peak_bytes, 5 << 20);
	assert_int_equal(again.spread_bytes, 6 << 20);
	assert_int_equal(again.live_allocations_at_start, 3);
	assert_int_equal(again.pool_bytes, 1 << 28);
	assert_int_equal(again.page_bytes, 4096);
	assert_int_equal(again.sampling_shift, 2);
	assert_int_equal(again.unknown_frees, 1);
	assert_int_equal(again.pid, 99);
	assert_true(again.from_open);
	assert_string_equal(again.arena, "jemalloc");
	assert_int_equal(again.staging_bytes, 5 << 20);
	twi_alloc_trace_fini(&again);
	free(bytes);
}

/* Makes it one of version 1, and its checksum right. */
static void make_old(char *bytes, size_t count)
{
	uint32_t crc;

	bytes[8] = 1;
	memset(bytes + 112, 0, 16);
	crc = twi_crc32(0, bytes, count - 16);
	for (unsigned i = 0; i < 4; i++)
		bytes[count - 12 + i] = (char)(crc >> 8 * i);
}

/* Version 1 had no arena, and no size of what was allocated before the log. */
static void old_ones_are_read(void **state)
{
	struct twi_alloc_trace trace = sample(), again;
	uint64_t earlier = some[2].bytes;
	char *bytes;
	size_t count;

	(void)state;
	assert_int_equal(twi_alloclog_encode(&trace, &bytes, &count), TOW_OK);
	make_old(bytes, count);
	assert_int_equal(read_bytes(bytes, count, &again), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "without its allocation"));
	free(bytes);
	some[2].bytes = 0;
	assert_int_equal(twi_alloclog_encode(&trace, &bytes, &count), TOW_OK);
	make_old(bytes, count);
	assert_int_equal(read_bytes(bytes, count, &again), TOW_OK);
	same_events(&again, &trace);
	assert_string_equal(again.arena, "");
	assert_int_equal(again.staging_bytes, 0);
	twi_alloc_trace_fini(&again);
	free(bytes);
	some[2].bytes = earlier;
}

/* More than one batch of the reader. */
static void many_come_back(void **state)
{
	struct twi_alloc_trace trace = sample(), again;
	char *bytes;
	size_t count;

	(void)state;
	trace.count = 5000;
	trace.events = calloc(trace.count, sizeof(*trace.events));
	assert_non_null(trace.events);
	trace.duration_ns = trace.count;
	for (size_t i = 0; i < trace.count; i++)
		trace.events[i] = (struct twi_alloc_event){
			.ns = i, .kind = TWI_ALLOC_ALLOC, .id = i + 1, .bytes = i * 3
		};
	assert_int_equal(twi_alloclog_encode(&trace, &bytes, &count), TOW_OK);
	assert_int_equal(read_bytes(bytes, count, &again), TOW_OK);
	same_events(&again, &trace);
	twi_alloc_trace_fini(&again);
	free(trace.events);
	free(bytes);
}

/* Cut anywhere, or any bit turned: refused, with a place inside the file. */
static void damage_is_seen(void **state)
{
	struct twi_alloc_trace trace = sample(), again;
	unsigned long long at;
	char *bytes, *where;
	size_t count;

	(void)state;
	assert_int_equal(twi_alloclog_encode(&trace, &bytes, &count), TOW_OK);
	for (size_t cut = 1; cut < count; cut++) {
		assert_int_equal(read_bytes(bytes, cut, &again), TOW_EINVAL);
		where = strstr(tow_error_message(), "at byte ");
		assert_non_null(where);
		assert_int_equal(sscanf(where, "at byte %llu", &at), 1);
		assert_int_equal(at, cut);
		assert_null(again.events);
	}
	for (size_t bit = 0; bit < count * 8; bit++) {
		bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
		assert_int_equal(read_bytes(bytes, count, &again), TOW_EINVAL);
		where = strstr(tow_error_message(), "at byte ");
		assert_non_null(where);
		assert_int_equal(sscanf(where, "at byte %llu", &at), 1);
		assert_true(at <= count);
		bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
	}
	assert_int_equal(read_bytes(bytes, count, &again), TOW_OK);
	twi_alloc_trace_fini(&again);
	free(bytes);
}

/* The file says a hundred million events and has none: no memory is taken for them. */
static void promises_cost_nothing(void **state)
{
	struct twi_alloc_trace trace = sample(), again;
	char *bytes;
	size_t count;

	(void)state;
	trace.count = 0;
	assert_int_equal(twi_alloclog_encode(&trace, &bytes, &count), TOW_OK);
	bytes[48 + 3] = 6;
	assert_int_equal(read_bytes(bytes, count, &again), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "ends inside the records"));
	free(bytes);
}

/* A gap comes back, and the header has the sum of all. */
static void gaps_come_back(void **state)
{
	struct twi_alloc_event events[] = {
		{ .ns = 1, .kind = TWI_ALLOC_ALLOC, .id = 1, .bytes = 100 },
		{ .ns = 2, .kind = TWI_ALLOC_GAP, .id = 5, .bytes = 3, .caller = 70 },
		{ .ns = 5, .kind = TWI_ALLOC_FREE, .id = 1, .bytes = 100 },
		{ .ns = 6, .kind = TWI_ALLOC_GAP, .id = 1, .caller = 2 },
	};
	struct twi_alloc_trace trace = { .events = events,
					 .count = 4,
					 .duration_ns = 9,
					 .gaps = 2,
					 .left_events = 72,
					 .left_steps = 6,
					 .gap_peak_bytes = 128 };
	struct twi_alloc_trace again;
	char *bytes;
	size_t count;

	(void)state;
	assert_int_equal(twi_alloclog_encode(&trace, &bytes, &count), TOW_OK);
	assert_int_equal(read_bytes(bytes, count, &again), TOW_OK);
	same_events(&again, &trace);
	assert_int_equal(again.gaps, 2);
	assert_int_equal(again.left_events, 72);
	assert_int_equal(again.left_steps, 6);
	assert_int_equal(again.gap_peak_bytes, 128);
	twi_alloc_trace_fini(&again);
	free(bytes);
	trace.left_steps = 7;
	assert_int_equal(twi_alloclog_encode(&trace, &bytes, &count), TOW_OK);
	assert_int_equal(read_bytes(bytes, count, &again), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "sum of the gaps"));
	free(bytes);
}

/* What the reader would refuse is not written. */
static void wrong_traces_are_not_written(void **state)
{
	static const struct {
		struct twi_alloc_event event;
		const char *what;
	} rows[] = {
		{ { .ns = 10, .kind = TWI_ALLOC_STEP }, "later than the end" },
		{ { .ns = 8, .kind = TWI_ALLOC_STEP }, "earlier than" },
		{ { .ns = 9, .kind = TWI_ALLOC_ALLOC, .id = 2 }, "not the next one" },
		{ { .ns = 9, .kind = TWI_ALLOC_FREE, .id = 1, .bytes = 100 }, "second free" },
		{ { .ns = 9, .kind = TWI_ALLOC_FREE, .id = 3 }, "never allocated" },
		{ { .ns = 9, .kind = TWI_ALLOC_FREE, .id = 2, .bytes = 1 }, "another size" },
		{ { .ns = 9, .kind = 5 }, "kind" },
		{ { .ns = 9, .kind = TWI_ALLOC_GAP, .bytes = 1 }, "ends after the log" },
		{ { .ns = 9, .kind = TWI_ALLOC_GAP, .id = UINT64_MAX }, "steps" },
		{ { .ns = 9, .kind = TWI_ALLOC_GAP, .caller = UINT64_MAX }, "events" },
		{ { .ns = 9, .kind = TWI_ALLOC_ALLOC, .id = 3, .align_log2 = 64 }, "alignment" },
		{ { .ns = 9, .kind = TWI_ALLOC_ALLOC, .id = 3, .bytes = UINT64_MAX }, "2^56" },
	};
	struct twi_alloc_event events[6];
	struct twi_alloc_trace trace = sample();
	char *bytes;
	size_t count;

	(void)state;
	for (size_t i = 0; i < 5; i++)
		events[i] = some[i];
	trace.events = events;
	trace.count = 6;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		events[5] = rows[i].event;
		assert_int_equal(twi_alloclog_encode(&trace, &bytes, &count), TOW_EINVAL);
		assert_null(bytes);
		assert_non_null(strstr(tow_error_message(), "event 5"));
		if (strstr(tow_error_message(), rows[i].what) == NULL)
			fail_msg("%s: %s", rows[i].what, tow_error_message());
	}
}

static void other_files(void **state)
{
	struct twi_alloc_trace out;
	FILE *folder = fopen("/", "rb");

	(void)state;
	assert_int_equal(read_bytes("{\"events\": []}   ", 17, &out), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "at byte 0"));
	assert_non_null(folder);
	assert_int_equal(twi_alloclog_read(folder, &out), TOW_ESYSTEM);
	fclose(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_back),
		cmocka_unit_test(gaps_come_back),
		cmocka_unit_test(old_ones_are_read),
		cmocka_unit_test(many_come_back),
		cmocka_unit_test(damage_is_seen),
		cmocka_unit_test(promises_cost_nothing),
		cmocka_unit_test(wrong_traces_are_not_written),
		cmocka_unit_test(other_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
