/*
 * engine_drive.c - polls, spins and sleeps for a thread that waits. See engine.h.
 *
 * A waiter that has a core of its own spins for spin_ns, and then sleeps. A waiter that has none is
 * in the way of the very thread that it waits for. So once in a while (PROBE_NS) an idle spinner
 * yields, and measures how long that took. When another thread ran meanwhile, the machine counts as
 * crowded for CROWDED_NS. Then idle spinners yield at every turn: the other rank has its turn in a
 * microsecond.
 *
 * When the yield took long (HOG_NS), the thread that had the core belongs to another program. For
 * HOGGED_NS an idle waiter then sleeps after HOGGED_IDLE_NS, and does not yield before. A thread
 * that is woken gets the core sooner than one that has yielded it. To sleep at once would be better
 * still for ranks among themselves. For a pair that shares its cores with a compiler it would be
 * three times worse.
 */
#include "transport/engine/engine_drive.h"
#include "diag/base/cancel.h"
#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool_regions.h"
#include "transport/engine/poller.h"
#include "transport/lanes/lane.h"

#include <sched.h>

#ifndef GIVE_WAY_SPINS
#define GIVE_WAY_SPINS 20
#endif
#define SLEEP_MAX_NS (100ull * 1000 * 1000)
#ifndef SPIN_CLOCK
#define SPIN_CLOCK 8u /* turns between two looks at the clock */
#endif
#define MEMORY_TURNS    8u /* one of so many turns polls all lanes */
#define IDLE_NS         2000u
#define PROBE_NS        (1000u * 1000)
#define YIELDED_NS      10000u
#define CROWDED_NS      (10ull * 1000 * 1000)
#define HOG_NS          (500u * 1000)
#define HOGGED_NS       (100ull * 1000 * 1000)
#define HOGGED_IDLE_NS  20000u
#define CROWD_HOGGED_NS (5ull * 1000 * 1000)

/*
 * Drops the rings of ended threads that still await notifications: only the thread that sent would
 * get them. The leases go with the ring. That is safe: an operation in flight holds its memory
 * itself. Once it has ended, no receiver wants the bytes that are still on their way.
 */
static void drop_ended_rings(struct twi_engine *engine)
{
	if (twi_likely(engine->notices == engine->ring->notices))
		return;
	for (unsigned i = 0; i < TWI_RING_SLOTS; i++) {
		struct twi_ring *ring = engine->rings[i];

		if (ring != NULL && ring->notices > 0 &&
		    twi_thread_record_ended(engine->ring_threads[i]) &&
		    twi_engine_may_drop_ring(engine))
			twi_engine_drop_ring(engine, i);
	}
}

/* The holder's ring takes over: what is armed in other threads' rings is armed in it as well. */
static void change_driver(struct twi_engine *engine)
{
	twi_wait_relieve(engine);
	engine->armed_ring = engine->ring;
	for (unsigned i = 0; i < engine->lane_count; i++)
		engine->moving[i]->ops->driver_changed(engine->moving[i]);
	twi_processes_arm(engine);
}

static unsigned poll_ring(struct twi_engine *engine)
{
	twi_engine_keep_in_step(engine);
	twi_pool_regions_settle(engine->pool);
	drop_ended_rings(engine);
	return twi_ring_poll(engine->ring);
}

/* Reads the clock anew, so that no operation ends before its time. */
static inline void expire_due(struct twi_engine *engine)
{
	uint64_t now;

	engine->now_ns = 0;
	now = twi_engine_batch_now(engine);
	if (twi_unlikely(now >= engine->next_expiry_ns))
		engine->hooks.op->expire(engine, now);
}

/*
 * What every poll does after the lanes. `all`: it has polled all lanes, not the memory-polled
 * alone.
 */
