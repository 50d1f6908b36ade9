/*
 * test_outlive.c - memory of the pool outlives its runtime: it holds what it held, is freed by any
 * thread, also while the runtime is being closed, and the last free unmaps the pool. All else of
 * the runtime ends when it is closed.
 */
#include "pair.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "lane_pair.h"

#define BYTES   ((size_t)64 << 10)
#define BLOCKS  64
#define THREADS 4
#define ROUNDS  60

static struct tow_options small_options(void)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 8 << 20;
	options.stats = 0;
	return options;
}

static struct tow_runtime *open_small(void)
{
	struct tow_options options = small_options();
	struct tow_runtime *runtime;

	TWT_OK(tow_runtime_open(&options, &runtime));
	return runtime;
}

static uint8_t *alloc_filled(struct tow_runtime *runtime, size_t bytes, int value)
{
	void *memory;

	TWT_OK(tow_alloc(runtime, bytes, 0, &memory));
	memset(memory, value, bytes);
	return memory;
}

static bool holds(const uint8_t *memory, size_t bytes, int value)
{
	for (size_t i = 0; i < bytes; i++) {
		if (memory[i] != value)
			return false;
	}
	return true;
}

static int pools(void)
{
	return twt_map_count("memfd:");
}

static int tasks(void)
{
	DIR *dir = opendir("/proc/self/task");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

/* Memory is all that stays, and it goes with the last free. */
static void only_memory_stays(void **state)
{
	struct tow_runtime *runtime;
	uint8_t *first, *second;
	int fds, threads;
	void *none;

	(void)state;
	TWT_OK(tow_runtime_close(open_small())); /* what a process has once is there */
	fds = twt_fd_count();
	threads = tasks();
	assert_int_equal(pools(), 0);
	runtime = open_small();
	first = alloc_filled(runtime, BYTES, 1);
	second = alloc_filled(runtime, 3 * BYTES, 2);
	TWT_OK(tow_runtime_close(runtime));
	assert_int_equal(twt_fd_count(), fds);
	assert_int_equal(tasks(), threads);
	assert_int_equal(pools(), 1);
	assert_true(holds(first, BYTES, 1) && holds(second, 3 * BYTES, 2));
	memset(first, 3, BYTES);
	assert_int_equal(tow_alloc(runtime, 1, 0, &none), TOW_ECLOSED);
	assert_int_equal(tow_runtime_close(runtime), TOW_ECLOSED);
	TWT_OK(tow_free(runtime, first));
	assert_int_equal(tow_free(runtime, first), TOW_EFREED);
	assert_int_equal(tow_free(runtime, second + 64), TOW_EFOREIGN);
	assert_int_equal(tow_free(runtime, &none), TOW_EFOREIGN);
	assert_int_equal(tow_free(runtime, NULL), TOW_ECLOSED);
	assert_int_equal(pools(), 1);
	assert_true(holds(second, 3 * BYTES, 2));
	TWT_OK(tow_free(runtime, second));
	assert_int_equal(pools(), 0);
	assert_int_equal(tow_free(runtime, second), TOW_ECLOSED);
	assert_int_equal(tow_runtime_close(runtime), TOW_ECLOSED);
}

/* Extents that the pool grew by, and what lies outside of it. */
static void beyond_the_first_extent(void **state)
{
	static const char *const ways[] = { "grow", "copy" };

	(void)state;
	for (size_t way = 0; way < 2; way++) {
		struct tow_options options = small_options();
		struct tow_runtime *runtime;
		uint8_t *memory[3];

		options.exhaust = ways[way];
		options.staging_bytes = 0;
		TWT_OK(tow_runtime_open(&options, &runtime));
		for (int i = 0; i < 3; i++)
			memory[i] = alloc_filled(runtime, 6 << 20, i + 1);
		TWT_OK(tow_runtime_close(runtime));
		for (int i = 0; i < 3; i++) {
			assert_true(pools() > 0);
			assert_true(holds(memory[i], 6 << 20, i + 1));
			TWT_OK(tow_free(runtime, memory[i]));
		}
		assert_int_equal(pools(), 0);
	}
}

/* The pointer to the runtime is known as long as there is memory of it, whatever ends meanwhile. */
static void reopened_in_between(void **state)
{
	struct tow_runtime *first = open_small(), *second;
	uint8_t *old = alloc_filled(first, BYTES, 1), *new;
	struct tow_endpoint *endpoint;

	(void)state;
	TWT_OK(tow_runtime_close(first));
	second = open_small();
	assert_ptr_not_equal(first, second);
	new = alloc_filled(second, BYTES, 2);
	for (int i = 0; i < 600; i++) {
		TWT_OK(tow_endpoint_open(second, "loop://here", &endpoint));
		TWT_OK(tow_endpoint_close(endpoint));
	}
	assert_int_equal(tow_free(second, old), TOW_EFOREIGN);
	assert_int_equal(tow_free(first, new), TOW_EFOREIGN);
	assert_true(holds(old, BYTES, 1) && holds(new, BYTES, 2));
	TWT_OK(tow_free(first, old));
	assert_int_equal(pools(), 1);
	TWT_OK(tow_runtime_close(second));
	assert_true(holds(new, BYTES, 2));
	TWT_OK(tow_free(second, new));
	assert_int_equal(pools(), 0);
}

struct race {
	struct tow_runtime *runtime;
	uint8_t *memory[THREADS * BLOCKS];
	_Atomic int go, freed;
};

struct hand {
	struct race *race;
	unsigned first;
	unsigned spins;
};

static void *free_some(void *arg)
{
	struct hand *hand = arg;
	struct race *race = hand->race;

	while (atomic_load(&race->go) == 0)
		;
	for (volatile unsigned i = 0; i < hand->spins; i++)
		;
	for (unsigned i = hand->first; i < THREADS * BLOCKS; i += THREADS) {
		if (tow_free(race->runtime, race->memory[i]) == TOW_OK)
			atomic_fetch_add(&race->freed, 1);
	}
	return NULL;
}

static void race_once(uint64_t seed)
{
	static const char *const ways[] = { "grow", "copy" };
	uint64_t random = seed;
	struct tow_options options = small_options();
	struct race race = { .go = 0 };
	struct hand hands[THREADS];
	pthread_t threads[THREADS];

	options.alloclog = (int)twt_random_below(&random, 2);
	options.exhaust = ways[twt_random_below(&random, 2)];
	TWT_OK(tow_runtime_open(&options, &race.runtime));
	for (unsigned i = 0; i < THREADS * BLOCKS; i++)
		race.memory[i] =
			alloc_filled(race.runtime, 1 + twt_random_below(&random, BYTES), (int)i);
	for (unsigned i = 0; i < THREADS; i++) {
		hands[i] = (struct hand){ &race, i, (unsigned)twt_random_below(&random, 200000) };
		assert_int_equal(pthread_create(&threads[i], NULL, free_some, &hands[i]), 0);
	}
	atomic_store(&race.go, 1);
	TWT_OK(tow_runtime_close(race.runtime));
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&race.freed), THREADS * BLOCKS);
	assert_int_equal(pools(), 0);
	assert_int_equal(tow_free(race.runtime, race.memory[0]), TOW_ECLOSED);
}

