/*
 * test_span.c - a ring is read while it is written: no span is torn, the order holds, and what was
 * read and what was lost are together what was written.
 *
 * Each span carries its number in every word, mixed, so that a row of two halves cannot look whole.
 */
#include "twt.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/span_ring.h"
#include "diag/trace/trace.h"

#define RUNS 30u

static struct twi_diag *diag;
static struct twi_span_ring *_Atomic ring;
static _Atomic bool done;
static uint64_t to_write, pause_seed;

static uint64_t mix(uint64_t number, uint64_t word)
{
	return (number * 8 + word) * 0x9e3779b97f4a7c15u;
}

static struct twi_span span_of(uint64_t number)
{
	struct twi_span span = { .start_ns = number,
				 .end_ns = number + 1,
				 .id = mix(number, 2),
				 .parent = mix(number, 3),
				 .bytes = mix(number, 4),
				 .queue_ns = (uint32_t)mix(number, 5),
				 .wire_ns = (uint32_t)mix(number, 6),
				 .match_ns = (uint32_t)mix(number, 7),
				 .name = (uint32_t)mix(number, 8),
				 .peer = (uint32_t)mix(number, 9) };

	span.kind = (uint8_t)(number % TWI_SPAN_KINDS);
	span.lane = (uint8_t)number;
	span.detail = (uint8_t)(number >> 8);
	span.status = (int8_t)(number >> 16);
	return span;
}

static void check_span(const struct twi_span *span, uint64_t number)
{
	struct twi_span whole = span_of(number);

	assert_memory_equal(span, &whole, sizeof(whole));
}

static void *write_spans(void *arg)
{
	uint64_t random = pause_seed;

	(void)arg;
	for (uint64_t i = 0; i < to_write; i++) {
		struct twi_span span = span_of(i);

		twi_span_record(diag, &span);
		if (i == 0)
			atomic_store(&ring, atomic_load(&twi_diag_block_of(diag)->spans));
		if (twt_random(&random) % 3000 == 0)
			sched_yield();
	}
	atomic_store(&done, true);
	return NULL;
}

/* By a cursor, as a capture reads: every span is read once or lost once. */
static void follow(uint64_t *random)
{
	static struct twi_span spans[2 * TWI_SPAN_ROWS];
	const struct twi_span_ring *from;
	uint64_t cursor = 0, read = 0, gone = 0;
	bool last = false;

	while ((from = atomic_load(&ring)) == NULL)
		sched_yield();
	while (!last || cursor < to_write) {
		size_t room = 1 + twt_random(random) % (2 * TWI_SPAN_ROWS), count;
		uint64_t lost, before = cursor;

		last = atomic_load(&done);
		count = twi_span_ring_read(from, &cursor, spans, room, &lost);
		assert_true(count <= room);
		assert_int_equal(cursor, before + lost + count);
		for (size_t i = 0; i < count; i++)
			check_span(&spans[i], cursor - count + i);
		read += count;
		gone += lost;
		if (twt_random(random) % 4 == 0)
			sched_yield();
	}
	assert_int_equal(read + gone, to_write);
	assert_true(read >= twi_min(to_write, (uint64_t)TWI_SPAN_ROWS));
}

/* Whole traces meanwhile: whole spans in their order, and lost + read = written at that time. */
static void read_traces(void)
{
	uint64_t before = 0;
	bool last;

	do {
		struct twi_trace trace;
		const struct twi_trace_rank *rank;

		last = atomic_load(&done);
		assert_int_equal(twi_trace_read(diag, 0, &trace), TOW_OK);
		rank = &trace.ranks[0];
		for (size_t t = 0; t < rank->thread_count; t++) {
			const struct twi_trace_thread *thread = &rank->threads[t];
			uint64_t now = thread->lost + thread->span_count;

			for (size_t i = 0; i < thread->span_count; i++)
				check_span(&thread->spans[i], thread->lost + i);
			assert_true(now >= before && now <= to_write);
			before = now;
		}
		twi_trace_fini(&trace);
	} while (!last);
	assert_int_equal(before, to_write);
}

static void read_while_written(void **state)
{
	uint64_t random = twt_seed();

	(void)state;
	twi_clock_init();
	for (unsigned run = 0; run < RUNS; run++) {
		pthread_t writer;

		assert_int_equal(twi_diag_create(&diag), TOW_OK);
		atomic_store(&ring, NULL);
		atomic_store(&done, false);
		to_write = 1 + twt_random(&random) % (run % 2 == 0 ? 400000 : 6000);
		pause_seed = twt_random(&random);
		assert_int_equal(pthread_create(&writer, NULL, write_spans, NULL), 0);
		if (run % 3 == 2)
			read_traces();
		else
			follow(&random);
		assert_int_equal(pthread_join(writer, NULL), 0);
		assert_int_equal(twi_counter_sum(diag, TWI_C_spans), to_write);
		twi_diag_destroy(diag);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(read_while_written) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
