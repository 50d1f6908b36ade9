/*
 * test_shm_window.c - windows between processes: two ranks sum in place, each writing its half of
 * the result into both pools; and one that is killed while a thread of the other is at its memory.
 */
#include "pair.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "diag/base/clock.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/shm/shm_window.h"

#define POOL   (16 << 20)
#define COUNT  100000u
#define ROUNDS 100u

/* What each rank exposes. */
struct desk {
	_Alignas(64) _Atomic uint64_t steps; /* how far its owner is */
	_Alignas(64) uint32_t value[COUNT];
};

struct place {
	uint64_t offset, extent;
};

/*
 * A desk in the pool, and the other's as it is seen from here, until the link is released: the
 * other side may be gone as soon as it has done its last step.
 */
static struct twi_window_hold *set_up(struct twt_side *side, struct desk **mine_out,
				      struct desk **theirs_out)
{
	struct twi_engine *engine = twi_runtime_engine(side->runtime);
	struct place mine = { 0 }, theirs = { 0 };
	struct twi_window_hold *link;
	uint32_t extent = 0;
	struct tow_op *send, *recv;
	int status = TOW_OK;
	void *memory;

	TWT_OK(tow_alloc(side->runtime, sizeof(struct desk), 0, &memory));
	memset(memory, 0, sizeof(struct desk));
	twi_engine_enter(engine);
	link = twi_shm_windows.hold(side->peer);
	if (link == NULL || !twi_shm_windows.writable(side->peer) ||
	    !twi_shm_windows.expose(side->peer, memory, sizeof(struct desk), &extent, &mine.offset))
		abort();
	twi_engine_leave(engine);
	mine.extent = extent;
	TWT_OK(tow_recv_start(side->peer, &theirs, sizeof(theirs), 1, NULL, &recv));
	TWT_OK(tow_send_start(side->peer, &mine, sizeof(mine), 1, NULL, &send));
	TWT_OK(twt_finish(send, NULL));
	TWT_OK(twt_finish(recv, NULL));
	twi_engine_enter(engine);
	*theirs_out = twi_shm_windows.at(side->peer, (uint32_t)theirs.extent, theirs.offset,
					 sizeof(struct desk), true, &status);
	twi_engine_leave(engine);
	TWT_OK(status);
	*mine_out = memory;
	return link;
}

static void release(struct twt_side *side, struct twi_window_hold *link)
{
	struct twi_engine *engine = twi_runtime_engine(side->runtime);

	twi_engine_enter(engine);
	twi_shm_windows.release(link);
	twi_engine_leave(engine);
}

/* One step more; back when the other side has come as far. */
static void meet(struct desk *mine, struct desk *theirs)
{
	uint64_t until = twi_now_ns() + 20 * TWT_SECOND;
	uint64_t step = atomic_load_explicit(&mine->steps, memory_order_relaxed) + 1;

	atomic_store_explicit(&mine->steps, step, memory_order_release);
	/* acquire: pairs with the release of the other process, after what it has written */
	while (atomic_load_explicit(&theirs->steps, memory_order_acquire) < step) {
		if (twi_now_ns() > until)
			abort();
		sched_yield();
	}
}

static uint32_t input(uint32_t rank, uint32_t round, uint32_t i)
{
	return (rank + 1) * 0x9e3779b9u * (round + 1) + i;
}

/* Returns how many elements are wrong. */
static int sum_in_place(struct twt_side *side, uint32_t rank)
{
	uint32_t from = rank * COUNT / 2, to = (rank + 1) * COUNT / 2;
	struct desk *mine, *theirs;
	struct twi_window_hold *link = set_up(side, &mine, &theirs);
	int wrong = 0;

	for (uint32_t round = 1; round <= ROUNDS; round++) {
		for (uint32_t i = 0; i < COUNT; i++)
			mine->value[i] = input(rank, round, i);
		meet(mine, theirs);
		for (uint32_t i = from; i < to; i++)
			mine->value[i] = theirs->value[i] = mine->value[i] + theirs->value[i];
		meet(mine, theirs);
		for (uint32_t i = 0; i < COUNT; i++)
			wrong += mine->value[i] != input(0, round, i) + input(1, round, i);
		meet(mine, theirs);
	}
	release(side, link);
	TWT_OK(tow_free(side->runtime, mine));
	return wrong;
}

static int sum_as_1(struct twt_side *side, void *arg)
{
	(void)arg;
	return sum_in_place(side, 1) == 0 ? 0 : 1;
}

static void test_sum_in_place(void **state)
{
	struct twt_side side;

	(void)state;
	twt_pair(&side, "shm://*", POOL, sum_as_1, NULL);
	assert_int_equal(sum_in_place(&side, 0), 0);
	assert_int_equal(twt_pair_end(&side), 0);
}

static int wait_for_the_end(struct twt_side *side, void *arg)
{
	struct desk *mine, *theirs;
	struct tow_op *op;
	uint64_t word;

	(void)arg;
	release(side, set_up(side, &mine, &theirs));
	TWT_OK(tow_recv_start(side->peer, &word, 8, 2, NULL, &op)); /* never comes */
	return twt_finish(op, NULL) == TOW_EPEER ? 0 : 1;
}

struct work {
	struct desk *desk;
	_Atomic bool stop;
	_Atomic uint64_t rounds;
};

/* An executor that has not heard of the loss yet. */
static void *write_on(void *arg)
{
	struct work *work = arg;

	while (!atomic_load(&work->stop)) {
		uint32_t round = (uint32_t)atomic_fetch_add(&work->rounds, 1);

		for (uint32_t i = 0; i < COUNT; i++)
			work->desk->value[i] = round + i;
		for (uint32_t i = 0; i < COUNT; i++) {
			if (work->desk->value[i] != round + i)
				abort();
		}
	}
	return NULL;
}

static void work_some(struct work *work)
{
	uint64_t until = twi_now_ns() + 20 * TWT_SECOND, from = atomic_load(&work->rounds);

	while (atomic_load(&work->rounds) < from + 3) {
		assert_true(twi_now_ns() < until);
		usleep(1000);
	}
}

/* Killed, found out, closed: the hold keeps the memory until the thread has stopped. */
static void test_killed_in_use(void **state)
{
	struct work work = { .stop = false };
	struct twi_window_hold *link;
	struct twt_side side;
	struct desk *mine;
	struct tow_op *recv;
	pthread_t thread;
	uint64_t word;
	int how;

	(void)state;
	twt_pair(&side, "shm://*", POOL, wait_for_the_end, NULL);
	link = set_up(&side, &mine, &work.desk);
	assert_int_equal(pthread_create(&thread, NULL, write_on, &work), 0);
	work_some(&work);
	kill(side.child, SIGKILL);
	TWT_OK(tow_recv_start(side.peer, &word, 8, 9, NULL, &recv));
	assert_int_equal(twt_finish(recv, NULL), TOW_EPEER);
	work_some(&work);
	TWT_OK(tow_peer_close(side.peer));
	work_some(&work);
	atomic_store(&work.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	release(&side, link);
	how = twt_pair_end(&side);
	assert_true(WIFSIGNALED(how));
	assert_int_equal(WTERMSIG(how), SIGKILL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum_in_place),
		cmocka_unit_test(test_killed_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
