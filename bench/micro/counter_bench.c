/*
 * counter_bench.c - measures what diagnostics cost: nanoseconds of each record of the data path.
 *
 *	counter_bench [--quick]
 *
 * Each figure is the median of several rounds of a loop. It is measured alone, and with a second
 * thread that does the same to the counters of the same runtime. That thread has slots of its own,
 * so it should not matter. A shared atomic counter, which the library does not use, is timed for
 * comparison. tow-perf measures the cost for each message, against a build with -Ddiagnostics=false
 * (docs/performance.md).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/span.h"

#define ROUNDS 9

static struct twi_diag *diag;
static _Atomic uint64_t shared;
static _Atomic int stop;
static uint64_t loops = 2000000;
static const char places[64][24]; /* used as return addresses */

static void time_nothing(uint64_t i)
{
	__asm__ volatile("" : : "r"(i));
}

static void time_counter(uint64_t i)
{
	(void)i;
	twi_count(diag, TWI_C_sends, 1);
}

static void time_latency(uint64_t i)
{
	twi_latency_record(diag, TWI_LANE_TCP, 8, 4000 + (i & 1023));
}

/* One place for all records, as in a loop whose receives come late. */
static void time_copy(uint64_t i)
{
	twi_copy_record(diag, TWI_R_unexpected_arrival, 64, 100 + (i & 15),
			(struct twi_site){ .caller = places, .tag = 1 });
}

/* Sixty-four places in turn: the cost of hashing and of the memory that it touches. */
static void time_copies(uint64_t i)
{
	twi_copy_record(diag, TWI_R_unexpected_arrival, 64, 100 + (i & 15),
			(struct twi_site){ .caller = &places[i & 63] });
}

static void time_span(uint64_t i)
{
	struct twi_span span = { .start_ns = i,
				 .end_ns = i + 100,
				 .id = i,
				 .bytes = 65536,
				 .peer = 1,
				 .kind = TWI_SPAN_SEND,
				 .lane = TWI_LANE_SHM };

	twi_span_record(diag, &span);
}

/* The question for each small message: one in 64 is wanted. */
static void time_wanted(uint64_t i)
{
	bool wanted = twi_span_wanted(diag, 8 + (i & 15));

	__asm__ volatile("" : : "r"(wanted));
}

static void time_clock(uint64_t i)
{
	uint64_t now = twi_now_ns() + i;

	__asm__ volatile("" : : "r"(now));
}

static void time_shared(uint64_t i)
{
	(void)i;
	atomic_fetch_add_explicit(&shared, 1, memory_order_relaxed);
}

struct subject {
	const char *name;
	void (*once)(uint64_t i);
};

static const struct subject subjects[] = {
	{ "an empty loop", time_nothing },
	{ "twi_count", time_counter },
	{ "twi_latency_record", time_latency },
	{ "twi_copy_record, one place", time_copy },
	{ "twi_copy_record, 64 places", time_copies },
	{ "twi_span_record", time_span },
	{ "twi_span_wanted", time_wanted },
	{ "twi_now_ns", time_clock },
	{ "a shared fetch_add (not used)", time_shared },
};

static int compare_values(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double measure_subject(const struct subject *subject)
{
	double rounds[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		uint64_t start = twi_clock_gettime_ns();

		for (uint64_t i = 0; i < loops; i++)
			subject->once(i);
		rounds[r] = (double)(twi_clock_gettime_ns() - start) / (double)loops;
	}
	qsort(rounds, ROUNDS, sizeof(rounds[0]), compare_values);
	return rounds[ROUNDS / 2];
}

static void *disturb_run(void *arg)
{
	const struct subject *subject = arg;

	for (uint64_t i = 0; !atomic_load_explicit(&stop, memory_order_relaxed); i++)
		subject->once(i);
	return NULL;
}

static double measure_beside(const struct subject *subject)
{
	pthread_t thread;
	double ns;

	atomic_store(&stop, 0);
	if (pthread_create(&thread, NULL, disturb_run, (void *)(uintptr_t)subject) != 0)
		return -1;
	ns = measure_subject(subject);
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	return ns;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--quick") == 0) {
		loops = 20000;
	} else if (argc > 1) {
		printf("usage: counter_bench [--quick]\nns of each record of the data path\n");
		return strcmp(argv[1], "--help") == 0 ? 0 : 2;
	}
	twi_clock_init();
	if (twi_diag_create(&diag) < 0) {
		fprintf(stderr, "counter_bench: %s\n", tow_error_message());
		return 1;
	}
	printf("%-32s %10s %22s\n", "ns each", "alone", "beside another thread");
	for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++)
		printf("%-32s %10.1f %22.1f\n", subjects[i].name, measure_subject(&subjects[i]),
		       measure_beside(&subjects[i]));
	twi_diag_destroy(diag);
	return 0;
}
