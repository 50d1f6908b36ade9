/*
 * background.c - the states of the library's thread. See background.h.
 */
#include "transport/engine/background.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/base/thread.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/poller.h"
#include "transport/lanes/lane.h"

#define TICK_NS       1000000u
#define TICK_MAX_NS   8000000u
#define TICK_LEAST_NS 500000u
#define CALM_TICKS    32u /* without an absence that nobody expected, until ticks grow again */
#define DOZE_TICKS    8u
#define SLEEP_MAX_NS  (1000ull * 1000 * 1000)
#define GIVE_WAY_SPIN 500u
#define GIVE_WAY_NS   20000u /* the kernel adds its slack, 50 us by default */
#define OWNER_SPIN    60u    /* in this time an owner that exchanges begins another wait */
#define RARE_TICKS    8u     /* between two looks at rings where nothing is urgent */

struct twi_background {
	struct twi_engine *engine;
	pthread_t thread;
	sem_t settled; /* it has its ring, or will never have one */
	_Atomic uint32_t stop;
	struct twi_ring *ring;
	uint64_t drives;          /* engine->drives when it looked last */
	uint64_t waits;           /* engine->waits when it looked last */
	unsigned same_wait_ticks; /* ticks in which the same wait went on */
	unsigned ticks;           /* since it polled rings for an owner without one */
	bool urgent;              /* at that poll messages came by rings, or deadlines stood */
	uint64_t tick_ns, tick_most_ns;
	unsigned calm_ticks; /* since a caller had left something alone, or tick_most_ns grew */
	uint32_t notices;    /* zero-copy notices that its ring must fetch */
	uint64_t due_ns;     /* the deadline that it sleeps for */
	uint64_t awake_ns;   /* when its last sleep ended; 0: that is passed on */
};

bool twi_background_self(const struct twi_engine *engine)
{
	/* relaxed: only a mark that this thread itself has stored matters */
	uint32_t mark = atomic_load_explicit(&engine->background_mark, memory_order_relaxed);

	return mark != 0 && mark == twi_self.mark;
}

void twi_background_wake(struct twi_engine *engine)
{
	struct twi_ring *ring = engine->rings[TWI_RING_BACKGROUND];

	twi_assert_held(engine);
	/* Once is enough: it looks at everything. */
	atomic_store_explicit(&engine->background_asleep, TWI_BG_AWAKE, memory_order_relaxed);
	if (ring != NULL)
		twi_ring_wake(ring);
}

static bool is_stopped(const struct twi_background *bg)
{
	return atomic_load_explicit(&bg->stop, memory_order_acquire) != 0;
}

static uint64_t waits_begun(const struct twi_background *bg)
{
	return atomic_load_explicit(&bg->engine->waits, memory_order_relaxed);
}

/* Does the owner of the slice exchange at this very moment? The engine need not be taken to ask. */
static bool owner_exchanges(const struct twi_background *bg)
{
	uint64_t before = waits_begun(bg);

	for (unsigned i = 0; i < OWNER_SPIN; i++) {
		if (waits_begun(bg) != before)
			return true;
		twi_pause_cpu();
	}
	return false;
}

/* Has the last caller been away for long, though nobody expected that, and left something alone? */
static bool is_deserted(const struct twi_background *bg)
{
	uint64_t late_ns = twi_min(bg->tick_most_ns, (uint64_t)TWI_HANDOFF_LATE_NS);
	bool found;

	if (!twi_handoff_overdue(&bg->engine->handoff, twi_now_ns(), late_ns) ||
	    !twi_engine_try_enter(bg->engine))
		return false;
	found = twi_engine_unattended(bg->engine);
	twi_engine_leave(bg->engine);
	if (found)
		twi_handoff_suspect(&bg->engine->handoff);
	return found;
}

