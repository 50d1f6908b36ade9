/*
 * engine.c - takes the engine, gives it back, and wakes sleepers. See engine.h.
 *
 * Taking the engine is one compare-and-swap; giving it back is a plain store. A thread that asks
 * for it counts itself in `wanted`. Before it sleeps, it counts itself in `parked` and makes all
 * threads pass a barrier (membarrier). The holder then sees `parked` when it gives the engine back,
 * or has given it back already. If the kernel has no such barrier, the store has a fence of its
 * own.
 */
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/held_count.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/engine/background.h"
#include "transport/engine/poller.h"

#define ASKED_NS 1000000u /* how long callbacks go on though a thread asks */

/*
 * After SPINS_BEFORE_YIELD turns a thread yields: the holder may need this core. Tests take fewer.
 */
#ifndef SPINS_BEFORE_YIELD
#define SPINS_BEFORE_YIELD 30
#define SPINS_BEFORE_FUTEX 40
#endif

static _Atomic uint64_t next_binding = 1;

static long futex_call(_Atomic uint32_t *word, int op, uint32_t value,
		       const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
}

static bool try_hold(struct twi_engine *engine, uint32_t mark)
{
	uint32_t none = 0;

	/* acquire: pairs with the release in engine_unhold; all of the engine is read after it */
	return atomic_load_explicit(&engine->held, memory_order_relaxed) == 0 &&
	       atomic_compare_exchange_strong_explicit(&engine->held, &none, mark,
						       memory_order_acquire, memory_order_relaxed);
}

static void engine_unhold(struct twi_engine *engine)
{
	uint32_t parked;

	if (twi_likely(engine->remote_barriers)) {
		atomic_store_explicit(&engine->held, 0, memory_order_release);
		atomic_signal_fence(memory_order_seq_cst); /* enter_slowly has the barrier */
		parked = atomic_load_explicit(&engine->parked, memory_order_relaxed);
	} else {
		atomic_store_explicit(&engine->held, 0, memory_order_seq_cst);
		parked = atomic_load_explicit(&engine->parked, memory_order_seq_cst);
	}
	if (twi_unlikely(parked > 0))
		futex_call(&engine->held, FUTEX_WAKE, 1, NULL);
}

bool twi_engine_in_callback(struct twi_engine *engine)
{
	return twi_engine_held(engine) && engine->in_callback;
}

/* The calling thread holds the engine from now on. */
static void begin_hold(struct twi_engine *engine, uint32_t mark)
{
	engine->depth = 1;
	twi_held_count_begin(engine, mark);
	engine->now_ns = engine->turn_ns = 0;
	twi_error_thread.since_poll = false;
}

bool twi_engine_try_enter(struct twi_engine *engine)
{
	uint32_t mark = twi_thread_mark();

	if (!try_hold(engine, mark))
		return false;
	begin_hold(engine, mark);
	return true;
}

/*
 * The calling thread is about to sleep until the engine is free: whoever gives the engine back
 * wakes it from now on. That costs a system call, so it is not done for threads that spin.
 */
static void begin_park(struct twi_engine *engine)
{
	atomic_fetch_add_explicit(&engine->parked, 1, memory_order_seq_cst);
	if (engine->remote_barriers)
		twi_barrier_all();
}

/* False: until_ns has passed, which is checked before each sleep. */
static bool enter_slowly(struct twi_engine *engine, uint32_t mark, uint64_t until_ns)
{
	const struct timespec slice = { .tv_nsec = 1000000 };
	bool held = true, parked = false;

	atomic_fetch_add_explicit(&engine->wanted, 1, memory_order_seq_cst);
	for (unsigned i = 0; held && !try_hold(engine, mark); i++) {
		uint32_t holder = atomic_load_explicit(&engine->held, memory_order_relaxed);

		if (i == SPINS_BEFORE_FUTEX) {
			begin_park(engine);
			parked = true;
		} else if (i <= SPINS_BEFORE_YIELD || (i > SPINS_BEFORE_FUTEX && holder == 0))
			twi_pause_cpu();
		else if (i <= SPINS_BEFORE_FUTEX)
			sched_yield();
		else if (until_ns != UINT64_MAX && twi_now_ns() >= until_ns)
			held = false;
		else
			futex_call(&engine->held, FUTEX_WAIT, holder, &slice);
	}
	atomic_fetch_sub_explicit(&engine->wanted, 1, memory_order_relaxed);
	if (parked)
		atomic_fetch_sub_explicit(&engine->parked, 1, memory_order_relaxed);
	return held;
}

