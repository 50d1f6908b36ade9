/*
 * test_hand_over.c - the engine's taking and giving back, its drivers, sentries and followers, in
 * every order of two or three threads' steps, within bounds (explore.h).
 *
 * The code is the engine's own: engine.c, engine_wait.c, engine_drive.c, engine_slice.c, part.c.
 * Its rings, the one lane, and the network are deputies below. Time never comes to the help of
 * anybody: who sleeps is woken or sleeps for ever, and when nobody can go on the run is a fault. So
 * a wake-up that is lost shows, also where a time limit would have made good for it.
 *
 *	arrived   what the network has brought: end of operation 0, of 1, ...
 *	taken     what of that the lane has seen; operations end in this order
 *	left      what a thread has started and left to whoever drives
 */
#include "twt.h"

#include <string.h>
#include <sys/socket.h>

#include "explore.h"

#include <towline/endpoint.h>
#include <towline/status.h>

#include "diag/base/error.h"
#include "memreg/pool/pool_regions.h"
#include "transport/engine/background.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/poller.h"
#include "transport/lanes/lane.h"

#define THREADS 3u
#define RING_FD 10
#define OPS     3u

static struct twi_engine engine;
static struct twi_lane lane;
static struct twi_ring rings[THREADS];
static _Atomic bool armed[THREADS], hushed[THREADS];
static struct twi_waitable ops[OPS];
static _Atomic uint32_t arrived, taken;
static uint32_t left;      /* operations that are to be ended by whoever drives: a bit each */
static uint32_t inside;    /* of the holder of the engine: races show when there are two */
static uint32_t ends[OPS]; /* how often each has ended */
static bool barriers;
static struct twi_wait somebody; /* a driver */

/* --- the ring's deputy --- */

static struct twi_ring *my_ring(void)
{
	return &rings[twi_self.mark - 1];
}

static bool has_work(const struct twi_ring *ring)
{
	(void)ring;
	return atomic_load(&arrived) != atomic_load(&taken);
}

static unsigned look_into(struct twi_ring *ring)
{
	twt_explore_check(ring == my_ring());
	return 0;
}

static unsigned count_ready(const struct twi_ring *ring)
{
	(void)ring;
	return 0;
}

/* Nothing but a wake or an arrival ends it. */
static void sleep_in(struct twi_ring *ring, uint64_t timeout_ns)
{
	(void)timeout_ns;
	twt_explore_check(ring == my_ring());
	atomic_store(&hushed[ring->index], false);
	if (!has_work(ring))
		twt_explore_receive(ring->wake_fd);
}

static void hush_ring(struct twi_ring *ring)
{
	atomic_store(&hushed[ring->index], true);
}

static const struct twi_poller poller = { .name = "deputy",
					  .look = look_into,
					  .ready = count_ready,
					  .has_work = has_work,
					  .sleep = sleep_in,
					  .hush = hush_ring };

void twi_ring_wake(struct twi_ring *ring)
{
	(void)send(ring->wake_fd, "", 1, 0);
}

int twi_engine_bind_ring(struct twi_engine *of)
{
	twi_self.binding = of->binding;
	of->ring = my_ring();
	return TOW_OK;
}

/* The network brings the end of an operation: whoever sleeps where it is armed is woken. */
static void bring_one(void)
{
	atomic_fetch_add(&arrived, 1);
	for (unsigned i = 0; i < THREADS; i++) {
		if (atomic_load(&armed[i]) && !atomic_load(&hushed[i]))
			twi_ring_wake(&rings[i]);
	}
}

/* --- the lane's deputy --- */

static void end_op(unsigned number)
{
	struct twi_waitable *op = &ops[number];

	twt_explore_check(++ends[number] == 1);
	atomic_store_explicit(&op->state, TWI_WAITABLE_DONE, memory_order_relaxed);
	twi_engine_tell(&engine, op);
}

