/*
 * test_handoff.c - a thread that starts operations and then stays away, in whatever way it learns
 * of their ends, hands over: the library's thread does not nap meanwhile. The program's own ppoll
 * counts the naps that ran out while the thread slept until it was told. Where the thread comes
 * back after a while by itself, the messages count that had not ended while a nap went on. A thread
 * that waits or tests at once wakes nobody. A last play shows that there are naps to count.
 */
#include "twt.h"

#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <towline/rpc.h>

#include "lane_pair.h"

#include "transport/engine/background.h"
#include "transport/engine/poller.h"

#define WARM     10u
#define ROUNDS   30u
#define BURST    8u
#define MANY     2000u
#define AWAY_US  3000
#define BYTES    (1u << 20)
#define SLEEPERS 2u        /* threads of the library, one for each runtime */
#define DRIVE_NS 2000000u  /* longer than the first nap */
#define BURST_NS 20000000u /* in this time naps grow to their longest */
#define SHORT_NS 500000u   /* a nap that begins with the first tick takes twice as long */
#define MOST_NS  (20 * TWT_SECOND)
#define MOST_MS  20000

enum way { CALLBACKS, POLLS, TAKES, WAITS_LATER, TESTS_LATER, WAYS };

static const char *const way_names[WAYS] = { "callbacks", "a queue's descriptor", "takes",
					     "waits after a while", "tests after a while" };

static struct twt_lane_pair pair;
static struct tow_queue *queue[2];
static void *memory[2];
static sem_t told;
static _Atomic bool away;
static _Atomic uint32_t naps;  /* that ran out while the thread was away */
static _Atomic uint32_t wakes; /* of threads that napped */
static _Atomic uint32_t short_naps;
static int wake_fds[2];    /* of the library's threads */
static _Atomic bool looks; /* they are known */

static bool is_napping(int side)
{
	const struct twi_engine *engine = twi_runtime_engine(pair.runtime[side]);

	return atomic_load(&engine->background_asleep) == TWI_BG_NAPPING;
}

/* A thread of the library that naps calls it, for one descriptor; its sleep on a ring is no nap. */
static bool begins_nap(const struct pollfd *fds, nfds_t count)
{
	for (int side = 0; side < 2 && count == 1 && atomic_load(&looks); side++) {
		if (wake_fds[side] == fds->fd && is_napping(side))
			return true;
	}
	return false;
}

__attribute__((visibility("default"))) int ppoll(struct pollfd *fds, nfds_t count,
						 const struct timespec *time, const sigset_t *mask)
{
	struct timespec left = time != NULL ? *time : (struct timespec){ 0 };
	bool is_nap = begins_nap(fds, count), was_away = atomic_load(&away);
	uint64_t ns = is_nap ? (uint64_t)left.tv_sec * TWT_SECOND + (uint64_t)left.tv_nsec : 0;
	int got = (int)syscall(SYS_ppoll, fds, count, time != NULL ? &left : NULL, mask, 8);

	if (is_nap && got == 0 && was_away && atomic_load(&away))
		atomic_fetch_add(&naps, 1);
	atomic_fetch_add(&wakes, is_nap && got == 1);
	atomic_fetch_add(&short_naps, is_nap && ns <= SHORT_NS);
	return got;
}

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	assert_true(result->status >= 0);
	tow_op_release(op);
	sem_post(&told);
}

static void await_callback(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += MOST_MS / 1000;
	assert_int_equal(sem_timedwait(&told, &until), 0);
}

static void take_one(int side, bool polls)
{
	struct tow_result result = { .size = sizeof(result) };
	struct pollfd entry = { .events = POLLIN };
	size_t count = 0;

	TWT_OK(tow_queue_fd(queue[side], &entry.fd));
	while (count == 0) {
		if (polls)
			assert_int_equal(poll(&entry, 1, MOST_MS), 1);
		assert_true(tow_queue_take(queue[side], &result, 1, &count) >= 0);
	}
	assert_true(result.status >= 0);
	tow_op_release(result.op);
}

static void test_until_done(struct tow_op *op)
{
	int status;

	while ((status = tow_op_test(op)) == TOW_AGAIN)
		;
	assert_true(status >= 0);
}

