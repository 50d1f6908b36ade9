/*
 * test_epoll.c - what the suite `epoll`, which runs other scenarios once more, does not ask: what
 * zero-copy sends by epoll take and leave behind, whichever thread made them, and many threads in
 * one runtime.
 */
#include "own_pair.h"

#include <pthread.h>

#include "transport/engine/poller.h"

#define THREADS 8
#define ROUNDS  40

static struct tow_options epoll_options(void)
{
	struct tow_options options = twt_own_options("fail");

	options.poller = "epoll";
	options.zerocopy_min_bytes = 1; /* what a send cut short leaves may be small */
	return options;
}

static bool has_zerocopy(void)
{
	return twt_own.engine->rings[0]->zerocopy;
}

static void exchange(uint8_t *out, uint8_t *in, uint64_t bytes, uint64_t seed)
{
	struct tow_op *send, *recv;

	twt_fill(out, bytes, seed);
	TWT_OK(tow_recv_start(twt_own.to[0], in, bytes, seed, NULL, &recv));
	TWT_OK(tow_send_start(twt_own.from[0], out, bytes, seed, NULL, &send));
	TWT_OK(twt_finish(send, NULL));
	TWT_OK(twt_finish(recv, NULL));
	twt_own_check(in, bytes, seed);
}

/* What the kernel was given, and what it said of it. */
static void check_zerocopy(uint64_t bytes)
{
	assert_true(twt_own_counter(TWI_C_zerocopy_send_bytes) >= bytes);
	assert_int_equal(twt_own_counter(TWI_C_fixed_sends), 0);
	for (int i = 0; i < 200 && twt_own_counter(TWI_C_zerocopy_kernel_copies) <
					   twt_own_counter(TWI_C_zerocopy_sends);
	     i++) {
		tow_progress(twt_own.runtime);
		usleep(1000);
	}
	/* Over loopback the kernel copies every one, unless the socket took nothing of it. */
	assert_true(twt_own_counter(TWI_C_zerocopy_kernel_copies) > 0);
	assert_true(twt_own_counter(TWI_C_zerocopy_kernel_copy_bytes) >= bytes);
	assert_int_equal(twt_own.engine->notices, 0);
}

static void test_any_memory(void **state)
{
	struct tow_options options = epoll_options();
	uint8_t *outside = malloc(TWT_MIB), *in = malloc(TWT_MIB);
	void *pool;

	(void)state;
	twt_own_open(&options);
	if (!has_zerocopy()) {
		twt_own_close();
		skip();
	}
	TWT_OK(tow_alloc(twt_own.runtime, TWT_MIB, 0, &pool));
	for (uint64_t i = 1; i <= 4; i++) {
		exchange(pool, in, TWT_MIB, i);
		exchange(outside, in, TWT_MIB, 10 + i);
	}
	check_zerocopy(8 * TWT_MIB);
	/* Nothing is registered, and nothing is taken for a copy for want of it. */
	assert_int_equal(twt_own_reason(TWI_R_late_user_memory).count, 0);
	assert_int_equal(twt_own_reason(TWI_R_unregistered_send).count, 0);
	assert_int_equal(twt_own_reason(TWI_R_pool_unpinned).count, 0);
	TWT_OK(tow_free(twt_own.runtime, pool));
	twt_own_close();
	free(outside);
	free(in);
}

/* Pairs that send without a copy, and memory of the pool for it; else the test is skipped. */
static void *open_zerocopy(const struct tow_options *options)
{
	void *memory;

	twt_own_open(options);
	if (!has_zerocopy()) {
		twt_own_close();
		skip();
	}
	TWT_OK(tow_alloc(twt_own.runtime, TWT_MIB, 0, &memory));
	return memory;
}

static struct tow_op *one_send;

struct sender {
	pthread_barrier_t begun;
	uint8_t *out;
	struct tow_op *send;
};