static unsigned move_lane(struct twi_lane *of)
{
	unsigned events = 0;

	(void)of;
	inside++;
	for (unsigned i = 0; i < OPS; i++) {
		if ((left & 1u << i) == 0)
			continue;
		left &= ~(1u << i);
		end_op(i);
		events++;
	}
	/* It reads only where it is armed. */
	while (engine.ring != NULL && atomic_load(&armed[engine.ring->index]) && has_work(NULL)) {
		unsigned number = atomic_load(&taken);

		atomic_store(&taken, number + 1);
		end_op(number);
		events++;
	}
	return events;
}

static uint64_t next_due(struct twi_lane *of)
{
	(void)of;
	return UINT64_MAX;
}

static void flush_lane(struct twi_lane *of, bool acks_too)
{
	(void)of, (void)acks_too;
}

static void arm_ring(struct twi_lane *of)
{
	(void)of;
	atomic_store(&armed[engine.ring->index], true);
}

static const struct twi_lane_ops lane_ops = { .progress = move_lane,
					      .deadline_ns = next_due,
					      .flush = flush_lane,
					      .driver_changed = arm_ring };

/* --- what the engine has beside that: nothing of it is here --- */

static bool run_none(struct twi_engine *of)
{
	(void)of;
	return false;
}

static const struct twi_op_hooks op_hooks = { .run_callbacks = run_none };

void twi_engine_keep_in_step(struct twi_engine *of)
{
	(void)of;
}

bool twi_engine_may_drop_ring(const struct twi_engine *engine_in)
{
	(void)engine_in;
	return true;
}

void twi_engine_drop_ring(struct twi_engine *of, unsigned index)
{
	(void)of, (void)index;
}

void twi_pollers_fini(struct twi_engine *of)
{
	(void)of;
}

void twi_processes_init(struct twi_engine *of)
{
	of->processes.set = -1;
}

void twi_processes_look(struct twi_engine *of)
{
	(void)of;
}

void twi_processes_fini(struct twi_engine *of)
{
	(void)of;
}

void twi_processes_arm(struct twi_engine *of)
{
	(void)of;
}

void twi_pool_regions_settle(struct twi_pool *pool)
{
	(void)pool;
}

void twi_fd_set(struct twi_engine *of)
{
	(void)of;
}

void twi_background_wake(struct twi_engine *of)
{
	(void)of;
}

void twi_cpu_log_point(struct twi_cpu_log *log, int thread, bool polls, uint64_t now_ns)
{
	(void)thread;
	(void)polls;
	log->next_ns = now_ns + 1000u * 1000 * 1000;
}

/* --- the cases --- */

static void begin(void)
{
	memset(&engine, 0, sizeof(engine));
	twi_engine_init(&engine);
	engine.remote_barriers = barriers;
	engine.slices.above = 1000;
	engine.hooks.op = &op_hooks;
	lane = (struct twi_lane){ .ops = &lane_ops, .engine = &engine };
	engine.moving[0] = &lane;
	engine.lane_count = 1;
	for (unsigned i = 0; i < THREADS; i++) {
		rings[i] = (struct twi_ring){ .poller = &poller,
					      .engine = &engine,
					      .index = i,
					      .mark = i + 1,
					      .wake_fd = RING_FD + (int)i };
		engine.rings[i] = &rings[i];
		armed[i] = hushed[i] = false;
	}
	memset(ops, 0, sizeof(ops));
	memset(ends, 0, sizeof(ends));
	arrived = taken = 0;
	left = inside = 0;
}

static void begin_thread(unsigned number)
{
	twi_self = (struct twi_thread){ .mark = number + 1, .tid = (int)number + 1 };
}

/* A wait that has begun so long ago: a driver of less than 50 us keeps the lead. */
static void await_since(unsigned number, uint64_t ago_ns)
{
	twt_explore_check(twi_engine_wait(&engine, &ops[number], twi_engine_clock(&engine) - ago_ns,
					  TOW_FOREVER) == TOW_OK);
	twt_explore_check(twi_waitable_done(&ops[number]));
}