/* Threads free while another closes: each free is good, and nothing is left. */
static void freed_while_it_closes(void **state)
{
	uint64_t seed = twt_seed();

	(void)state;
	for (uint64_t i = 0; i < ROUNDS; i++)
		race_once(seed + i);
}

struct late_free {
	struct tow_runtime *runtime;
	void *memory;
	int status, freed;
};

static void on_end(struct tow_op *op, const struct tow_result *result)
{
	struct late_free *late = result->user;

	(void)op;
	late->status = result->status;
	late->freed = tow_free(late->runtime, late->memory);
}

/* What a canceled receive was for is freed in its callback, which runs within the close. */
static void freed_in_a_callback(void **state)
{
	(void)state;
	for (int i = 0; i < TWT_LANE_ROWS; i++) {
		struct tow_op_options options = TOW_OP_OPTIONS_INIT;
		struct twt_lane_pair pair;
		struct late_free late;
		uint8_t *kept;
		struct tow_op *op;

		twt_lane_init(&pair, &twt_lane_rows[i]);
		if (!twt_lane_open(&pair))
			continue;
		twt_lane_join(&pair);
		late = (struct late_free){ .runtime = pair.runtime[1], .freed = 1 };
		late.memory = alloc_filled(pair.runtime[1], BYTES, 1);
		kept = alloc_filled(pair.runtime[1], BYTES, 2);
		options.done = on_end;
		options.user = &late;
		TWT_OK(tow_recv_start(pair.peer[1], late.memory, BYTES, 7, &options, &op));
		twt_lane_close(&pair);
		assert_int_equal(late.status, TOW_ECLOSED);
		assert_int_equal(late.freed, TOW_OK);
		assert_true(holds(kept, BYTES, 2));
		TWT_OK(tow_free(late.runtime, kept));
		assert_int_equal(pools(), 0);
	}
}

