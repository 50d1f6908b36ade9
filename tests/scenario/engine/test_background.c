/*
 * test_background.c - the library's own thread: messages end while both callers only compute, what
 * was held back leaves, threads that come and go meet it, and it costs nothing when nothing
 * happens.
 */
#include "pair.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <time.h>

#include "twt.h"

#define POOL     (32 << 20)
#define LARGE    (1 << 20)
#define MESSAGES 8
#define IDLE     50 /* connections, with both ends here */

static _Atomic unsigned ended, failed;

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static double cpu_s(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

static void count(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	if (result->status != TOW_OK)
		atomic_fetch_add(&failed, 1);
	atomic_fetch_add(&ended, 1);
}

/* Computes, without a call of the library, until `want` callbacks have run; at most 20 s. */
static bool compute(unsigned want)
{
	volatile uint64_t work = 1;
	double until = now_s() + 20;

	while (atomic_load(&ended) < want) {
		for (int i = 0; i < 10000; i++)
			work = work * 6364136223846793005ull + 1;
		if (now_s() > until)
			return false;
	}
	return true;
}

/* Starts messages both ways and looks at the callbacks' count alone. */
static int exchange(struct twt_side *side, void *arg)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *ops[2 * MESSAGES];
	uint64_t seed = side->child == 0 ? 100 : 200, other = 300 - seed;
	uint8_t *in, *out;

	(void)arg;
	atomic_store(&ended, 0);
	atomic_store(&failed, 0);
	options.done = count;
	TWT_OK(tow_alloc(side->runtime, (uint64_t)MESSAGES * LARGE, 0, (void **)&in));
	TWT_OK(tow_alloc(side->runtime, (uint64_t)MESSAGES * LARGE, 0, (void **)&out));
	for (unsigned i = 0; i < MESSAGES; i++) {
		twt_fill(out + (size_t)i * LARGE, LARGE, seed + i);
		TWT_OK(tow_recv_start(side->peer, in + (size_t)i * LARGE, LARGE, i, &options,
				      &ops[2 * i]));
		TWT_OK(tow_send_start(side->peer, out + (size_t)i * LARGE, LARGE, i, &options,
				      &ops[2 * i + 1]));
	}
	if (!compute(2 * MESSAGES) || atomic_load(&failed) != 0)
		return 1;
	for (unsigned i = 0; i < MESSAGES; i++) {
		if (twt_check(in + (size_t)i * LARGE, LARGE, other + i) != 0)
			return 2;
		TWT_OK(tow_op_release(ops[2 * i]));
		TWT_OK(tow_op_release(ops[2 * i + 1]));
	}
	TWT_OK(tow_free(side->runtime, in));
	TWT_OK(tow_free(side->runtime, out));
	return 0;
}

static void test_both_compute(void **state)
{
	struct twt_side side;

	(void)state;
	twt_pair(&side, "tcp://127.0.0.1:0", POOL, exchange, NULL);
	assert_int_equal(exchange(&side, NULL), 0);
	assert_int_equal(twt_pair_end(&side), 0);
}

/* The second of two small messages waits for company, and nobody calls again. */
static int send_and_compute(struct twt_side *side, void *arg)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *answer;
	uint64_t value = 7, in = 0;

	(void)arg;
	atomic_store(&ended, 0);
	options.done = count;
	TWT_OK(tow_recv_start(side->peer, &in, sizeof(in), 2, &options, &answer));
	for (unsigned i = 0; i < 5; i++)
		TWT_OK(tow_send_start(side->peer, &value, sizeof(value), 1, NULL, NULL));
	return compute(1) ? 0 : 1;
}

static void test_held_back(void **state)
{
	struct twt_side side;
	struct tow_op *op;
	uint64_t value;

	(void)state;
	twt_pair(&side, "tcp://127.0.0.1:0", POOL, send_and_compute, NULL);
	for (unsigned i = 0; i < 5; i++) {
		TWT_OK(tow_recv_start(side.peer, &value, sizeof(value), 1, NULL, &op));
		assert_int_equal(twt_finish(op, NULL), TOW_OK);
		assert_int_equal(value, 7);
	}
	TWT_OK(tow_send_start(side.peer, &value, sizeof(value), 2, NULL, &op));
	assert_int_equal(twt_finish(op, NULL), TOW_OK);
	assert_int_equal(twt_pair_end(&side), 0);
}

/* Threads named "towline" of this process, whether they block all signals in *blocked. */
static unsigned library_threads(bool *blocked)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;
	unsigned found = 0;

	*blocked = true;
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		char path[300], line[256] = "";
		unsigned long long mask = 0;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%.200s/status", entry->d_name);
		file = fopen(path, "re");
		if (file == NULL)
			continue;
		if (fgets(line, sizeof(line), file) != NULL &&
		    strcmp(line, "Name:\ttowline\n") == 0) {
			found++;
			while (fgets(line, sizeof(line), file) != NULL)
				(void)!sscanf(line, "SigBlk: %llx", &mask);
			*blocked &= (mask >> (SIGTERM - 1) & 1) != 0 &&
				    (mask >> (SIGUSR1 - 1) & 1) != 0;
		}
		fclose(file);
	}
	if (dir != NULL)
		closedir(dir);
	return found;
}

static struct tow_runtime *open_with(int64_t background)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;

	options.premap_memory_bytes = 4 << 20;
	options.stats = 0;
	options.background = background;
	TWT_OK(tow_runtime_open(&options, &runtime));
	return runtime;
}