static void await_op(unsigned number)
{
	await_since(number, 0);
}

static void end_held(unsigned number)
{
	twi_engine_enter(&engine);
	inside++;
	end_op(number);
	twi_engine_leave(&engine);
}

/* At the end nobody holds, waits, sleeps or drives. */
static void end_all(void)
{
	twt_explore_check(engine.held == 0 && engine.wanted == 0 && engine.depth == 0);
	twt_explore_check(engine.waiters == 0 && engine.sleepers == 0 && engine.lingerers == 0);
	twt_explore_check(engine.driver == NULL && engine.sentry == NULL);
	twt_explore_check(twi_list_empty(&engine.waiting) && engine.any_waits == 0);
}

/* Who takes it has it alone, and everybody gets it. */
static void thread_enter(unsigned number)
{
	begin_thread(number);
	for (unsigned i = 0; i < 2; i++) {
		twi_engine_enter(&engine);
		inside++;
		twt_explore_check(engine.depth == 1 && engine.held == number + 1);
		twi_engine_leave(&engine);
	}
}

static void end_enter(void)
{
	twt_explore_check(inside == 2 * THREADS);
	end_all();
}

static void end_pair(void)
{
	twt_explore_check(inside == 4);
	end_all();
}

/* One waits; the other ends its operation within a call. */
static void thread_one(unsigned number)
{
	begin_thread(number);
	if (number == 0)
		await_op(0);
	else
		end_held(0);
}

/* Two wait, for operations that the third ends. */
static void thread_told(unsigned number)
{
	begin_thread(number);
	if (number < 2) {
		await_op(number);
		return;
	}
	end_held(1);
	end_held(0);
}

/* The network ends one after the other: whoever has driven has gone when the second comes. */
static void thread_network(unsigned number)
{
	begin_thread(number);
	if (number < 2) {
		await_op(number);
		return;
	}
	bring_one();
	bring_one();
}

/* One leaves something to who drives: nobody else does it. */
static void thread_left(unsigned number)
{
	begin_thread(number);
	if (number < 2) {
		await_op(number);
		return;
	}
	for (unsigned i = 0; i < 2; i++) {
		twi_engine_enter(&engine);
		left |= 1u << i;
		engine.armed_since_enter = true;
		twi_engine_leave(&engine);
	}
}

/* A wait for the first of two, beside one for the second alone. */
static void thread_any(unsigned number)
{
	struct twi_wait_entry entries[2] = { { .what = &ops[0] }, { .what = &ops[1] } };

	begin_thread(number);
	if (number == 0) {
		twt_explore_check(twi_engine_wait_any(&engine, entries, 2,
						      twi_engine_clock(&engine),
						      TOW_FOREVER) == TOW_OK);
		twt_explore_check(twi_waitable_done(&ops[0]) || twi_waitable_done(&ops[1]));
	} else if (number == 1) {
		await_op(1);
	} else {
		end_held(0);
		bring_one(); /* the end of operation 1: the one of 0 came by hand */
	}
}

static void begin_any(void)
{
	begin();
	arrived = taken = 1;
}

/* One that has waited for long lets the other drive, and is found when its operation ends. */
static void thread_senior(unsigned number)
{
	begin_thread(number);
	if (number == 0) {
		await_since(0, 1000000);
	} else if (number == 1) {
		await_op(1);
	} else {
		end_held(0);
		end_held(1);
	}
}

/*
 * Somebody drives who is in none of the threads, so that one that waits follows: else it takes a
 * preemption to bring that about.
 */
static void begin_driven(void)
{
	begin();
	somebody = (struct twi_wait){ .since_ns = UINT64_MAX / 2 };
	twi_engine_enter(&engine);
	twi_wait_begin(&engine, &somebody);
	atomic_store(&engine.driver, &somebody);
	twi_engine_leave(&engine);
	twi_self = (struct twi_thread){ 0 };
}

