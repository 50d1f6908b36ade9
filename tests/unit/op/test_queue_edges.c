/*
 * test_queue_edges.c - the descriptor of a completion queue, when putting and taking meet: the
 * reads and writes of it take their time here, so that each comes in the midst of the others. No
 * sleeper is left with a result in the queue, and at rest it is readable if there is one.
 */
#include "twt.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pair.h"

#include "diag/base/clock.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/op.h"

#define TAKERS 3u
#define ROUNDS 500u
#define LATE   2000 /* ms for which nobody may sleep beside a result */

static struct tow_runtime *runtime;
static struct tow_queue *queue;
static int queue_fd = -1;
static pthread_barrier_t barrier;
static _Atomic unsigned taken, wanted, lost;

/* For some of them nothing, for others up to 40 us. */
static void dawdle(int fd)
{
	static __thread uint64_t random = 1;
	uint64_t until;

	if (fd != queue_fd)
		return;
	if (random == 1)
		random = (uintptr_t)&random;
	if (twt_random_below(&random, 3) == 0)
		return;
	until = twi_now_ns() + twt_random_below(&random, 40000);
	while (twi_now_ns() < until)
		continue;
}

/* What comes in the midst of the next read or write of it, once: before or behind the call. */
enum place { BEFORE_READ, BEHIND_READ, BEFORE_WRITE, BEHIND_WRITE, PLACES };
static void (*midst[PLACES])(void);

static void meet(enum place place, int fd)
{
	void (*comes)(void) = midst[place];

	if (fd == queue_fd && comes != NULL) {
		midst[place] = NULL;
		comes();
	}
}

/* In place of libc's, for the library in this program. */
ssize_t read(int fd, void *data, size_t bytes)
{
	ssize_t got;

	dawdle(fd);
	meet(BEFORE_READ, fd);
	got = syscall(SYS_read, fd, data, bytes);
	meet(BEHIND_READ, fd);
	dawdle(fd);
	return got;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
	ssize_t got;

	dawdle(fd);
	meet(BEFORE_WRITE, fd);
	got = syscall(SYS_write, fd, data, bytes);
	meet(BEHIND_WRITE, fd);
	dawdle(fd);
	return got;
}

static const struct twi_op_ops any_ops = { .kind = TWI_OP_CALL, .noun = "nothing" };

static void put_one(void)
{
	const struct tow_op_options options = { .size = sizeof(options),
						.timeout_ns = TOW_FOREVER,
						.queue = queue };
	struct twi_engine *engine = twi_runtime_engine(runtime);
	struct tow_op *op;

	twi_engine_enter(engine);
	op = twi_op_acquire(engine, &any_ops, &options);
	if (op == NULL)
		abort();
	twi_op_complete(op, TOW_OK, 0);
	twi_engine_leave(engine);
}

static void take_one(void)
{
	struct tow_result result = TOW_RESULT_INIT;
	size_t count;

	TWT_OK(tow_queue_take(queue, &result, 1, &count));
}

/* One is put while a taker reads: it is told. One is taken while it is told of: that is over. */
static void test_meetings(void **state)
{
	struct pollfd fd = { .events = POLLIN };

	(void)state;
	runtime = twt_runtime(4 << 20);
	TWT_OK(tow_queue_open(runtime, 16, &queue));
	TWT_OK(tow_queue_fd(queue, &fd.fd));
	queue_fd = fd.fd;
	for (enum place place = 0; place < PLACES; place++) {
		bool puts = place == BEFORE_READ || place == BEHIND_READ;

		midst[place] = puts ? put_one : take_one;
		put_one();
		if (puts)
			take_one();
		assert_null(midst[place]); /* it has come */
		assert_int_equal(poll(&fd, 1, 0), puts);
		if (puts)
			take_one();
		assert_int_equal(poll(&fd, 1, 0), 0);
	}
	queue_fd = -1;
	TWT_OK(tow_runtime_close(runtime));
}

/* Until all of the round are taken: by sleeping first, or at once. */
static void take_round(bool sleeps)
{
	struct tow_result result = TOW_RESULT_INIT;
	struct pollfd fd = { .fd = queue_fd, .events = POLLIN };
	unsigned slept_ms = 0;
	size_t count;

	while (atomic_load(&taken) < atomic_load(&wanted) && slept_ms < LATE) {
		if (sleeps && poll(&fd, 1, 1) == 0) {
			slept_ms++;
			continue;
		}
		if (tow_queue_take(queue, &result, 1, &count) == TOW_OK)
			atomic_fetch_add(&taken, (unsigned)count);
	}
	if (slept_ms >= LATE)
		atomic_store(&lost, 1);
}

static void *take(void *arg)
{
	for (unsigned round = 0; round < ROUNDS && atomic_load(&lost) == 0; round++) {
		pthread_barrier_wait(&barrier);
		take_round(round % 3 == 0 || (round % 3 == 1 && arg != NULL));
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier); /* it has been looked at */
	}
	return NULL;
}

static void test_edges(void **state)
{
	struct pollfd fd = { .events = POLLIN };
	pthread_t takers[TAKERS];

	(void)state;
	runtime = twt_runtime(4 << 20);
	TWT_OK(tow_queue_open(runtime, 16, &queue));
	TWT_OK(tow_queue_fd(queue, &fd.fd));
	queue_fd = fd.fd;
	pthread_barrier_init(&barrier, NULL, TAKERS + 1);
	for (uintptr_t i = 0; i < TAKERS; i++)
		assert_int_equal(pthread_create(&takers[i], NULL, take, (void *)i), 0);
	for (unsigned round = 0; round < ROUNDS && atomic_load(&lost) == 0; round++) {
		unsigned puts = 1 + round % 4;

		atomic_fetch_add(&wanted, puts);
		pthread_barrier_wait(&barrier);
		for (unsigned i = 0; i < puts; i++) {
			put_one();
			dawdle(queue_fd);
			dawdle(queue_fd);
		}
		pthread_barrier_wait(&barrier);
		if (atomic_load(&lost) != 0)
			fail_msg("round %u: %u of %u are taken, and the descriptor says nothing",
				 round, taken, wanted);
		if (poll(&fd, 1, 0) != 0)
			fail_msg("round %u: nothing is left, and the descriptor readable", round);
		pthread_barrier_wait(&barrier);
	}
	for (unsigned i = 0; i < TAKERS; i++)
		pthread_join(takers[i], NULL);
	TWT_OK(tow_runtime_close(runtime));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_meetings),
					    cmocka_unit_test(test_edges) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
