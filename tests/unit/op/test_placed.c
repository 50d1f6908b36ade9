/*
 * test_placed.c - tow_place: what it gives, what it refuses and counts, against a plain account of
 * what is placed; by one thread and by several, beside allocations of the runtime's own.
 */
#include "pair.h"
#include "twt.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <towline/towline.h>

#define MIB     ((size_t)1 << 20)
#define POOL    (16 * MIB)
#define SLOTS   40
#define STEPS   3000
#define THREADS 4

static struct tow_runtime *runtime;

static void open_runtime(int64_t share)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.stats = 0;
	options.premap_memory_bytes = (int64_t)POOL;
	options.place_share = share;
	TWT_OK(tow_runtime_open(&options, &runtime));
}

static void close_runtime(void)
{
	TWT_OK(tow_runtime_close(runtime));
}

/* A number of a page of the stats. */
static uint64_t number_of(const char *page, const char *name)
{
	char *text, key[64];
	const char *at;
	uint64_t value;

	TWT_OK(tow_stats_get(runtime, page, &text));
	snprintf(key, sizeof(key), "\"%s\":", name);
	at = strstr(text, key);
	assert_non_null(at);
	value = strtoull(at + strlen(key), NULL, 10);
	tow_stats_release(text);
	return value;
}

struct slot {
	uint8_t *memory;
	size_t bytes;
	uint8_t fill;
};

static void check_slot(const struct slot *slot)
{
	for (size_t i = 0; i < slot->bytes; i += 997)
		assert_int_equal(slot->memory[i], slot->fill);
	if (slot->bytes > 0)
		assert_int_equal(slot->memory[slot->bytes - 1], slot->fill);
}

static void free_slot(struct slot *slot)
{
	check_slot(slot);
	TWT_OK(tow_free(runtime, slot->memory));
	*slot = (struct slot){ 0 };
}

/* What is placed never exceeds its share, and is told; what is refused is so for its reason. */
static void test_against_an_account(void **state)
{
	uint64_t random = twt_seed(), most, refused[2] = { 0 }, given = 0;
	struct slot slots[SLOTS] = { { 0 } };

	(void)state;
	open_runtime(50);
	most = number_of("/v1/pool", "mapped_bytes") / 2;
	for (int step = 0; step < STEPS; step++) {
		struct slot *slot = &slots[twt_random_below(&random, SLOTS)];
		size_t align = (size_t)1 << twt_random_below(&random, 13);
		size_t bytes = 1 + twt_random_below(&random, twt_random_below(&random, 8) == 0
								     ? 4 * MIB
								     : 256 * 1024);
		void *memory;
		int status;

		if (slot->memory != NULL) {
			free_slot(slot);
			continue;
		}
		status = tow_place(runtime, bytes, align, &memory);
		assert_true(status == TOW_OK || status == TOW_EEXHAUSTED || status == TOW_EBUSY);
		assert_int_equal(status == TOW_OK, memory != NULL);
		if (status < 0) {
			refused[status == TOW_EBUSY]++;
			continue;
		}
		given++;
		assert_int_equal((uintptr_t)memory % align, 0);
		*slot = (struct slot){ memory, bytes, (uint8_t)step };
		memset(memory, (uint8_t)step, bytes);
		if (step % 50 == 0) {
			uint64_t placed = number_of("/v1/pool", "placed_bytes"), asked = 0;

			for (int i = 0; i < SLOTS; i++)
				asked += slots[i].bytes;
			assert_in_range(placed, asked, 2 * asked + SLOTS * 4096);
			assert_true(placed <= most + 4 * MIB); /* blocks are rounded up */
		}
	}
	assert_true(refused[1] > 0);
	assert_int_equal(number_of("/v1/counters", "placed_allocs"), given);
	assert_int_equal(number_of("/v1/counters", "place_refused_full"), refused[0]);
	assert_int_equal(number_of("/v1/counters", "place_refused_share"), refused[1]);
	for (int i = 0; i < SLOTS; i++) {
		if (slots[i].memory != NULL)
			free_slot(&slots[i]);
	}
	assert_int_equal(number_of("/v1/pool", "placed_bytes"), 0);
	close_runtime();
}