static inline unsigned settle_poll(struct twi_engine *engine, unsigned events, bool all)
{
	if (!twi_list_empty(&engine->polled))
		events += twi_parts_poll(engine);
	if (all && twi_unlikely(engine->next_expiry_ns != UINT64_MAX))
		expire_due(engine);
	if (all)
		twi_processes_polled(engine, &engine->processes);
	twi_engine_run_callbacks(engine);
	/* The operation that has failed reports it, and not the call that happened to drive. */
	if (twi_unlikely(twi_error_thread.since_poll))
		twi_error_undo();
	return events;
}

static void begin_poll(struct twi_engine *engine, bool all)
{
	engine->now_ns = engine->turn_ns;
	engine->turn_ns = 0;
	if (twi_unlikely(engine->away.timed))
		twi_engine_look(engine, all);
	twi_error_thread.since_poll = false;
	if (twi_unlikely(engine->armed_ring != engine->ring) && engine->ring != NULL)
		change_driver(engine);
	if (atomic_load_explicit(&engine->driver, memory_order_relaxed) == NULL)
		engine->handoff.pause_ns = 0; /* a thread that tests or progresses will be back */
	twi_engine_count(engine->drives, 1);
}

unsigned twi_engine_poll(struct twi_engine *engine)
{
	TWI_UNCANCELED;
	unsigned events = 0;

	twi_assert_held(engine);
	begin_poll(engine, true);
	if (engine->ring != NULL)
		events += poll_ring(engine);
	if (events > 0)
		engine->now_ns = 0; /* bytes were copied, which took time */
	for (unsigned i = 0; i < engine->lane_count; i++)
		events += engine->moving[i]->ops->progress(engine->moving[i]);
	return settle_poll(engine, events, true);
}

/*
 * Only polls of all lanes check deadlines: to read the clock costs as much as a poll of these
 * lanes.
 */
unsigned twi_engine_poll_memory(struct twi_engine *engine)
{
	unsigned events = 0;

	twi_assert_held(engine);
	if ((engine->memory_peers == 0 || ++engine->turns % MEMORY_TURNS == 0) &&
	    twi_likely(engine->ring != NULL))
		return twi_engine_poll(engine);
	begin_poll(engine, false);
	for (unsigned i = 0; i < engine->lane_count; i++) {
		if (engine->moving[i]->ops->memory_polled)
			events += engine->moving[i]->ops->progress(engine->moving[i]);
	}
	return settle_poll(engine, events, false);
}

uint64_t twi_engine_next_deadline(struct twi_engine *engine, uint64_t until_ns)
{
	uint64_t next = twi_min(until_ns, engine->next_expiry_ns);

	twi_assert_held(engine);
	for (unsigned i = 0; i < engine->lane_count; i++) {
		uint64_t at = engine->moving[i]->ops->deadline_ns(engine->moving[i]);

		next = twi_min(next, at);
	}
	next = twi_processes_sleep(&engine->processes, next);
	return twi_list_empty(&engine->polled) ? next : twi_parts_deadline_ns(engine, next);
}

void twi_engine_flush(struct twi_engine *engine)
{
	twi_assert_held(engine);
	for (unsigned i = 0; i < engine->lane_count; i++)
		engine->moving[i]->ops->flush(engine->moving[i], true);
}

void twi_engine_flush_messages(struct twi_engine *engine)
{
	twi_assert_held(engine);
	for (unsigned i = 0; i < engine->lane_count; i++)
		engine->moving[i]->ops->flush(engine->moving[i], false);
}

/* Has the wait ended? relaxed, as in twi_waitable_done. `one`: it is for one operation. */
static inline bool has_ended(const struct twi_wait *wait, bool one)
{
	return one ? twi_waitable_done(wait->entries->what)
		   : atomic_load_explicit(&wait->ended, memory_order_relaxed);
}

/*
 * The driver gives the engine back, sleeps as the sentry, and takes it again. True: the wait has
 * ended, as in twi_wait_follow.
 */