static void end_driven(void)
{
	twt_explore_check(engine.driver == &somebody && engine.waiters == 1);
	engine.driver = NULL;
	engine.waiters = 0;
	end_all();
}

/* Its frame is used again at once by the next wait. */
static void thread_follow(unsigned number)
{
	begin_thread(number);
	for (unsigned i = 0; i < 2; i++) {
		if (number == 0)
			await_op(i);
		else
			end_held(i);
	}
}

/* The driver goes: who follows takes its place, and hears of the network. */
static void thread_promoted(unsigned number)
{
	begin_thread(number);
	if (number == 0) {
		await_op(0);
		return;
	}
	twi_engine_enter(&engine);
	twi_wait_end(&engine, &somebody);
	twi_engine_leave(&engine);
	bring_one();
}

/* Likewise with two who follow, of whom one is asked to take its place. */
static void thread_heirs(unsigned number)
{
	begin_thread(number);
	if (number < 2) {
		await_op(number);
		return;
	}
	twi_engine_enter(&engine);
	twi_wait_end(&engine, &somebody);
	twi_engine_leave(&engine);
	bring_one();
	end_held(1);
}

/* --- */

struct bounds {
	unsigned threads, preemptions, stale;
};

static void explore(const char *name, void (*thread)(unsigned number), void (*first)(void),
		    void (*end)(void), const struct bounds *bounds)
{
	for (unsigned i = 0; i < 2; i++) {
		/* Three threads by fences, with stale reads, are half of all runs. */
		unsigned stale = i == 1 && bounds->threads > 2 ? 0 : bounds->stale;
		char words[96];
		const struct twt_explore_case what = { .name = words,
						       .threads = bounds->threads,
						       .begin = first,
						       .thread = thread,
						       .end = end,
						       .preemptions = bounds->preemptions,
						       .stale_reads = stale,
						       .polite = true };

		barriers = i == 0;
		snprintf(words, sizeof(words), "%s, by %s", name,
			 barriers ? "membarrier" : "fences");
		twt_explore_all(&what);
	}
}

#define CASE(name, threads, preemptions, stale, first, end)                                        \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		const struct bounds bounds = { threads, preemptions, stale };                      \
                                                                                                   \
		(void)state;                                                                       \
		explore(#name, thread_##name, first, end, &bounds);                                \
	}

CASE(enter, 3, 1, 1, begin, end_enter)
CASE(one, 2, 2, 1, begin, end_all)
CASE(told, 3, 1, 1, begin, end_all)
CASE(network, 3, 1, 1, begin, end_all)
CASE(left, 3, 1, 1, begin, end_all)
CASE(any, 3, 1, 1, begin_any, end_all)
CASE(senior, 3, 1, 1, begin, end_all)
CASE(follow, 2, 2, 1, begin_driven, end_driven)
CASE(promoted, 2, 2, 1, begin_driven, end_all)
CASE(heirs, 3, 1, 1, begin_driven, end_all)

static void test_enter_two(void **state)
{
	const struct bounds bounds = { 2, 2, 1 };

	(void)state;
	explore("two enter", thread_enter, begin, end_pair, &bounds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_enter_two), cmocka_unit_test(test_enter),
		cmocka_unit_test(test_one),       cmocka_unit_test(test_told),
		cmocka_unit_test(test_network),   cmocka_unit_test(test_left),
		cmocka_unit_test(test_any),       cmocka_unit_test(test_senior),
		cmocka_unit_test(test_follow),    cmocka_unit_test(test_promoted),
		cmocka_unit_test(test_heirs),
	};

	twt_explore_own(&twi_self, sizeof(twi_self));
	twt_explore_own(&twi_error_thread, sizeof(twi_error_thread));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