/* The share is of the pool; a full pool is another reason, and nothing grows or waits for it. */
static void test_bounds(void **state)
{
	void *own, *placed;
	uint64_t before, room;

	(void)state;
	open_runtime(100);
	before = number_of("/v1/pool", "mapped_bytes");
	TWT_OK(tow_alloc(runtime, POOL - 8 * MIB, 4096, &own));
	room = number_of("/v1/pool", "free_bytes");
	assert_in_range(room, MIB, POOL / 2);
	assert_int_equal(tow_place(runtime, room + MIB, 64, &placed), TOW_EEXHAUSTED);
	assert_null(placed);
	TWT_OK(tow_place(runtime, MIB, 64, &placed));
	assert_int_equal(number_of("/v1/pool", "mapped_bytes"), before);
	/* What the runtime allocates for itself is not in the account. */
	assert_in_range(number_of("/v1/pool", "placed_bytes"), MIB, 2 * MIB);
	TWT_OK(tow_free(runtime, own));
	assert_in_range(number_of("/v1/pool", "placed_bytes"), MIB, 2 * MIB);
	TWT_OK(tow_free(runtime, placed));
	assert_int_equal(tow_free(runtime, placed), TOW_EFREED);
	assert_int_equal(number_of("/v1/pool", "placed_bytes"), 0);
	assert_int_equal(tow_place(runtime, SIZE_MAX, 64, &placed), TOW_EBUSY);
	assert_int_equal(tow_place(runtime, 64, 3, &placed), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "align = 3"));
	assert_int_equal(tow_place(runtime, 64, 64, NULL), TOW_EINVAL);
	assert_int_equal(tow_place(NULL, 64, 64, &placed), TOW_EINVAL);
	assert_int_equal(tow_place_least(NULL), UINT64_MAX);
	close_runtime();

	open_runtime(0);
	assert_int_equal(tow_place(runtime, 64, 64, &placed), TOW_EBUSY);
	close_runtime();
}

/* The memory outlives the runtime, which gives no more of it. */
static void test_after_the_close(void **state)
{
	void *placed, *none;

	(void)state;
	open_runtime(75);
	TWT_OK(tow_place(runtime, MIB, 64, &placed));
	memset(placed, 5, MIB);
	close_runtime();
	assert_int_equal(((uint8_t *)placed)[MIB - 1], 5);
	assert_int_equal(tow_place(runtime, 64, 64, &none), TOW_ECLOSED);
	TWT_OK(tow_free(runtime, placed));
}

static void *place_and_free(void *arg)
{
	uint64_t random = *(const uint64_t *)arg;
	struct slot slots[8] = { { 0 } };

	for (int step = 0; step < STEPS; step++) {
		struct slot *slot = &slots[twt_random_below(&random, 8)];
		void *memory;

		if (slot->memory != NULL) {
			free_slot(slot);
			continue;
		}
		slot->bytes = 1 + twt_random_below(&random, 300000);
		slot->fill = (uint8_t)random;
		if (tow_place(runtime, slot->bytes, 64, &memory) < 0) {
			*slot = (struct slot){ 0 };
			continue;
		}
		slot->memory = memory;
		memset(memory, slot->fill, slot->bytes);
	}
	for (int i = 0; i < 8; i++) {
		if (slots[i].memory != NULL)
			free_slot(&slots[i]);
	}
	return NULL;
}

static void test_threads(void **state)
{
	uint64_t random = twt_seed(), seeds[THREADS];
	pthread_t threads[THREADS];

	(void)state;
	open_runtime(3); /* less than they want */
	for (int i = 0; i < THREADS; i++) {
		seeds[i] = twt_random(&random);
		assert_int_equal(pthread_create(&threads[i], NULL, place_and_free, &seeds[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(number_of("/v1/pool", "placed_bytes"), 0);
	assert_true(number_of("/v1/counters", "place_refused_share") > 0);
	close_runtime();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_against_an_account),
					    cmocka_unit_test(test_bounds),
					    cmocka_unit_test(test_after_the_close),
					    cmocka_unit_test(test_threads) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