/* Has a caller driven since this was asked last, or is it about to? */
static bool callers_drive(struct twi_background *bg)
{
	uint64_t drives = atomic_load_explicit(&bg->engine->drives, memory_order_relaxed);
	bool driven = drives != bg->drives;

	bg->drives = drives;
	if (driven && is_deserted(bg))
		driven = false;
	if (twi_slices_on(&bg->engine->slices) &&
	    atomic_load_explicit(&bg->engine->sleepers, memory_order_relaxed) > 0)
		driven = owner_exchanges(bg); /* the owner may have left */
	return driven || twi_wait_covered(bg->engine);
}

static unsigned own_poll(struct twi_engine *engine)
{
	bool held = twi_handoff_held_ns(&engine->handoff) != 0;
	unsigned events;

	engine->own_polls++; /* only the holder writes it */
	events = twi_engine_poll(engine);
	if (held && twi_handoff_held_ns(&engine->handoff) == 0)
		twi_handoff_relieve(&engine->handoff);
	return events;
}

/* Waits for a wake. Events of the ring do not end it, as other threads drive. */
static void background_nap(const struct twi_background *bg, uint64_t ns)
{
	struct pollfd fd = { .fd = bg->ring->wake_fd, .events = POLLIN };
	struct timespec ts = {
		.tv_sec = (time_t)(ns / 1000000000u),
		.tv_nsec = (long)(ns % 1000000000u),
	};
	uint64_t drained;

	if (!is_stopped(bg) && ppoll(&fd, 1, &ts, NULL) == 1)
		(void)!read(fd.fd, &drained, sizeof(drained));
}

/*
 * The same, but a thread that leaves for long may end it, to hand over. This thread takes over then
 * unless another one drives by that time. One that left just before has woken nobody.
 */
static void nap_until_handed(struct twi_background *bg, uint64_t ns)
{
	struct twi_engine *engine = bg->engine;

	atomic_store_explicit(&engine->background_asleep, TWI_BG_NAPPING, memory_order_seq_cst);
	if (twi_handoff_expected(&engine->handoff) && twi_engine_try_enter(engine))
		twi_engine_leave(engine); /* hands over in the place of the one that left */
	background_nap(bg, ns);
	if (atomic_load_explicit(&engine->background_asleep, memory_order_relaxed) == TWI_BG_AWAKE)
		bg->drives = atomic_load_explicit(&engine->drives, memory_order_relaxed);
	atomic_store_explicit(&engine->background_asleep, TWI_BG_AWAKE, memory_order_relaxed);
}

/* Binds the ring, which need not be the one that is armed. */
static bool bind_own(struct twi_engine *engine)
{
	if (twi_engine_bind_ring(engine) == TOW_OK)
		return true;
	twi_engine_leave(engine);
	return false;
}

static bool try_enter(const struct twi_background *bg)
{
	return twi_engine_try_enter(bg->engine) && bind_own(bg->engine);
}

/* The same, but waits for a thread that only starts something, and is not about to drive. */
static bool enter_handed(const struct twi_background *bg)
{
	struct twi_engine *engine = bg->engine;

	return (twi_engine_try_enter(engine) || (twi_handoff_expected(&engine->handoff) &&
						 twi_engine_enter_within(engine, TICK_NS))) &&
	       bind_own(engine);
}

/*
 * Fetches notifications that come to this thread alone. If there are none, it keeps out of the
 * callers' way.
 */
static void fetch_notices(struct twi_background *bg)
{
	if (bg->notices == 0 || !try_enter(bg))
		return;
	twi_ring_poll(bg->ring);
	bg->notices = bg->ring->notices;
	twi_engine_leave(bg->engine);
}

/* The same wait goes on and on: sleeps without a tick until it is over. */
static void background_doze(struct twi_background *bg)
{
	struct twi_engine *engine = bg->engine;

	if (!twi_engine_try_enter(engine)) {
		background_nap(bg, bg->tick_ns); /* the waiter is in a long turn */
		return;
	}
	if (twi_wait_covered(engine))
		atomic_store_explicit(&engine->background_asleep, TWI_BG_DOZING,
				      memory_order_relaxed);
	twi_engine_leave(engine);
	if (twi_wait_covered(engine))
		background_nap(bg, SLEEP_MAX_NS);
	atomic_store_explicit(&engine->background_asleep, TWI_BG_AWAKE, memory_order_relaxed);
}