static void test_its_life(void **state)
{
	struct tow_runtime *runtime = open_with(1);
	struct tow_endpoint *endpoint, *other;
	bool blocked;

	(void)state;
	assert_int_equal(library_threads(&blocked), 0); /* no endpoint yet */
	TWT_OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint));
	TWT_OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &other));
	for (int i = 0; i < 5000 && library_threads(&blocked) == 0; i++)
		usleep(1000); /* it names itself when it runs */
	assert_int_equal(library_threads(&blocked), 1);
	assert_true(blocked);
	TWT_OK(tow_runtime_close(runtime));
	assert_int_equal(library_threads(&blocked), 0);

	runtime = open_with(0);
	TWT_OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint));
	assert_int_equal(library_threads(&blocked), 0);
	TWT_OK(tow_runtime_close(runtime));
}

static void join(struct tow_endpoint *endpoint, struct tow_peer **a, struct tow_peer **b)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_op *accept, *dial;
	struct tow_result result;

	TWT_OK(tow_endpoint_address(endpoint, address, sizeof(address)));
	TWT_OK(tow_accept_start(endpoint, NULL, &accept));
	TWT_OK(tow_connect_start(endpoint, address, NULL, &dial));
	assert_int_equal(twt_finish(dial, &result), TOW_OK);
	*a = result.peer;
	assert_int_equal(twt_finish(accept, &result), TOW_OK);
	*b = result.peer;
}

static void test_idle(void **state)
{
	const char *text = getenv("TOW_IDLE_SECONDS");
	unsigned seconds = text != NULL ? (unsigned)atoi(text) : 4;
	struct tow_runtime *runtime = open_with(1);
	struct tow_endpoint *endpoint;
	struct tow_peer *a, *b;
	double cpu, start, percent;

	(void)state;
	TWT_OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint));
	for (unsigned i = 0; i < IDLE; i++)
		join(endpoint, &a, &b);
	usleep(100000);
	cpu = cpu_s();
	start = now_s();
	sleep(seconds);
	percent = 100 * (cpu_s() - cpu) / (now_s() - start);
	printf("%u idle connections: %.3f %% of a core\n", 2 * IDLE, percent);
	assert_true(percent < 0.5);
	TWT_OK(tow_runtime_close(runtime));
}

struct partner {
	struct tow_peer *peer;
	uint64_t seed;
};

/* Sends and receives, and in between computes for as long as it takes the other thread to come. */
static void *come_and_go(void *arg)
{
	const struct partner *partner = arg;
	uint64_t random = partner->seed;
	uint8_t *in = malloc(LARGE), *out = malloc(LARGE);

	for (unsigned i = 0; i < 60; i++) {
		uint64_t bytes = twt_random_below(&random, 4) == 0 ? LARGE : 64;
		uint64_t pause = twt_random_below(&random, 4000);
		struct tow_op *send, *recv;
		struct tow_result result;

		twt_fill(out, bytes, i);
		TWT_OK(tow_recv_start(partner->peer, in, LARGE, i, NULL, &recv));
		TWT_OK(tow_send_start(partner->peer, out, bytes, i, NULL, &send));
		for (double until = now_s() + (double)pause * 1e-6; now_s() < until;)
			;
		assert_int_equal(twt_finish(recv, &result), TOW_OK);
		assert_int_equal(twt_finish(send, NULL), TOW_OK);
		assert_int_equal(twt_check(in, result.bytes, i), 0);
	}
	free(in);
	free(out);
	return NULL;
}

static void test_come_and_go(void **state)
{
	struct tow_runtime *runtime = open_with(1);
	struct tow_endpoint *endpoint;
	struct partner partners[2] = { { .seed = twt_seed() } };
	pthread_t other;

	(void)state;
	partners[1].seed = partners[0].seed + 1;
	TWT_OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint));
	join(endpoint, &partners[0].peer, &partners[1].peer);
	assert_int_equal(pthread_create(&other, NULL, come_and_go, &partners[1]), 0);
	come_and_go(&partners[0]);
	pthread_join(other, NULL);
	TWT_OK(tow_runtime_close(runtime));
}

/* Rings of threads that have ended are reused, however many there have been. */
static void *one_message(void *arg)
{
	const struct partner *partners = arg;
	struct tow_op *recv;
	uint64_t in, out = 5;

	TWT_OK(tow_recv_start(partners[1].peer, &in, sizeof(in), 1, NULL, &recv));
	TWT_OK(tow_send_start(partners[0].peer, &out, sizeof(out), 1, NULL, NULL));
	assert_int_equal(twt_finish(recv, NULL), TOW_OK);
	return NULL;
}

static void test_many_threads(void **state)
{
	struct tow_runtime *runtime = open_with(1);
	struct tow_endpoint *endpoint;
	struct partner partners[2];
	pthread_t thread;

	(void)state;
	TWT_OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint));
	join(endpoint, &partners[0].peer, &partners[1].peer);
	for (unsigned i = 0; i < 300; i++) {
		assert_int_equal(pthread_create(&thread, NULL, one_message, partners), 0);
		pthread_join(thread, NULL);
	}
	TWT_OK(tow_runtime_close(runtime));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_compute), cmocka_unit_test(test_held_back),
		cmocka_unit_test(test_its_life),     cmocka_unit_test(test_come_and_go),
		cmocka_unit_test(test_many_threads), cmocka_unit_test(test_idle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