static bool sleep_once(struct twi_engine *engine, struct twi_wait *wait, uint64_t until_ns)
{
	struct twi_ring *ring = engine->ring;
	uint64_t next, now;

	if (twi_unlikely(ring == NULL)) {
		if (has_ended(wait, wait->count == 1))
			return false; /* it ended while this thread gave way, and was on no list */
		atomic_store_explicit(&engine->driver, NULL, memory_order_relaxed);
		return twi_wait_follow(engine, wait, until_ns);
	}

	twi_engine_flush(engine);
	if (twi_engine_run_callbacks(engine))
		return false; /* they may have started what must be sent first */
	next = twi_engine_next_deadline(engine, until_ns);
	now = twi_engine_clock(engine);
	twi_clock_keep(now);
	twi_wait_watch(engine, wait, next);
	twi_engine_leave(engine);
	/* after sleepers++: a device that saw no sleeper has set its signal before this load */
	if (!has_ended(wait, wait->count == 1) && next > now &&
	    atomic_load_explicit(&engine->device_signal, memory_order_seq_cst) == 0)
		twi_ring_sleep(ring, twi_min(next - now, SLEEP_MAX_NS));
	twi_engine_enter(engine);
	twi_wait_watched(engine, wait);
	if (engine->away.timed) /* what came while it slept has ended the sleep */
		twi_engine_present(engine, twi_engine_clock(engine));
	return false;
}

struct spin {
	uint64_t since_ns; /* when something last happened */
	uint64_t now_ns;
	unsigned turns; /* until the clock is looked at again */
	bool memory;    /* what is waited for comes by a memory-polled lane */
	bool crowd;     /* more ranks than there are cores wait for it */
};

/* Is the waiter the driver? If not, it becomes the driver if it may. */
static bool try_lead(struct twi_engine *engine, struct twi_wait *wait)
{
	return twi_likely(atomic_load_explicit(&engine->driver, memory_order_relaxed) == wait) ||
	       twi_wait_take_lead(engine, wait);
}

/* Another thread had the engine for a while: binds the driver's ring again. */
static void lead_again(struct twi_engine *engine, struct twi_wait *wait)
{
	if (atomic_load_explicit(&engine->driver, memory_order_relaxed) == wait &&
	    !twi_slice_is_ringless(engine) && twi_engine_bind_ring(engine) < 0 &&
	    !twi_slice_lead_ringless(engine, wait))
		atomic_store_explicit(&engine->driver, NULL, memory_order_relaxed);
}

/* Lets the thread that asks have the engine, and takes it back after that. */
static void give_way(struct twi_engine *engine, struct twi_wait *wait)
{
	twi_engine_leave(engine);
	for (unsigned i = 0;
	     i < GIVE_WAY_SPINS && atomic_load_explicit(&engine->wanted, memory_order_relaxed) > 0;
	     i++)
		twi_pause_cpu();
	if (atomic_load_explicit(&engine->wanted, memory_order_relaxed) > 0)
		sched_yield(); /* it may wait for this very core */
	twi_engine_enter(engine);
	lead_again(engine, wait);
}

/*
 * Lets the threads that linger see what this poll has ended, and start what the next one moves.
 * False: it is better to sleep.
 */
static bool yield_to_lingerers(struct twi_engine *engine, struct twi_wait *wait, struct spin *spin,
			       bool events)
{
	twi_engine_leave(engine);
	sched_yield();
	twi_engine_enter(engine);
	lead_again(engine, wait);
	spin->now_ns = twi_engine_clock(engine);
	spin->turns = SPIN_CLOCK;
	if (events)
		spin->since_ns = spin->now_ns;
	return spin->now_ns - spin->since_ns < engine->knobs.spin_ns;
}

/*
 * Moves the virtual clock to the next deadline, as nothing will happen before. False: there is
 * none.
 */
static bool jump_clock(struct twi_engine *engine, uint64_t until_ns)
{
	uint64_t next;

	twi_engine_flush(engine);
	next = twi_engine_next_deadline(engine, until_ns);
	if (next == UINT64_MAX)
		return false;
	engine->virtual_ns = twi_max(next, engine->virtual_ns + 1);
	twi_engine_present(engine, engine->virtual_ns); /* the engine has slept until then */
	return true;
}

/*
 * An idle turn at `now_ns`: on a crowded machine other threads that want to run do so first. False:
 * it is better to sleep.
 */