/* Is there a deadline, or a peer whose messages come by a ring? */
static bool is_urgent(const struct twi_engine *engine)
{
	for (unsigned i = 0; i < engine->lane_count; i++) {
		if (!engine->moving[i]->ops->memory_polled && engine->moving[i]->peers > 0)
			return true;
	}
	return engine->next_expiry_ns != UINT64_MAX;
}

/*
 * Polls all lanes for the owner of a slice that has no ring. The owner polls the memory-polled
 * lanes alone, and ends nothing at a deadline. Each such poll takes the engine from it, and costs
 * the exchange of two processes 10 us.
 */
static void poll_rings(struct twi_background *bg)
{
	struct twi_engine *engine = bg->engine;

	if (!twi_slices_ringless(&engine->slices) || (++bg->ticks < RARE_TICKS && !bg->urgent))
		return;
	bg->ticks = 0;
	twi_engine_enter(engine); /* the driver gives way */
	bg->urgent = is_urgent(engine);
	if (twi_slices_ringless(&engine->slices) && twi_engine_bind_ring(engine) == TOW_OK) {
		own_poll(engine);
		bg->drives++; /* that poll was no caller's */
	}
	twi_engine_leave(engine);
}

static void background_tick(struct twi_background *bg)
{
	uint64_t waits = waits_begun(bg);

	bg->same_wait_ticks =
		twi_wait_covered(bg->engine) && waits == bg->waits ? bg->same_wait_ticks + 1 : 0;
	bg->waits = waits;
	fetch_notices(bg);
	poll_rings(bg);
	if (bg->same_wait_ticks > DOZE_TICKS && bg->notices == 0) {
		background_doze(bg);
		return;
	}
	/* Threads asleep in a wait rely on this one to see early that no thread drives any more. */
	if (atomic_load_explicit(&bg->engine->sleepers, memory_order_relaxed) > 0)
		bg->tick_ns = twi_min(TICK_NS, bg->tick_most_ns);
	nap_until_handed(bg, bg->notices > 0 ? TICK_NS : bg->tick_ns);
	/* A caller that was away is so again. Short ticks cost those that drive up to a tenth. */
	if (twi_handoff_deserts(&bg->engine->handoff)) {
		bg->tick_most_ns = TICK_LEAST_NS;
		bg->calm_ticks = 0;
	} else if (++bg->calm_ticks >= CALM_TICKS) {
		bg->calm_ticks = 0;
		bg->tick_most_ns = twi_min(bg->tick_most_ns * 2, TICK_MAX_NS);
	}
	/*
	 * Callers that have driven for longer may pause for longer; a tick costs them 10 to 50 us.
	 */
	bg->tick_ns = twi_min(bg->tick_ns * 2, bg->tick_most_ns);
}

/* A caller wants the engine: to start something, after which this thread goes on, or to drive. */
static void give_way(struct twi_background *bg)
{
	struct twi_engine *engine = bg->engine;

	bg->drives = atomic_load_explicit(&engine->drives, memory_order_relaxed);
	bg->notices = bg->ring->notices;
	twi_engine_leave(engine);
	for (unsigned i = 0; i < GIVE_WAY_SPIN; i++) {
		if (atomic_load_explicit(&engine->wanted, memory_order_relaxed) == 0 &&
		    atomic_load_explicit(&engine->held, memory_order_relaxed) == 0)
			return;
		twi_pause_cpu();
	}
	/* It lacks a core, perhaps this one, or starts something large. */
	if (twi_handoff_expected(&engine->handoff))
		background_nap(bg, GIVE_WAY_NS);
	else
		nap_until_handed(bg, TICK_NS);
}

