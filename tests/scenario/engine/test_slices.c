/*
 * test_slices.c - many more threads than cores exchange small messages over shm, so that they have
 * slices (engine_slice.h): each exchange is right, whatever a thread does with its slice. Threads
 * wait, wait for one of two, give up a wait, stay away for a while, end in the middle; beside them
 * a pair exchanges over tcp, which an owner without a ring does not poll, and receives that nobody
 * sends to end at their deadlines.
 */
#include "pair.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "twt.h"

#define POOL      (16 << 20)
#define THREADS   40u
#define EXCHANGES 1500u
#define LARGE     20000u /* of one exchange in 64 */
#define TCP       4000u  /* tags */
#define NEVER     5000u
#define MEET      6000u
#define LIMIT_NS  (60ull * TWT_SECOND)

struct worker {
	const struct twt_side *side;
	struct tow_peer *tcp;
	pthread_t thread;
	unsigned number;
	bool near;
	uint64_t seed;
	struct tow_op *never;
};

static _Atomic bool over; /* the exchanges over shm */

static uint64_t random_of(struct worker *worker)
{
	return twt_random(&worker->seed) >> 16;
}

static void wait_for(struct worker *worker, struct tow_op *op)
{
	struct tow_op *both[] = { worker->never, op };
	size_t at;
	int status;

	switch (random_of(worker) % 50) {
	case 0:
		TWT_OK(tow_wait_any(both, 2, LIMIT_NS, &at));
		break;
	case 1:
		while ((status = tow_op_wait(op, 20000)) == TOW_ETIMEDOUT)
			;
		TWT_OK(status);
		break;
	case 2:
		while ((status = tow_op_test(op)) == TOW_AGAIN)
			usleep(50);
		TWT_OK(status);
		break;
	default:
		TWT_OK(tow_op_wait(op, LIMIT_NS));
		break;
	}
	TWT_OK(tow_op_release(op));
	if (random_of(worker) % 1000 == 0)
		usleep(3000);
}

/* The near one asks, the far one answers. */
static void exchange_once(struct worker *worker, struct tow_peer *peer, uint64_t tag, unsigned i)
{
	uint64_t seed = tag * 100000 + i, ask = 2 * tag, back = ask + 1;
	size_t bytes = i % 64 == 63 ? LARGE : 8;
	uint8_t in[LARGE], out[LARGE];
	struct tow_op *send, *recv;

	TWT_OK(tow_recv_start(peer, in, bytes, worker->near ? back : ask, NULL, &recv));
	if (!worker->near)
		wait_for(worker, recv);
	twt_fill(out, bytes, seed + worker->near);
	TWT_OK(tow_send_start(peer, out, bytes, worker->near ? ask : back, NULL, &send));
	if (worker->near)
		wait_for(worker, recv);
	wait_for(worker, send);
	TWT_OK(twt_check(in, bytes, seed + !worker->near));
}

static void *exchange(void *arg)
{
	struct worker *worker = arg;
	/* Every fourth pair ends early. */
	unsigned count = worker->number % 4 == 0 ? EXCHANGES / 3 : EXCHANGES;

	for (unsigned i = 0; i < count; i++)
		exchange_once(worker, worker->side->peer, worker->number, i);
	return NULL;
}

/* Until the others are through, at both sides: the near one says so with its last tag. */
static void *beside(void *arg)
{
	struct worker *worker = arg;
	uint64_t more = 1;
	unsigned i = 0;

	while (more != 0) {
		exchange_once(worker, worker->tcp, TCP, 64 * i);
		i++;
		if (worker->near) {
			more = !atomic_load(&over);
			TWT_OK(tow_send_start(worker->tcp, &more, sizeof(more), TCP, NULL, NULL));
		} else {
			struct tow_op *op;

			TWT_OK(tow_recv_start(worker->tcp, &more, sizeof(more), TCP, NULL, &op));
			TWT_OK(tow_op_wait(op, LIMIT_NS));
			TWT_OK(tow_op_release(op));
		}
	}
	if (i < 10)
		fprintf(stderr, "only %u exchanges over tcp meanwhile\n", i);
	return i < 10 ? worker : NULL;
}

/* A follower whose operation ends by its deadline, or whose wait does, again and again. */
static void *expire(void *arg)
{
	struct worker *worker = arg;
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	uint64_t value;

	options.timeout_ns = 10000000;
	while (!atomic_load(&over)) {
		struct tow_op *op;
		int status;

		TWT_OK(tow_recv_start(worker->side->peer, &value, sizeof(value), NEVER, &options,
				      &op));
		while ((status = tow_op_wait(op, 3000000)) == TOW_ETIMEDOUT)
			;
		if (status != TOW_EDEADLINE)
			abort();
		TWT_OK(tow_op_release(op));
	}
	return NULL;
}

static void begin(struct worker *worker, void *(*run)(void *arg))
{
	assert_int_equal(pthread_create(&worker->thread, NULL, run, worker), 0);
}

static uint64_t cores(void)
{
	cpu_set_t set;

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	return (uint64_t)CPU_COUNT(&set);
}

static void play(const struct twt_side *side, struct tow_peer *tcp, bool near, uint64_t seed)
{
	struct worker workers[THREADS + 2];
	struct tow_op *never;
	uint64_t word;
	void *failed = NULL;

	atomic_store(&over, false);
	TWT_OK(tow_recv_start(side->peer, &word, sizeof(word), NEVER + 1, NULL, &never));
	for (unsigned i = 0; i < THREADS + 2; i++)
		workers[i] = (struct worker){ side, tcp, 0, i, near, seed + 2 * i + near, never };
	begin(&workers[THREADS], beside);
	begin(&workers[THREADS + 1], expire);
	for (unsigned i = 0; i < THREADS; i++)
		begin(&workers[i], exchange);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	atomic_store(&over, true);
	pthread_join(workers[THREADS].thread, &failed);
	assert_null(failed);
	pthread_join(workers[THREADS + 1].thread, NULL);
	workers[0].number = THREADS; /* neither side closes before the other is through */
	exchange_once(&workers[0], side->peer, THREADS, 0);
	TWT_OK(tow_op_cancel(never));
	assert_int_equal(tow_op_wait(never, LIMIT_NS), TOW_ECANCELED);
	TWT_OK(tow_op_release(never));
	if (THREADS > 2 * cores())
		assert_true(twi_runtime_engine(side->runtime)->slices.count > 0);
}

static int far(struct twt_side *side, void *arg)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_endpoint *endpoint;
	struct tow_op *op;

	TWT_OK(tow_recv_start(side->peer, address, sizeof(address), MEET, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	TWT_OK(tow_endpoint_open(side->runtime, "tcp://127.0.0.1:0", &endpoint));
	play(side, twt_connect(endpoint, address), false, *(uint64_t *)arg);
	return 0;
}

static void test_slices(void **state)
{
	uint64_t seed = twt_seed();
	char address[TOW_ADDRESS_MAX];
	struct tow_endpoint *endpoint;
	struct twt_side side;
	struct tow_op *op;

	(void)state;
	twt_pair(&side, "shm://*", POOL, far, &seed);
	TWT_OK(tow_endpoint_open(side.runtime, "tcp://127.0.0.1:0", &endpoint));
	TWT_OK(tow_endpoint_address(endpoint, address, sizeof(address)));
	TWT_OK(tow_send_start(side.peer, address, sizeof(address), MEET, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	play(&side, twt_accept(endpoint), true, seed);
	assert_int_equal(twt_pair_end(&side), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