static bool is_over(struct tow_op *op)
{
	struct tow_result result = { .size = sizeof(result) };

	return tow_op_result(op, &result) != TOW_AGAIN;
}

/* For so long both threads of the library see that a caller drives, and nap. */
static void drive_both(void)
{
	for (uint64_t since = twi_now_ns(); twi_now_ns() - since < DRIVE_NS;) {
		(void)tow_progress(pair.runtime[0]);
		(void)tow_progress(pair.runtime[1]);
	}
}

/* One message, whose ends the thread learns of in this way. True: it waited for a nap. */
static bool move(int from, enum way way)
{
	struct tow_op_options options[2] = { TOW_OP_OPTIONS_INIT, TOW_OP_OPTIONS_INIT };
	bool later = way == WAITS_LATER || way == TESTS_LATER;
	size_t bytes = later ? BYTES : 64;
	struct tow_op *ops[2];
	bool idle = false;
	int to = !from;

	for (int side = 0; side < 2 && !later; side++) {
		options[side].done = way == CALLBACKS ? on_done : NULL;
		options[side].queue = way == CALLBACKS ? NULL : queue[side];
	}
	drive_both();
	TWT_OK(tow_recv_start(pair.peer[to], memory[to], bytes, 1, &options[to], &ops[to]));
	TWT_OK(tow_send_start(pair.peer[from], memory[from], bytes, 1, &options[from], &ops[from]));
	atomic_store(&away, true);
	if (later) {
		usleep(AWAY_US);
		for (int side = 0; side < 2; side++)
			idle |= is_napping(side) && !is_over(ops[side]);
	}
	for (int side = 0; side < 2 && !later; side++) {
		if (way == CALLBACKS)
			await_callback();
		else
			take_one(side, way == POLLS);
	}
	atomic_store(&away, false);
	for (int side = 0; side < 2 && later; side++) {
		if (way == TESTS_LATER)
			test_until_done(ops[side]);
		else
			assert_true(tow_op_wait(ops[side], MOST_NS) >= 0);
		tow_op_release(ops[side]);
	}
	return idle;
}

static void play(enum way way)
{
	unsigned idle = 0;

	for (unsigned i = 0; i < WARM; i++)
		(void)move(i % 2, way);
	atomic_store(&naps, 0);
	for (unsigned i = 0; i < ROUNDS; i++)
		idle += move(i % 2, way);
	print_message("%s, %s: %u naps and %u messages that waited for one, of %u\n",
		      pair.lane->name, way_names[way], atomic_load(&naps), idle, ROUNDS);
	/* A thread that lost its core with the engine held has them nap. */
	assert_true(atomic_load(&naps) + idle < ROUNDS / 2);
}

/* While callers drive, it naps. */
static void play_driven(void)
{
	struct tow_op *op;
	uint64_t since = twi_now_ns();

	TWT_OK(tow_recv_start(pair.peer[1], memory[1], 64, 2, NULL, &op));
	atomic_store(&naps, 0);
	atomic_store(&away, true);
	while (atomic_load(&naps) == 0 && twi_now_ns() - since < MOST_NS)
		assert_int_equal(tow_op_test(op), TOW_AGAIN);
	atomic_store(&away, false);
	assert_true(atomic_load(&naps) > 0);
	TWT_OK(tow_op_cancel(op));
	(void)twt_lane_finish(&pair, op);
}

#ifndef TWT_SANITIZED
static void finish_at_once(struct tow_op *op, bool tests)
{
	if (tests)
		test_until_done(op);
	else
		assert_true(tow_op_wait(op, MOST_NS) >= 0);
	tow_op_release(op);
}

/* Who waits or tests at once hands nothing over. */
static void play_at_once(bool tests)
{
	struct tow_op *sent, *received;

	for (unsigned i = 0; i < WARM + MANY; i++) {
		if (i == WARM)
			atomic_store(&wakes, 0);
		TWT_OK(tow_recv_start(pair.peer[1], memory[1], 64, 4, NULL, &received));
		TWT_OK(tow_send_start(pair.peer[0], memory[0], 64, 4, NULL, &sent));
		finish_at_once(sent, tests);
		finish_at_once(received, tests);
	}
	print_message("%s, %s at once: %u wakes, %u messages\n", pair.lane->name,
		      tests ? "tests" : "waits", atomic_load(&wakes), MANY);
	/* A thread that loses its core in between is away for long. */
	assert_true(atomic_load(&wakes) < MANY / 32);
}
#endif