static bool idle_turn(struct twi_engine *engine, uint64_t now_ns, uint64_t idle_ns)
{
	uint64_t after;

	if (now_ns < engine->hogged_until_ns) {
		twi_pause_cpu();
		return idle_ns < HOGGED_IDLE_NS;
	}
	if (now_ns >= engine->crowded_until_ns && now_ns < engine->probe_at_ns) {
		twi_pause_cpu();
		return true;
	}
	sched_yield();
	after = twi_engine_clock(engine);
	engine->probe_at_ns = after + PROBE_NS;
	if (after - now_ns >= YIELDED_NS)
		engine->crowded_until_ns = after + CROWDED_NS;
	if (after - now_ns >= HOG_NS)
		engine->hogged_until_ns = after + HOGGED_NS;
	return true;
}

/*
 * An idle turn while more ranks than cores wait for each other: the awaited rank may need this
 * core. So every turn yields, from the first on. When that took long, another program had the core.
 * Then for CROWD_HOGGED_NS it is better to sleep, as a thread that is woken gets the core sooner.
 * False: sleep.
 */
static bool yield_turn(struct twi_engine *engine, struct spin *spin)
{
	uint64_t now_ns = twi_engine_clock(engine);

	spin->turns = 1;
	spin->now_ns = now_ns;
	if (now_ns - spin->since_ns >= engine->knobs.spin_ns ||
	    now_ns < engine->crowd_hogged_until_ns)
		return false;
	sched_yield();
	spin->now_ns = twi_engine_clock(engine);
	if (spin->now_ns - now_ns >= HOG_NS)
		engine->crowd_hogged_until_ns = spin->now_ns + CROWD_HOGGED_NS;
	return true;
}

static void restart_spin(struct twi_engine *engine, struct spin *spin)
{
	spin->now_ns = spin->since_ns = twi_engine_clock(engine);
	spin->turns = SPIN_CLOCK;
}

/* One idle turn. False: it has been idle for long enough. */
static bool spin_turn(struct twi_engine *engine, struct spin *spin)
{
	uint64_t idle_ns;

	if (spin->crowd)
		return yield_turn(engine, spin);
	/*
	 * Reading the clock takes as long as a pause, so it stands in place of one. When something
	 * has come, the next poll has its time already. One turn in eight checks the time. A poll
	 * of sockets has a pause before it as well: it takes the sockets' locks, and the kernel
	 * waits for them when it delivers. That wait was a twentieth of a round trip over loopback.
	 */
	if (--spin->turns > 0) {
		if (!spin->memory)
			twi_pause_cpu();
		engine->seen_ns = engine->turn_ns = twi_engine_clock(engine);
		return true;
	}
	spin->turns = SPIN_CLOCK;
	spin->now_ns = twi_engine_clock(engine);
	idle_ns = spin->now_ns - spin->since_ns;
	if (twi_unlikely(twi_slices_on(&engine->slices)))
		return twi_slice_idle(engine, idle_ns);
	if (idle_ns >= engine->knobs.spin_ns)
		return false;
	return idle_ns < IDLE_NS || idle_turn(engine, spin->now_ns, idle_ns);
}

static inline void begin_spin(struct spin *spin, const struct twi_wait *wait, size_t count)
{
	*spin = (struct spin){ .now_ns = wait->since_ns,
			       .since_ns = wait->since_ns,
			       .turns = SPIN_CLOCK };
	for (size_t i = 0; i < count; i++) {
		const struct twi_waitable *what = wait->entries[i].what;

		spin->memory |= what->memory_polled;
		spin->crowd |= what->crowd;
	}
}

/*
 * If the word of the wait is TWI_WAIT_ENDED on return, it is off the lists, and the engine is not
 * held.
 */
