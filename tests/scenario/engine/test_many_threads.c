/*
 * test_many_threads.c - more threads than there are rings: 40 on either side that exchange at once,
 * each in another way of driving, and 40 that block while one goes on, on each lane.
 *
 * The second half runs on rings as kernels without DEFER_TASKRUN have them (twi_uring_plain), and
 * once with a kernel that takes for ever to close one.
 */
#include "pair.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <time.h>

#include "transport/engine/uring/ring.h"
#include "transport/engine/uring/ring_closer.h"
#include "twt.h"

#define POOL      (8 << 20)
#define THREADS   40u
#define EXCHANGES 10u
#define LARGE     100000u /* of every fifth exchange: by rendezvous */
#define BLOCKED   1000u   /* tags */
#define QUIET     2000u
#define NEVER     3000u
#define LIMIT_NS  (60ull * TWT_SECOND)
#define CLOSE_MS  60000u /* both sides are through before a ring is closed */

enum style { WAIT, TEST, PROGRESS, CALLBACK, RESULT, SHORT_WAITS, ANY, STYLES };

struct worker {
	const struct twt_side *side;
	pthread_t thread;
	unsigned number;
	bool near;
	struct tow_op *never; /* a receive that nobody sends to: all may wait for it as well */
};

static bool alone; /* nothing moves by itself: no style in which nobody drives */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * TWT_SECOND + (uint64_t)ts.tv_nsec;
}

static void post(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	sem_post(result->user);
}

static int look(struct tow_op *op)
{
	struct tow_result result = { .size = sizeof(result) };
	int status = tow_op_result(op, &result);

	return status == TOW_OK ? result.status : status;
}

/* Until `op` is done, in one of the ways. TOW_AGAIN: it took too long. */
static int drive(const struct worker *worker, struct tow_op *op, enum style style, sem_t *done)
{
	const struct twt_side *side = worker->side;
	struct tow_op *both[] = { worker->never, op };
	size_t at;
	uint64_t until = now_ns() + LIMIT_NS;
	int status = TOW_AGAIN;

	for (unsigned turn = 1; status == TOW_AGAIN && now_ns() < until; turn++) {
		/* Who looks again and again leaves the core to the others now and then. */
		if (turn % 8 == 0)
			sched_yield();
		switch (style) {
		case WAIT:
			status = tow_op_wait(op, LIMIT_NS);
			break;
		case SHORT_WAITS:
			status = tow_op_wait(op, 50000);
			if (status == TOW_ETIMEDOUT)
				status = TOW_AGAIN;
			break;
		case ANY:
			status = tow_wait_any(both, 2, LIMIT_NS, &at);
			break;
		case TEST:
			status = tow_op_test(op);
			break;
		case PROGRESS:
			status = tow_progress(side->runtime);
			if (status != TOW_OK && status != TOW_AGAIN)
				return status;
			status = look(op);
			break;
		case CALLBACK:
			while (sem_wait(done) != 0)
				;
			while ((status = look(op)) == TOW_AGAIN)
				; /* the callback runs a moment before */
			break;
		default:
			usleep(100);
			status = look(op);
			break;
		}
	}
	return status;
}

static void worker_finish(const struct worker *worker, struct tow_op *op, enum style style,
			  sem_t *done)
{
	int status = drive(worker, op, style, done);

	if (status != TOW_OK)
		fprintf(stderr, "style %d: %s: %s\n", style, tow_status_name(status),
			tow_error_message());
	TWT_OK(status);
	TWT_OK(tow_op_release(op));
}

/* The near threads ask, the far ones answer; each tag is one pair's. */
static void *exchange(void *arg)
{
	const struct worker *worker = arg;
	enum style style = (enum style)((worker->number + worker->near) % STYLES);
	uint64_t ask = 2 * worker->number, back = ask + 1;
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	uint8_t *out = malloc(LARGE), *in = malloc(LARGE);
	struct tow_op *send, *recv;
	sem_t sent, received;

	if (alone && (style == CALLBACK || style == RESULT))
		style = WAIT;
	if (style == CALLBACK)
		options.done = post;
	sem_init(&sent, 0, 0);
	sem_init(&received, 0, 0);
	for (unsigned i = 0; i < EXCHANGES; i++) {
		uint64_t bytes = i % 5 == 4 ? LARGE : 8, seed = worker->number * 1000ull + i;

		options.user = &received;
		TWT_OK(tow_recv_start(worker->side->peer, in, bytes, worker->near ? back : ask,
				      &options, &recv));
		options.user = &sent;
		if (!worker->near)
			worker_finish(worker, recv, style, &received);
		twt_fill(out, bytes, worker->near ? seed : seed + 500);
		TWT_OK(tow_send_start(worker->side->peer, out, bytes, worker->near ? ask : back,
				      &options, &send));
		if (worker->near)
			worker_finish(worker, recv, style, &received);
		worker_finish(worker, send, style, &sent);
		TWT_OK(twt_check(in, bytes, worker->near ? seed + 500 : seed));
	}
	free(out);
	free(in);
	return NULL;
}

static void *block(void *arg)
{
	const struct worker *worker = arg;
	struct tow_op *op;
	uint64_t value;

	TWT_OK(tow_recv_start(worker->side->peer, &value, sizeof(value), BLOCKED + worker->number,
			      NULL, &op));
	TWT_OK(tow_op_wait(op, LIMIT_NS));
	TWT_OK(tow_op_release(op));
	return NULL;
}