/* A flush is one, also while the library's thread moves messages. */
static void play_flushes(void)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	options.done = on_done;
	for (unsigned i = 0; i < ROUNDS; i++) {
		TWT_OK(tow_recv_start(pair.peer[1], memory[1], BYTES, 3, &options, NULL));
		TWT_OK(tow_send_start(pair.peer[0], memory[0], BYTES, 3, &options, NULL));
		while (sem_trywait(&told) != 0)
			TWT_OK(tow_flush(pair.runtime[0]));
		while (sem_trywait(&told) != 0)
			TWT_OK(tow_flush(pair.runtime[1]));
	}
}

static void on_question(struct tow_op *op, const struct tow_result *result)
{
	TWT_OK(tow_send_start(pair.peer[0], memory[0], BYTES, 6, NULL, NULL));
	on_done(op, result);
}

/* A large answer from a callback is no start of the thread that is away: it is away as before. */
static void play_answer(void)
{
	const struct twi_engine *engine = twi_runtime_engine(pair.runtime[0]);
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *answer, *asked, *pending;
	static char asks[8], question[8], other[8];
	uint64_t left_ns;

	if (pair.lane->one_runtime)
		return;
	options.done = on_question;
	TWT_OK(tow_recv_start(pair.peer[1], memory[1], BYTES, 6, NULL, &answer));
	TWT_OK(tow_recv_start(pair.peer[0], question, 8, 5, &options, NULL));
	TWT_OK(tow_recv_start(pair.peer[0], other, 8, 7, NULL, &pending));
	left_ns = atomic_load(&engine->handoff.left_ns);
	assert_true(left_ns != 0);
	TWT_OK(tow_send_start(pair.peer[1], asks, 8, 5, NULL, &asked));
	await_callback();
	assert_true(atomic_load(&engine->handoff.left_ns) == left_ns);
	assert_true(tow_op_wait(asked, MOST_NS) >= 0 && tow_op_wait(answer, MOST_NS) >= 0);
	tow_op_release(asked);
	tow_op_release(answer);
	TWT_OK(tow_op_cancel(pending));
	(void)twt_lane_finish(&pair, pending);
}

/* Small messages that follow each other closely wait for more, and their sends have ended. */
static void play_bursts(void)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	options.done = on_done;
	for (unsigned i = 0; i < WARM + ROUNDS; i++) {
		if (i == WARM)
			atomic_store(&naps, 0);
		drive_both();
		for (unsigned k = 0; k < BURST; k++)
			TWT_OK(tow_recv_start(pair.peer[1], memory[1], 64, 9, &options, NULL));
		for (unsigned k = 0; k < BURST; k++)
			TWT_OK(tow_send_start(pair.peer[0], memory[0], 64, 9, NULL, NULL));
		atomic_store(&away, true);
		for (unsigned k = 0; k < BURST; k++)
			await_callback();
		atomic_store(&away, false);
	}
	print_message("%s, bursts: %u naps, of %u\n", pair.lane->name, atomic_load(&naps), ROUNDS);
	assert_true(atomic_load(&naps) < ROUNDS / 3);
}

/* Who waits for the last one has no more to send. */
static void play_held(void)
{
	const struct twi_engine *engine = twi_runtime_engine(pair.runtime[0]);
	struct tow_op *received[2], *sent[2];
	unsigned held = 0, left = 0;

	for (unsigned i = 0; i < MANY; i++) {
		for (int k = 0; k < 2; k++)
			TWT_OK(tow_recv_start(pair.peer[1], memory[1], 64, 10, NULL, &received[k]));
		for (int k = 0; k < 2; k++)
			TWT_OK(tow_send_start(pair.peer[0], memory[0], 64, 10, NULL, &sent[k]));
		held += twi_handoff_held_ns(&engine->handoff) != 0;
		for (int k = 1; k >= 0; k--) {
			if (i % 2 == 0)
				test_until_done(sent[k]);
			else
				assert_true(tow_op_wait(sent[k], MOST_NS) >= 0);
			left += twi_handoff_held_ns(&engine->handoff) != 0;
		}
		for (int k = 0; k < 2; k++) {
			assert_true(tow_op_wait(received[k], MOST_NS) >= 0);
			tow_op_release(sent[k]);
			tow_op_release(received[k]);
		}
	}
	print_message("%s: %u held, of %u, and %u when awaited\n", pair.lane->name, held, MANY,
		      left);
	assert_true(left < MANY / 8); /* the library's thread had the engine then */
#ifndef TWT_SANITIZED
	assert_true(held > 0 || strcmp(pair.lane->name, "tcp") != 0);
#endif
}