bool twi_engine_enter_within(struct twi_engine *engine, uint64_t ns)
{
	uint32_t mark = twi_thread_mark();

	if (!try_hold(engine, mark)) {
		if (twi_engine_held(engine)) { /* from a callback */
			engine->depth++;
			return true;
		}
		if (!enter_slowly(engine, mark, twi_now_ns() + ns))
			return false;
	}
	begin_hold(engine, mark);
	return true;
}

void twi_engine_enter(struct twi_engine *engine)
{
	uint32_t mark = twi_thread_mark();

	if (twi_unlikely(!try_hold(engine, mark))) {
		if (twi_engine_held(engine)) { /* from a callback */
			engine->depth++;
			return;
		}
		enter_slowly(engine, mark, UINT64_MAX);
	}
	begin_hold(engine, mark);
}

/* Makes the threads that have a tow_fd look. */
static void wake_watchers(struct twi_engine *engine)
{
	if (twi_likely(atomic_load_explicit(&engine->watchers, memory_order_relaxed) == 0))
		return;
	for (unsigned i = 0; i < TWI_RINGS_MAX; i++) {
		struct twi_ring *ring = engine->rings[i];

		if (ring != NULL && ring != engine->ring && ring->watched)
			twi_ring_wake(ring);
	}
}

/*
 * Has this holder left something that comes due before the thread that sleeps would look by itself?
 * The lanes, the devices and the collectives are asked, not the call that was made. So work of any
 * kind shows. It costs as much as an idle poll, so it is asked only while no thread drives.
 */
static bool due_earlier(struct twi_engine *engine)
{
	return twi_engine_next_deadline(engine, UINT64_MAX) < engine->alarm_ns;
}

/*
 * Threads sleep, in a wait or on a tow_fd. They take on what this holder leaves, and what is armed
 * in its ring alone, which goes to sleep now.
 */
static void wake_for_leftovers(struct twi_engine *engine, bool armed)
{
	bool watched = atomic_load_explicit(&engine->watchers, memory_order_relaxed) > 0;
	bool driven = atomic_load_explicit(&engine->driver, memory_order_relaxed) != NULL;
	bool guarded = atomic_load_explicit(&engine->sentry, memory_order_relaxed) != NULL;
	bool news;

	if (driven && !watched)
		return; /* the driver is back in a moment */
	news = armed || ((watched || guarded) && due_earlier(engine));
	if (news)
		wake_watchers(engine);
	twi_wait_cover(engine, news);
}

bool twi_engine_unattended(const struct twi_engine *engine)
{
	twi_assert_held(engine);
	return atomic_load_explicit(&engine->waiters, memory_order_relaxed) == 0 &&
	       atomic_load_explicit(&engine->watchers, memory_order_relaxed) == 0 &&
	       (twi_handoff_held_ns(&engine->handoff) != 0 || engine->handoff.served > 0 ||
		engine->hooks.op->in_flight(engine) > 0);
}

/* Does the thread that leaves hand over to the library's, which naps? */
static bool hands_over(const struct twi_engine *engine)
{
	return twi_handoff_expected(&engine->handoff) && twi_engine_unattended(engine);
}

/* Does the library's thread sleep while something is left to it now? */
static bool background_needed(struct twi_engine *engine, bool armed)
{
	switch (atomic_load_explicit(&engine->background_asleep, memory_order_relaxed)) {
	case TWI_BG_ASLEEP:
		return armed || engine->armed_ring != engine->rings[TWI_RING_BACKGROUND] ||
		       due_earlier(engine);
	case TWI_BG_NAPPING:
		return hands_over(engine);
	case TWI_BG_DOZING:
		return !twi_wait_covered(engine);
	default:
		return false;
	}
}