static void begin(struct worker *workers, const struct twt_side *side, bool near,
		  struct tow_op *never, void *(*run)(void *arg))
{
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] =
			(struct worker){ .side = side, .number = i, .near = near, .never = never };
		if (pthread_create(&workers[i].thread, NULL, run, &workers[i]) != 0)
			abort();
	}
}

static void end(struct worker *workers)
{
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
}

static void swap_words(const struct twt_side *side, bool near, uint64_t tag)
{
	uint64_t word = near, got;
	struct tow_op *send, *recv;

	TWT_OK(tow_recv_start(side->peer, &got, sizeof(got), tag + !near, NULL, &recv));
	TWT_OK(tow_send_start(side->peer, &word, sizeof(word), tag + near, NULL, &send));
	TWT_OK(twt_finish(send, NULL));
	TWT_OK(twt_finish(recv, NULL));
	if (got != !near)
		abort();
}

static void play(const struct twt_side *side, bool near)
{
	struct worker workers[THREADS];
	uint64_t word = 0, since_ns = now_ns();
	struct tow_op *never;

	TWT_OK(tow_recv_start(side->peer, &word, sizeof(word), NEVER, NULL, &never));
	begin(workers, side, near, never, exchange);
	end(workers);
	begin(workers, side, near, never, block);
	for (unsigned i = 0; i < 200; i++)
		swap_words(side, near, QUIET);
	for (unsigned i = 0; i < THREADS; i++)
		TWT_OK(tow_send_start(side->peer, &word, sizeof(word), BLOCKED + i, NULL, NULL));
	end(workers);
	TWT_OK(tow_op_cancel(never));
	if (tow_op_wait(never, LIMIT_NS) != TOW_ECANCELED)
		abort();
	TWT_OK(tow_op_release(never));
	swap_words(side, near, QUIET);
	/* From here on the kernel closes them: the runtime's close waits for that. */
	if (atomic_exchange(&twi_uring_close_ms, 0) != 0 &&
	    now_ns() - since_ns >= CLOSE_MS / 4 * 1000000ull) {
		fprintf(stderr, "a side has waited for rings to be closed\n");
		abort();
	}
}

static int far(struct twt_side *side, void *arg)
{
	(void)arg;
	play(side, false);
	return 0;
}

static void two_processes(const char *address)
{
	struct twt_side side;

	twt_pair(&side, address, POOL, far, NULL);
	play(&side, true);
	assert_int_equal(twt_pair_end(&side), 0);
}

static void *play_far(void *arg)
{
	play(arg, false);
	return NULL;
}

static void test_tcp(void **state)
{
	(void)state;
	two_processes("tcp://127.0.0.1:0");
}

static void test_shm(void **state)
{
	(void)state;
	two_processes("shm://*");
}

/* Both sides of the loop lane are in one process, on one engine. */
static void test_loop(void **state)
{
	struct twt_side near = { 0 }, far = { 0 };
	struct tow_op *accept, *dial;
	struct tow_result result;
	pthread_t thread;

	(void)state;
	near.runtime = far.runtime = twt_runtime(POOL);
	TWT_OK(tow_endpoint_open(near.runtime, "loop://many", &near.endpoint));
	TWT_OK(tow_accept_start(near.endpoint, NULL, &accept));
	TWT_OK(tow_connect_start(near.endpoint, "loop://many", NULL, &dial));
	TWT_OK(twt_finish(accept, &result));
	near.peer = result.peer;
	TWT_OK(twt_finish(dial, &result));
	far.peer = result.peer;
	assert_int_equal(pthread_create(&thread, NULL, play_far, &far), 0);
	play(&near, true);
	pthread_join(thread, NULL);
	TWT_OK(tow_runtime_close(near.runtime));
}

static void test_plain_tcp(void **state)
{
	(void)state;
	twi_uring_plain = true;
	two_processes("tcp://127.0.0.1:0");
	twi_uring_plain = false;
}

static void test_plain_shm(void **state)
{
	(void)state;
	twi_uring_plain = true;
	two_processes("shm://*");
	twi_uring_plain = false;
}

/*
 * Threads end, or have their rings taken, and the kernel does not close those: nobody waits for
 * that. Who closed them held the engine, until the other side took this one for dead.
 */
static void test_slow_close(void **state)
{
	(void)state;
	twi_uring_plain = true;
	atomic_store(&twi_uring_close_ms, CLOSE_MS);
	two_processes("tcp://127.0.0.1:0");
	atomic_store(&twi_uring_close_ms, CLOSE_MS);
	two_processes("shm://*");
	twi_uring_plain = false;
}

/* The library's own thread is not needed for it. */
static void test_alone(void **state)
{
	(void)state;
	alone = true;
	setenv("TOW_BACKGROUND", "0", 1);
	two_processes("tcp://127.0.0.1:0");
	two_processes("shm://*");
	unsetenv("TOW_BACKGROUND");
	alone = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tcp),       cmocka_unit_test(test_shm),
		cmocka_unit_test(test_loop),      cmocka_unit_test(test_plain_tcp),
		cmocka_unit_test(test_plain_shm), cmocka_unit_test(test_slow_close),
		cmocka_unit_test(test_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