static void serve(struct tow_call_in *call, void *user)
{
	(void)user;
	TWT_OK(tow_reply_start(call, 0, NULL, 0, NULL, NULL));
}

static void exchange_for(uint64_t ns)
{
	for (uint64_t since = twi_now_ns(); twi_now_ns() - since < ns;) {
		struct tow_op *sent, *received;

		TWT_OK(tow_recv_start(pair.peer[1], memory[1], 64, 8, NULL, &received));
		TWT_OK(tow_send_start(pair.peer[0], memory[0], 64, 8, NULL, &sent));
		assert_true(tow_op_wait(sent, MOST_NS) >= 0);
		assert_true(tow_op_wait(received, MOST_NS) >= 0);
		tow_op_release(sent);
		tow_op_release(received);
	}
}

/*
 * One long absence comes behind many short ones, so nobody expects it, and calls may come
 * meanwhile. The library's thread looks more often then. Where a wait finds its message in memory
 * at once, it does not read the clock, so the absence is not known.
 */
static void play_deserted(void)
{
	if (strstr(pair.lane->name, "shm") != NULL)
		return;
	atomic_store(&short_naps, 0);
	for (int side = 0; side < 2; side++)
		TWT_OK(tow_method_register(pair.runtime[side], "asked", serve, NULL, NULL));
	for (uint64_t since = twi_now_ns();
	     atomic_load(&short_naps) == 0 && twi_now_ns() - since < MOST_NS;) {
		exchange_for(BURST_NS);
		usleep(AWAY_US * 2);
	}
	assert_true(atomic_load(&short_naps) > 0);
}

static void test_lane(void **state)
{
	atomic_store(&looks, false); /* a lane that has failed leaves it set */
	twt_lane_init(&pair, *state);
	for (int side = 0; side < 2; side++)
		pair.options[side].background = 1;
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	for (int side = 0; side < 2; side++) {
		TWT_OK(tow_queue_open(pair.runtime[side], 4, &queue[side]));
		TWT_OK(tow_alloc(pair.runtime[side], BYTES, 0, &memory[side]));
	}
	for (int side = 0; side < 2; side++)
		wake_fds[side] =
			twi_runtime_engine(pair.runtime[side])->rings[TWI_RING_BACKGROUND]->wake_fd;
	atomic_store(&looks, true);
	for (enum way way = 0; way < WAYS; way++)
		play(way);
#ifndef TWT_SANITIZED /* there, what comes between a start and its wait takes long */
	play_at_once(false);
	play_at_once(true);
#endif
	play_bursts();
	play_held();
	play_flushes();
	play_answer();
	play_driven();
	play_deserted();
	atomic_store(&looks, false);
	for (int side = 0; side < 2; side++) {
		TWT_OK(tow_queue_close(queue[side]));
		TWT_OK(tow_free(pair.runtime[side], memory[side]));
	}
	twt_lane_close(&pair);
}

int main(void)
{
	struct CMUnitTest tests[TWT_LANE_ROWS];
	size_t count = 0;

	sem_init(&told, 0, 0);
	for (size_t i = 0; i < TWT_LANE_ROWS; i++) {
		/* The clock of the simulator stands still. */
		if (strcmp(twt_lane_rows[i].name, "loop") != 0)
			tests[count++] =
				(struct CMUnitTest){ twt_lane_rows[i].name, test_lane, NULL, NULL,
						     (void *)(uintptr_t)&twt_lane_rows[i] };
	}
	return _cmocka_run_group_tests("handoff", tests, count, NULL, NULL);
}