/* Is there work for the thread, or was it only woken because callers have come? */
static bool has_cause(const struct twi_background *bg)
{
	return twi_ring_has_work(bg->ring) || twi_now_ns() >= bg->due_ns ||
	       atomic_load_explicit(&bg->engine->device_signal, memory_order_relaxed) != 0;
}

static bool was_woken(const struct twi_background *bg)
{
	return atomic_load_explicit(&bg->engine->background_asleep, memory_order_relaxed) !=
		       TWI_BG_ASLEEP ||
	       is_stopped(bg);
}

/* Sleeps until something comes. Meanwhile it looks at the thread that may wait for a report. */
static void sleep_looking(struct twi_background *bg, uint64_t now_ns)
{
	uint64_t end_ns = twi_min(bg->due_ns, now_ns + SLEEP_MAX_NS), ns, until_ns;

	do {
		ns = twi_min(end_ns - now_ns, twi_told_peek_in(bg->engine, now_ns));
		until_ns = now_ns + ns;
		twi_ring_sleep(bg->ring, ns);
		now_ns = twi_now_ns();
		if (now_ns < until_ns || was_woken(bg) || has_cause(bg))
			return;
		twi_told_peek(bg->engine, now_ns);
	} while (now_ns < end_ns);
}

/* Everything is armed in its ring: gives the engine back, and sleeps until something comes. */
static void sleep_armed(struct twi_background *bg)
{
	struct twi_engine *engine = bg->engine;
	uint64_t now = twi_now_ns();

	twi_clock_keep(now);
	bg->due_ns = twi_engine_next_deadline(engine, UINT64_MAX);
	bg->drives = atomic_load_explicit(&engine->drives, memory_order_relaxed);
	bg->notices = bg->ring->notices;
	engine->armed_since_enter = false;
	engine->alarm_ns = bg->due_ns;
	/* seq_cst: a device's thread sets its signal and then looks here */
	atomic_store_explicit(&engine->background_asleep, TWI_BG_ASLEEP, memory_order_seq_cst);
	twi_engine_leave(engine);
	if (!is_stopped(bg) && bg->due_ns > now &&
	    atomic_load_explicit(&engine->device_signal, memory_order_seq_cst) == 0)
		sleep_looking(bg, now);
	bg->awake_ns = twi_now_ns();
	atomic_store_explicit(&engine->background_asleep, TWI_BG_AWAKE, memory_order_relaxed);
	/*
	 * A thread with a tow_fd was woken, too, and goes first. If this thread has no cause of its
	 * own, it was woken for a message that waits for more messages: it lets that message wait.
	 */
	if (atomic_load_explicit(&engine->watchers, memory_order_relaxed) > 0) {
		if (has_cause(bg))
			twi_told_missed(engine, bg->drives);
		background_nap(bg, TICK_NS);
	} else if (!has_cause(bg) && !twi_handoff_expected(&engine->handoff)) {
		nap_until_handed(bg, TICK_NS);
	}
}

/* Naps: the owner of the slice has just exchanged, or was woken to do so. */
static void await_owner(struct twi_background *bg)
{
	uint64_t before = waits_begun(bg);

	background_nap(bg, TWI_SLICE_AWAY_NS);
	if (waits_begun(bg) != before)
		background_nap(bg, TICK_NS);
}

