/*
 * test_slices.c - more threads than cores exchange small messages over shm, so that they have
 * slices (engine_slice.h): each exchange is right, whatever a thread does with its slice. Threads
 * wait, wait for one of two, give up a wait, stay away for a while, end in the middle; beside them
 * a pair exchanges over tcp, which an owner without a ring does not poll, and receives that nobody
 * sends to end at their deadlines. The same again where other threads hold all rings: then no owner
 * polls tcp, the library's own thread has to.
 */
#include "pair.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "twt.h"

#define POOL    (16 << 20)
#define THREADS 40u
#ifdef TWT_SANITIZED
#define EXCHANGES 500u
#else
#define EXCHANGES 1500u
#endif
#define HOLDERS (TWI_RINGS_MAX - 1u) /* the main thread has a ring, too */
/* In so many an exchange over tcp ends: in 17 as a rule, in 58 to 86 where nobody polls rings. */
#define SLICES_EACH 40u
#define LARGE       20000u /* of one exchange in 64 */
#define TCP         4000u  /* tags */
#define NEVER       5000u
#define MEET        6000u
#define LIMIT_NS    (60ull * TWT_SECOND)

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
static bool held_all;     /* rings */
static unsigned threads;  /* that exchange over shm, THREADS at most */
static uint64_t begun;    /* slices, at this side, in all jobs */
static pthread_barrier_t held, done;

static uint64_t random_of(struct worker *worker)
{
	return twt_random(&worker->seed) >> 16;
}