static inline __attribute__((always_inline)) int
drive_wait(struct twi_engine *engine, struct twi_wait *wait, size_t count, uint64_t until_ns)
{
	struct spin spin;

	twi_assert_held(engine);
	begin_spin(&spin, wait, count);
	wait->memory = spin.memory;
	if (twi_likely(!engine->virtual_clock) &&
	    twi_unlikely(twi_cpu_log_wait(&engine->cpu_log, twi_self.tid, spin.since_ns)))
		twi_wait_log_mark(&engine->wait_log, engine->cpu_log.thread, &engine->step,
				  spin.since_ns);
	for (;;) {
		unsigned events;

		if (twi_unlikely(!try_lead(engine, wait))) {
			if (has_ended(wait, count == 1))
				return TOW_OK;
			if (spin.now_ns >= until_ns)
				return TOW_AGAIN;
			if (twi_wait_follow(engine, wait, until_ns))
				return TOW_OK;
			restart_spin(engine, &spin);
			continue;
		}
		events = spin.memory ? twi_engine_poll_memory(engine) : twi_engine_poll(engine);
		if (has_ended(wait, count == 1))
			return TOW_OK;
		if (spin.now_ns >= until_ns)
			return TOW_AGAIN;
		if (twi_unlikely(engine->slices.due_count > 0) &&
		    twi_slice_pass(engine, wait, spin.now_ns)) {
			if (twi_wait_follow(engine, wait, until_ns))
				return TOW_OK;
			restart_spin(engine, &spin);
		} else if (twi_unlikely(twi_engine_shared(engine))) {
			if (!yield_to_lingerers(engine, wait, &spin, events > 0) &&
			    try_lead(engine, wait)) {
				if (sleep_once(engine, wait, until_ns))
					return TOW_OK;
				restart_spin(engine, &spin);
			}
		} else if (atomic_load_explicit(&engine->wanted, memory_order_relaxed) > 0) {
			give_way(engine, wait);
			spin.now_ns = twi_engine_clock(engine);
		} else if (events > 0) {
			restart_spin(engine, &spin);
		} else if (twi_unlikely(engine->virtual_clock)) {
			if (!jump_clock(engine, until_ns))
				return TOW_AGAIN;
			restart_spin(engine, &spin);
		} else if (!spin_turn(engine, &spin)) {
			if (sleep_once(engine, wait, until_ns))
				return TOW_OK;
			restart_spin(engine, &spin);
		}
	}
}

/* Gives the engine back and yields: a thread was woken out of turn, and may need this core. */
static __attribute__((noinline)) void yield_to_favoured(struct twi_engine *engine)
{
	engine->slices.favoured = false;
	twi_engine_leave(engine);
	sched_yield();
}

/* Inlined twice, as most waits are for one operation: `count` is a constant there. */
static inline __attribute__((always_inline)) int wait_for(struct twi_engine *engine,
							  struct twi_wait_entry *entries,
							  size_t count, uint64_t now_ns,
							  uint64_t until_ns)
{
	struct twi_wait wait = { .entries = entries, .count = count, .since_ns = now_ns };
	int status;

	twi_engine_enter(engine);
	/* An operation may have ended before the wait could be put on its list. */
	for (size_t i = 0; i < count; i++) {
		if (twi_waitable_done(entries[i].what)) {
			twi_engine_leave(engine);
			return TOW_OK;
		}
	}
	twi_wait_begin(engine, &wait);
	status = drive_wait(engine, &wait, count, until_ns);
	if (twi_unlikely(atomic_load_explicit(&wait.word, memory_order_relaxed) == TWI_WAIT_ENDED))
		return status;
	twi_wait_end(engine, &wait);
	if (twi_unlikely(engine->slices.favoured))
		yield_to_favoured(engine);
	else
		twi_engine_leave(engine);
	return status;
}

int twi_engine_wait_any(struct twi_engine *engine, struct twi_wait_entry *entries, size_t count,
			uint64_t now_ns, uint64_t until_ns)
{
	return wait_for(engine, entries, count, now_ns, until_ns);
}

int twi_engine_wait(struct twi_engine *engine, struct twi_waitable *what, uint64_t now_ns,
		    uint64_t until_ns)
{
	struct twi_wait_entry entry = { .what = what };

	return wait_for(engine, &entry, 1, now_ns, until_ns);
}