/* Leaves to other threads what this holder has not done. */
static void leave_undone(struct twi_engine *engine)
{
	bool armed = engine->armed_since_enter;

	engine->armed_since_enter = false;
	if (atomic_load_explicit(&engine->sleepers, memory_order_relaxed) > 0)
		wake_for_leftovers(engine, armed);
	if (twi_unlikely(background_needed(engine, armed)))
		twi_background_wake(engine);
	if (twi_unlikely(atomic_load_explicit(&engine->watchers, memory_order_relaxed) > 0)) {
		twi_fd_set(engine);
		/* Nothing waits, and the descriptor shows what comes from now on. */
		if (engine->away.timed && engine->ring != NULL && engine->ring->watched &&
		    !twi_ring_has_work(engine->ring))
			twi_engine_present(engine, twi_engine_clock(engine));
	}
}

void twi_engine_leave(struct twi_engine *engine)
{
	if (engine->depth > 1) {
		engine->depth--;
		return;
	}
	twi_engine_run_callbacks(engine);
	if (engine->ring != NULL && engine->ring->unsubmitted > 0) {
		twi_ring_submit(engine->ring); /* a request left unsubmitted would run late */
		if (twi_ring_ready(engine->ring) > 0)
			engine->armed_since_enter = true; /* it has completed: a sleeper reaps it */
	}
	leave_undone(engine);
	if (engine->ring != NULL) /* collectives that were asked for their deadline have moved */
		twi_ring_submit(engine->ring);
	engine->ring = NULL;
	engine->depth = 0;
	engine_unhold(engine);
}

bool twi_engine_is_asked(struct twi_engine *engine, uint64_t *since_ns)
{
	uint64_t now;

	twi_assert_held(engine);
	if (twi_likely(atomic_load_explicit(&engine->wanted, memory_order_relaxed) == 0) ||
	    engine->failing)
		return false;
	now = twi_engine_clock(engine);
	*since_ns = *since_ns == 0 ? now : *since_ns;
	if (now - *since_ns < ASKED_NS)
		return false;
	engine->armed_since_enter = true; /* the thread that asks may have given up */
	return true;
}

void twi_engine_wake(struct twi_engine *engine)
{
	twi_assert_held(engine);
	wake_watchers(engine);
	twi_wait_cover(engine, true);
}

void twi_engine_tell(struct twi_engine *engine, struct twi_waitable *what)
{
	twi_assert_held(engine);
	if (what->waits != NULL)
		twi_wait_tell(engine, what);
	wake_watchers(engine);
}

void twi_engine_rebind(struct twi_engine *engine)
{
	engine->binding = atomic_fetch_add_explicit(&next_binding, 1, memory_order_relaxed);
}

void twi_engine_init(struct twi_engine *engine)
{
	twi_thread_setup();
	engine->remote_barriers = twi_barrier_setup();
	twi_list_init(&engine->callbacks);
	twi_list_init(&engine->queues);
	twi_list_init(&engine->endpoints);
	twi_list_init(&engine->peers);
	twi_parts_init(engine);
	twi_identity_self(&engine->self);
	twi_processes_init(engine);
	twi_list_init(&engine->coll_groups);
	twi_list_init(&engine->series);
	twi_list_init(&engine->foreign_groups);
	twi_list_init(&engine->formings);
	twi_list_init(&engine->waiting);
	twi_list_init(&engine->coll_batches);
	twi_slice_init(&engine->slices);
	engine->next_expiry_ns = UINT64_MAX;
	engine->fork_generation = twi_fork_generation();
	engine->features = twi_features_built();
	twi_handoff_init(&engine->handoff);
	twi_engine_rebind(engine);
}

void twi_engine_fini(struct twi_engine *engine)
{
	for (unsigned i = 0; i < TWI_RING_SLOTS; i++) {
		if (engine->rings[i] != NULL)
			twi_engine_drop_ring(engine, i);
	}
	twi_processes_fini(engine);
	twi_pollers_fini(engine);
	if (twi_self.binding == engine->binding)
		twi_self.binding = 0;
}