static void take_over(struct twi_background *bg)
{
	struct twi_engine *engine = bg->engine;

	bg->tick_ns = twi_min(TICK_NS, bg->tick_most_ns);
	if (!enter_handed(bg)) {
		nap_until_handed(bg, TICK_NS);
		return;
	}
	if (bg->tick_most_ns < TICK_MAX_NS &&
	    twi_handoff_overdue(&engine->handoff, twi_now_ns(), TICK_LEAST_NS / 2) &&
	    !twi_handoff_expected(&engine->handoff) && twi_engine_unattended(engine))
		twi_handoff_suspect(&engine->handoff); /* so ticks stay short */
	twi_engine_present(engine, bg->awake_ns);
	bg->awake_ns = 0;
	if (twi_slice_owner_comes(engine)) {
		twi_engine_leave(engine);
		await_owner(bg);
		return;
	}
	if (twi_slice_owner_away(engine)) {
		twi_engine_leave(engine);
		background_nap(bg, TWI_SLICE_AWAY_NS);
		return;
	}
	if (!twi_list_empty(&engine->waiting) && twi_wait_promote(engine)) {
		twi_engine_leave(engine);
		/* the waiter drives for itself: that saves a change of threads */
		nap_until_handed(bg, twi_slices_on(&engine->slices) ? TWI_SLICE_AWAY_NS : TICK_NS);
		return;
	}
	for (;;) {
		unsigned events = own_poll(engine);

		if (atomic_load_explicit(&engine->wanted, memory_order_relaxed) > 0) {
			give_way(bg);
			return;
		}
		if (events > 0)
			continue;
		twi_engine_flush(engine);
		if (!twi_engine_run_callbacks(engine))
			break;
	}
	sleep_armed(bg);
}

static bool begin_driving(struct twi_background *bg)
{
	struct twi_engine *engine = bg->engine;
	int status;

	atomic_store_explicit(&engine->background_mark, twi_thread_mark(), memory_order_relaxed);
	twi_engine_enter(engine);
	status = twi_engine_bind_ring(engine);
	bg->ring = engine->ring;
	if (status < 0)
		twi_log(engine->diag, 2, "nothing moves in the background: %s",
			tow_error_message());
	twi_engine_leave(engine);
	atomic_store_explicit(&engine->backed, status == TOW_OK, memory_order_relaxed);
	return status == TOW_OK;
}

static void *background_run(void *arg)
{
	struct twi_background *bg = arg;

	bool begun = begin_driving(bg);

	sem_post(&bg->settled);
	if (!begun)
		return NULL;
	while (!is_stopped(bg)) {
		if (callers_drive(bg))
			background_tick(bg);
		else
			take_over(bg);
	}
	return NULL;
}

bool twi_background_start(struct twi_engine *engine)
{
	struct twi_background *bg;
	int err;

	twi_assert_held(engine);
	if (engine->background != NULL || engine->virtual_clock || !engine->knobs.background)
		return false;
	bg = calloc(1, sizeof(*bg));
	if (bg == NULL)
		return false; /* the next endpoint tries again */
	bg->engine = engine;
	bg->tick_ns = TICK_NS;
	bg->tick_most_ns = TICK_MAX_NS;
	sem_init(&bg->settled, 0, 0);
	err = twi_thread_start(&bg->thread, "towline", 0, background_run, bg);
	if (err != 0) {
		twi_log(engine->diag, 2, "nothing moves in the background: pthread_create: %s",
			strerrordesc_np(err));
		sem_destroy(&bg->settled);
		free(bg);
		return false;
	}
	engine->background = bg;
	return true;
}

void twi_background_settle(struct twi_engine *engine)
{
	if (twi_engine_in_callback(engine))
		return; /* the new thread waits for the engine, which this one has */
	while (sem_wait(&engine->background->settled) != 0 && errno == EINTR)
		;
}

void twi_background_stop(struct twi_engine *engine)
{
	struct twi_background *bg = engine->background;

	if (bg == NULL)
		return;
	atomic_store_explicit(&bg->stop, 1, memory_order_release);
	twi_engine_enter(engine); /* its ring is there, or it sees `stop` after it has made it */
	twi_background_wake(engine);
	twi_engine_leave(engine);
	pthread_join(bg->thread, NULL);
	atomic_store_explicit(&engine->backed, false, memory_order_relaxed);
	engine->background = NULL;
	twi_told_close(&engine->told);
	sem_destroy(&bg->settled);
	free(bg);
}