static void *send_and_go(void *arg)
{
	struct sender *sender = arg;

	TWT_OK(tow_send_start(twt_own.from[0], sender->out, TWT_MIB, 7, NULL, &sender->send));
	pthread_barrier_wait(&sender->begun);
	for (int i = 0; i < 3; i++)
		tow_progress(twt_own.runtime);
	return NULL;
}

/* Its thread has ended, or drives no more: the notices are read by another one. */
static void test_sender_has_gone(void **state)
{
	struct tow_options options = epoll_options();
	struct sender sender;
	struct tow_op *recv;
	uint8_t *in = malloc(TWT_MIB);
	pthread_t thread;
	void *memory;

	(void)state;
	options.background = 0;
	memory = open_zerocopy(&options);
	sender.out = memory;
	pthread_barrier_init(&sender.begun, NULL, 2);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		twt_fill(sender.out, TWT_MIB, i);
		TWT_OK(tow_recv_start(twt_own.to[0], in, TWT_MIB, 7, NULL, &recv));
		tow_progress(twt_own.runtime);
		assert_int_equal(pthread_create(&thread, NULL, send_and_go, &sender), 0);
		pthread_barrier_wait(&sender.begun);
		if (i % 2 == 0)
			pthread_join(thread, NULL);
		TWT_OK(twt_finish(sender.send, NULL));
		TWT_OK(twt_finish(recv, NULL));
		twt_own_check(in, TWT_MIB, i);
		if (i % 2 != 0)
			pthread_join(thread, NULL);
	}
	pthread_barrier_destroy(&sender.begun);
	TWT_OK(tow_free(twt_own.runtime, memory));
	twt_own_close();
	free(in);
}

static void *exchange_some(void *arg)
{
	uint64_t me = (uint64_t)(uintptr_t)arg;
	uint8_t *out = malloc(TWT_MIB), *in = malloc(TWT_MIB);

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t bytes = i % 4 == 0 ? TWT_MIB : 8u << i % 8;

		exchange(out, in, bytes, me * 1000 + i);
	}
	free(out);
	free(in);
	return NULL;
}

/*
 * The kernel counts a socket's zero-copy sends on, whoever makes them: these are made by threads of
 * which each ends before the next one begins, and which take their rings along. The last one is
 * made by this thread, which lives on: its notice must find it.
 */
static void *send_to_the_end(void *arg)
{
	TWT_OK(tow_send_start(twt_own.from[0], arg, TWT_MIB, 7, NULL, &one_send));
	TWT_OK(twt_finish(one_send, NULL));
	return NULL;
}

static void test_one_after_another(void **state)
{
	struct tow_options options = epoll_options();
	struct tow_op *recv;
	uint8_t *in = malloc(TWT_MIB);
	pthread_t thread;
	void *memory;

	(void)state;
	options.background = 0;
	memory = open_zerocopy(&options);
	for (uint64_t i = 0; i < 4; i++) {
		twt_fill(memory, TWT_MIB, i);
		TWT_OK(tow_recv_start(twt_own.to[0], in, TWT_MIB, 7, NULL, &recv));
		if (i < 3) {
			assert_int_equal(pthread_create(&thread, NULL, send_to_the_end, memory), 0);
			pthread_join(thread, NULL);
		} else {
			send_to_the_end(memory);
		}
		TWT_OK(twt_finish(recv, NULL));
		twt_own_check(in, TWT_MIB, i);
	}
	TWT_OK(tow_free(twt_own.runtime, memory));
	twt_own_close();
	free(in);
}

static void test_many_threads(void **state)
{
	struct tow_options options = epoll_options();
	pthread_t threads[THREADS];

	(void)state;
	twt_own_open(&options);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, exchange_some, (void *)i), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	twt_own_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_memory),
		cmocka_unit_test(test_sender_has_gone),
		cmocka_unit_test(test_one_after_another),
		cmocka_unit_test(test_many_threads),
	};

	alarm(200);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