/* A message arrives in memory that lives on; what it was sent from is freed while in flight. */
static void what_has_come_stays(void **state)
{
	(void)state;
	for (int i = 0; i < TWT_LANE_ROWS; i++) {
		struct twt_lane_pair pair;
		struct tow_runtime *runtime;
		struct tow_op *send, *receive;
		uint8_t *from, *to;

		twt_lane_init(&pair, &twt_lane_rows[i]);
		if (!twt_lane_open(&pair))
			continue;
		twt_lane_join(&pair);
		runtime = pair.runtime[1];
		from = alloc_filled(pair.runtime[0], BYTES, 9);
		to = alloc_filled(runtime, BYTES, 0);
		TWT_OK(tow_recv_start(pair.peer[1], to, BYTES, 7, NULL, &receive));
		TWT_OK(tow_send_start(pair.peer[0], from, BYTES, 7, NULL, &send));
		TWT_OK(tow_free(pair.runtime[0], from));
		assert_true(twt_lane_finish(&pair, receive).status >= 0);
		assert_true(twt_lane_finish(&pair, send).status >= 0);
		twt_lane_close(&pair);
		assert_int_equal(pools(), 1);
		assert_true(holds(to, BYTES, 9));
		TWT_OK(tow_free(runtime, to));
		assert_int_equal(pools(), 0);
	}
}

/* A child of a fork has no pool to free in; the parent's is unharmed. */
static void forked(void **state)
{
	struct tow_runtime *runtime = open_small();
	uint8_t *memory = alloc_filled(runtime, BYTES, 1);
	int status;
	pid_t child;

	(void)state;
	TWT_OK(tow_runtime_close(runtime));
	fflush(stdout);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct tow_runtime *own = open_small();
		uint8_t *late = alloc_filled(own, BYTES, 2);
		bool good = tow_free(runtime, memory) == TOW_EFORKED &&
			    tow_runtime_close(own) == TOW_OK && holds(late, BYTES, 2) &&
			    tow_free(own, late) == TOW_OK;

		_exit(good ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(holds(memory, BYTES, 1));
	TWT_OK(tow_free(runtime, memory));
	assert_int_equal(pools(), 0);
}

static void *alloc_in_a_thread(void *arg)
{
	return alloc_filled(arg, BYTES, 5);
}

/* Who has allocated may have ended, and another thread have its place in the accounts. */
static void threads_come_and_go(void **state)
{
	struct tow_runtime *runtime = open_small();
	void *memory[8];
	pthread_t thread;

	(void)state;
	for (int i = 0; i < 8; i++) {
		assert_int_equal(pthread_create(&thread, NULL, alloc_in_a_thread, runtime), 0);
		assert_int_equal(pthread_join(thread, &memory[i]), 0);
		if (i % 2 == 1)
			TWT_OK(tow_free(runtime, memory[i - 1]));
	}
	TWT_OK(tow_runtime_close(runtime));
	for (int i = 1; i < 8; i += 2) {
		assert_int_equal(pools(), 1);
		TWT_OK(tow_free(runtime, memory[i]));
	}
	assert_int_equal(pools(), 0);
}

static void keep_line(void *user, int level, const char *text)
{
	(void)level;
	if (strstr(text, "2 allocations outlive the runtime") != NULL)
		++*(_Atomic int *)user;
}

/* The log tells how many there are. */
static void the_log_tells(void **state)
{
	struct tow_options options = small_options();
	struct tow_runtime *runtime;
	_Atomic int told = 0;
	void *memory[2];

	(void)state;
	options.log_callback = keep_line;
	options.log_user = &told;
	options.log_level = 3;
	TWT_OK(tow_runtime_open(&options, &runtime));
	memory[0] = alloc_filled(runtime, BYTES, 1);
	memory[1] = alloc_filled(runtime, BYTES, 1);
	TWT_OK(tow_runtime_close(runtime));
	assert_int_equal(atomic_load(&told), 1);
	TWT_OK(tow_free(runtime, memory[0]));
	TWT_OK(tow_free(runtime, memory[1]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_memory_stays),
		cmocka_unit_test(beyond_the_first_extent),
		cmocka_unit_test(reopened_in_between),
		cmocka_unit_test(freed_while_it_closes),
		cmocka_unit_test(freed_in_a_callback),
		cmocka_unit_test(what_has_come_stays),
		cmocka_unit_test(forked),
		cmocka_unit_test(threads_come_and_go),
		cmocka_unit_test(the_log_tells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