static void wait_for(struct worker *worker, struct tow_op *op)
{
	struct tow_op *both[] = { worker->never, op };
	size_t at;
	int status;

	switch (held_all ? 3 : random_of(worker) % 50) {
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
	if (!held_all && random_of(worker) % 1000 == 0)
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

static uint64_t slices_of(const struct worker *worker)
{
	struct twi_engine *engine = twi_runtime_engine(worker->side->runtime);
	uint64_t count;

	twi_engine_enter(engine);
	count = engine->slices.count;
	twi_engine_leave(engine);
	return count;
}

/* Until the others are through, at both sides: the near one says so with its last tag. */
static void *beside(void *arg)
{
	struct worker *worker = arg;
	uint64_t more = 1, slices;
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
	slices = slices_of(worker);
	if (i >= 10 && (!held_all || i * SLICES_EACH >= slices))
		return NULL;
	fprintf(stderr, "only %u exchanges over tcp in %" PRIu64 " slices\n", i, slices);
	return worker;
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

/* Has a ring that nobody may take, as it has a descriptor of it. */
static void *hold_ring(void *arg)
{
	const struct twt_side *side = arg;
	int fd;

	TWT_OK(tow_fd(side->runtime, &fd));
	pthread_barrier_wait(&held);
	pthread_barrier_wait(&done);
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

/* On a busy machine a sanitized build waits too rarely for slices, which are to be played there. */
static void begin_early(const struct twt_side *side)
{
#ifdef TWT_SANITIZED
	struct twi_engine *engine = twi_runtime_engine(side->runtime);

	twi_engine_enter(engine);
	engine->slices.begin_most = 1;
	twi_engine_leave(engine);
#else
	(void)side;
#endif
}

static void play(struct twt_side *side, struct tow_peer *tcp, bool near, uint64_t seed)
{
	struct worker workers[THREADS + 2];
	struct tow_op *never;
	uint64_t word;
	void *failed = NULL;

	begin_early(side);
	atomic_store(&over, false);
	TWT_OK(tow_recv_start(side->peer, &word, sizeof(word), NEVER + 1, NULL, &never));
	for (unsigned i = 0; i < threads + 2; i++)
		workers[i] = (struct worker){ side, tcp, 0, i, near, seed + 2 * i + near, never };
	begin(&workers[threads], beside);
	begin(&workers[threads + 1], expire);
	for (unsigned i = 0; i < threads; i++)
		begin(&workers[i], exchange);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	atomic_store(&over, true);
	pthread_join(workers[threads].thread, &failed);
	assert_null(failed);
	pthread_join(workers[threads + 1].thread, NULL);
	TWT_OK(tow_op_cancel(never));
	assert_int_equal(tow_op_wait(never, LIMIT_NS), TOW_ECANCELED);
	TWT_OK(tow_op_release(never));
	workers[0].never = NULL;
	workers[0].number = threads; /* neither side closes before the other is through */
	exchange_once(&workers[0], side->peer, threads, 0);
	begun += slices_of(&workers[0]);
	if (threads > 2 * cores())
		assert_true(twi_runtime_engine(side->runtime)->slices.count > 0);
}

static void play_held(struct twt_side *side, struct tow_peer *tcp, bool near, uint64_t seed)
{
	const struct twi_engine *engine = twi_runtime_engine(side->runtime);
	pthread_t holders[HOLDERS];

	held_all = true;
	assert_int_equal(pthread_barrier_init(&held, NULL, HOLDERS + 1), 0);
	assert_int_equal(pthread_barrier_init(&done, NULL, HOLDERS + 1), 0);
	for (unsigned i = 0; i < HOLDERS; i++)
		assert_int_equal(pthread_create(&holders[i], NULL, hold_ring, side), 0);
	pthread_barrier_wait(&held);
	for (unsigned i = 0; i < TWI_RINGS_MAX; i++)
		assert_non_null(engine->rings[i]);
	play(side, tcp, near, seed);
	pthread_barrier_wait(&done);
	for (unsigned i = 0; i < HOLDERS; i++)
		pthread_join(holders[i], NULL);
}

struct setting {
	uint64_t seed;
	unsigned threads;
	bool held; /* all rings */
};

static int far(struct twt_side *side, void *arg)
{
	const struct setting *setting = arg;
	char address[TOW_ADDRESS_MAX];
	struct tow_endpoint *endpoint;
	struct tow_op *op;

	threads = setting->threads;
	TWT_OK(tow_recv_start(side->peer, address, sizeof(address), MEET, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	TWT_OK(tow_endpoint_open(side->runtime, "tcp://127.0.0.1:0", &endpoint));
	(setting->held ? play_held : play)(side, twt_connect(endpoint, address), false,
					   setting->seed);
	return 0;
}

static void check_slices(struct setting setting)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_endpoint *endpoint;
	struct twt_side side;
	struct tow_op *op;

	threads = setting.threads;
	twt_pair(&side, "shm://*", POOL, far, &setting);
	TWT_OK(tow_endpoint_open(side.runtime, "tcp://127.0.0.1:0", &endpoint));
	TWT_OK(tow_endpoint_address(endpoint, address, sizeof(address)));
	TWT_OK(tow_send_start(side.peer, address, sizeof(address), MEET, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	(setting.held ? play_held : play)(&side, twt_accept(endpoint), true, setting.seed);
	assert_int_equal(twt_pair_end(&side), 0);
}

static void test_slices(void **state)
{
	(void)state;
	check_slices((struct setting){ .seed = twt_seed(), .threads = THREADS });
}

/* About as many as there are cores: slices are short, and begin and end all the time. */
static void test_few_threads(void **state)
{
	(void)state;
	begun = 0;
	for (unsigned count = 2; count <= 5; count++)
		check_slices((struct setting){ .seed = twt_seed() + count, .threads = count });
	printf("%" PRIu64 " slices of few threads\n", begun);
#ifndef TWT_SANITIZED
	if (cores() <= 4)
		assert_true(begun > 0);
#endif
}

static void test_no_owner_has_a_ring(void **state)
{
	(void)state;
	check_slices((struct setting){ .seed = twt_seed(), .threads = THREADS, .held = true });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slices),
		cmocka_unit_test(test_few_threads),
		cmocka_unit_test(test_no_owner_has_a_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
