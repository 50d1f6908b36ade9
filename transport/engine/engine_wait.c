/*
 * engine_wait.c - drivers, sentries and followers. See engine_wait.h.
 */
#include "transport/engine/engine_wait.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "transport/engine/background.h"
#include "transport/engine/engine.h"
#include "transport/engine/poller.h"
#include "transport/engine/waitable.h"

#define SENIOR_NS       (50u * 1000)
#define SENIOR_AMONG_NS (1000u * 1000) /* while others linger, or have slices: each has its turn */
#define LINGER_SPINS    20u            /* times spin_ns: other threads have their turns meanwhile */
#define ORPHANED_NS     (20u * 1000)   /* without a driver for so long, a lingerer becomes one */
#define HOG_NS          (500u * 1000)  /* in a yield this long another program keeps the core */
#define HOGGED_NS       (100ull * 1000 * 1000)
#define PAYS_MOST       4   /* of linger_pays: how soon lingering stops when it does not pay */
#define PAYS_LEAST      -64 /* and after how many waits it is tried again */
#define LAZY_NS         (100u * 1000)
#define DENIED_NS       (100ull * 1000 * 1000)  /* until a ring is asked for again */
#define FOLLOW_NS       (1000ull * 1000 * 1000) /* a follower looks from time to time */
#define UNCOVERED_NS    (1000u * 1000)          /* likewise, where no other thread would look */

static struct twi_wait *driver_of(struct twi_engine *engine)
{
	return atomic_load_explicit(&engine->driver, memory_order_relaxed);
}

static struct twi_wait *sentry_of(struct twi_engine *engine)
{
	return atomic_load_explicit(&engine->sentry, memory_order_relaxed);
}

bool twi_wait_covered(struct twi_engine *engine)
{
	return driver_of(engine) != NULL || sentry_of(engine) != NULL;
}

/* An operation may be named several times, and is linked once. */
static void link_entry(struct twi_wait *wait, struct twi_wait_entry *entry)
{
	struct twi_waitable *what = entry->what;

	entry->wait = NULL;
	if (what->waits != NULL && what->waits->wait == wait)
		return;
	entry->wait = wait;
	entry->next = what->waits;
	what->waits = entry;
}

/* Puts a wait on the lists, where other threads find it. */
static void enlist_wait(struct twi_engine *engine, struct twi_wait *wait)
{
	if (wait->listed)
		return;
	wait->listed = true;
	/* Waits that can take over at once stand in front. */
	if (wait->ringed)
		twi_list_push_front(&engine->waiting, &wait->link);
	else
		twi_list_push_back(&engine->waiting, &wait->link);
	for (size_t i = 0; i < wait->count; i++)
		link_entry(wait, &wait->entries[i]);
}

void twi_wait_begin(struct twi_engine *engine, struct twi_wait *wait)
{
	twi_assert_held(engine);
	wait->mark = twi_self.mark;
	wait->ringed = twi_self.binding == engine->binding;
	if (twi_unlikely(wait->count > 1)) { /* its end is noted when one operation ends */
		engine->any_waits++;
		enlist_wait(engine, wait);
	}
	twi_engine_count(engine->waiters, 1);
	twi_engine_count(engine->waits, 1);
	if (engine->handoff.deserted_ns != 0 && wait->since_ns >= engine->handoff.deserted_ns)
		engine->handoff.pause_ns = wait->since_ns - engine->handoff.deserted_ns;
	engine->handoff.deserted_ns = 0;
	twi_handoff_back(&engine->handoff, wait->since_ns);
}

static void unlink_entry(const struct twi_wait_entry *entry)
{
	struct twi_wait_entry **at = &entry->what->waits;

	while (*at != NULL && *at != entry)
		at = &(*at)->next;
	if (*at != NULL) /* else its callback has released it, and the row is another's */
		*at = entry->next;
}

static void unlist_wait(struct twi_engine *engine, struct twi_wait *wait)
{
	for (size_t i = 0; i < wait->count; i++) {
		if (wait->entries[i].wait != NULL)
			unlink_entry(&wait->entries[i]);
	}
	engine->any_waits -= wait->count > 1;
	twi_list_remove(&wait->link);
}

void twi_wait_end(struct twi_engine *engine, struct twi_wait *wait)
{
	twi_assert_held(engine);
	if (twi_unlikely(wait->listed))
		unlist_wait(engine, wait);
	twi_assert_hot(atomic_load_explicit(&engine->waiters, memory_order_relaxed) > 0);
	twi_engine_count(engine->waiters, (uint32_t)-1);
	if (driver_of(engine) != wait)
		return;
	atomic_store_explicit(&engine->driver, NULL, memory_order_relaxed);
	if (!twi_list_empty(&engine->waiting))
		engine->handoff.deserted_ns = twi_engine_batch_now(engine);
	else
		twi_handoff_leave(&engine->handoff, TWI_LEFT_ENDED, twi_engine_seen(engine));
}

/* How long a driver must have waited to let a new one drive. */
static uint64_t senior_ns(struct twi_engine *engine)
{
	return twi_slices_on(&engine->slices) || twi_engine_shared(engine) ? SENIOR_AMONG_NS
									   : SENIOR_NS;
}

static bool is_crowded(const struct twi_engine *engine)
{
	return atomic_load_explicit(&engine->waiters, memory_order_relaxed) > engine->slices.above;
}

bool twi_wait_take_lead(struct twi_engine *engine, struct twi_wait *wait)
{
	struct twi_wait *driver = driver_of(engine);

	twi_assert_held(engine);
	if (driver != NULL && wait->since_ns < driver->since_ns + senior_ns(engine))
		return false;
	if (twi_unlikely(twi_slices_on(&engine->slices) || is_crowded(engine)) && driver == NULL &&
	    !twi_slice_may_lead(engine, wait))
		return false; /* it has handed over, or the owner is about to come */
	if (engine->ring == NULL && !twi_slice_is_ringless(engine) &&
	    twi_engine_bind_ring(engine) < 0 && !twi_slice_lead_ringless(engine, wait)) {
		wait->denied_ns = twi_engine_batch_now(engine);
		wait->ringed = false;
		return false;
	}
	wait->ringed = engine->ring != NULL;
	if (driver != NULL)
		enlist_wait(engine, driver);
	atomic_store_explicit(&engine->driver, wait, memory_order_relaxed);
	return true;
}

static void sleep_on(struct twi_wait *wait, uint64_t ns)
{
	const struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000u),
				     .tv_nsec = (long)(ns % 1000000000u) };

	syscall(SYS_futex, &wait->word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, TWI_WAIT_ASLEEP, &ts, NULL,
		0);
}

/*
 * Sets the word, and wakes the waiter if it sleeps. After TWI_WAIT_ENDED the waiter may be gone:
 * its stack is not touched any more.
 */
static void set_word(struct twi_wait *wait, enum twi_wait_word word)
{
	_Atomic uint32_t *at = &wait->word;

	/* release: pairs with the acquire in word_of */
	if (atomic_exchange_explicit(at, word, memory_order_release) == TWI_WAIT_ASLEEP)
		syscall(SYS_futex, at, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

static uint32_t word_of(const struct twi_wait *wait)
{
	return atomic_load_explicit(&wait->word, memory_order_acquire);
}

/* Has it been told to look, and not looked yet? */
static bool is_coming(const struct twi_wait *wait)
{
	return atomic_load_explicit(&wait->word, memory_order_relaxed) == TWI_WAIT_LOOK;
}

static void tell_to_look(struct twi_wait *wait)
{
	if (is_coming(wait))
		return;
	if (wait->ring == NULL) {
		set_word(wait, TWI_WAIT_LOOK);
		return;
	}
	atomic_store_explicit(&wait->word, TWI_WAIT_LOOK, memory_order_relaxed);
	twi_ring_wake(wait->ring);
}

static void fall_asleep(struct twi_engine *engine, struct twi_wait *wait, struct twi_ring *ring)
{
	enlist_wait(engine, wait);
	atomic_store_explicit(&wait->word, TWI_WAIT_ASLEEP, memory_order_relaxed);
	wait->ring = ring;
	wait->asleep = true;
	if (driver_of(engine) == wait)
		atomic_store_explicit(&engine->driver, NULL, memory_order_relaxed);
	/* seq_cst: a device that sees no sleeper has set its signal before the sleeper looks */
	atomic_fetch_add_explicit(&engine->sleepers, 1, memory_order_seq_cst);
}

static void wake_up(struct twi_engine *engine, struct twi_wait *wait)
{
	wait->asleep = false;
	wait->ring = NULL;
	twi_assert_hot(atomic_load_explicit(&engine->sleepers, memory_order_relaxed) > 0);
	atomic_fetch_sub_explicit(&engine->sleepers, 1, memory_order_relaxed);
}

/*
 * Does it pay to linger now? Without a driver there are no turns to wait for. Then the library's
 * thread moves what there is, for instance because this thread can have no ring. The engine is
 * held.
 */
static bool lingering_pays(struct twi_engine *engine, uint64_t now_ns)
{
	int pays = atomic_load_explicit(&engine->linger_pays, memory_order_relaxed);

	twi_assert_held(engine);
	if (driver_of(engine) == NULL || twi_slices_on(&engine->slices) ||
	    now_ns < atomic_load_explicit(&engine->linger_again_ns, memory_order_relaxed) ||
	    engine->virtual_clock || engine->knobs.spin_ns == 0)
		return false;
	if (pays < 0)
		atomic_store_explicit(&engine->linger_pays, pays + 1, memory_order_relaxed);
	return pays >= 0;
}

/*
 * Counts whether lingering paid: the wait was over before the waiter would have slept. Any thread
 * may call it; a lost count does no harm.
 */
static void judge_lingering(struct twi_engine *engine, bool paid)
{
	int pays = atomic_load_explicit(&engine->linger_pays, memory_order_relaxed);

	if (paid)
		pays = pays < PAYS_MOST ? pays + 1 : pays;
	else
		pays = pays > 0 ? pays - 1 : PAYS_LEAST;
	atomic_store_explicit(&engine->linger_pays, pays, memory_order_relaxed);
}

/*
 * Has there been no driver for so long that a lingering thread should become one? *since_ns: since
 * when there is none; 0: there is one.
 */
static bool is_orphaned(struct twi_engine *engine, uint64_t now_ns, uint64_t *since_ns)
{
	if (driver_of(engine) != NULL)
		*since_ns = 0;
	else if (*since_ns == 0)
		*since_ns = now_ns;
	return *since_ns != 0 && now_ns - *since_ns >= ORPHANED_NS;
}

/*
 * Yields until the word changes, or the time to linger is over. In that case the word becomes
 * ASLEEP, or LOOK if there is no driver. The engine is not held.
 */
static void linger_for(struct twi_engine *engine, struct twi_wait *wait, uint64_t since_ns,
		       uint64_t until_ns)
{
	uint64_t most_ns = LINGER_SPINS * engine->knobs.spin_ns;
	uint64_t before, now = since_ns, orphaned_ns = 0;
	uint32_t word = TWI_WAIT_LINGERS, next = TWI_WAIT_ASLEEP;

	do {
		before = now;
		sched_yield();
		now = twi_now_ns();
		if (is_orphaned(engine, now, &orphaned_ns)) {
			next = TWI_WAIT_LOOK;
			break;
		}
		if (now - before >= HOG_NS) {
			atomic_store_explicit(&engine->linger_again_ns, now + HOGGED_NS,
					      memory_order_relaxed);
			break;
		}
	} while (word_of(wait) == TWI_WAIT_LINGERS && now - since_ns < most_ns && now < until_ns);
	atomic_fetch_sub_explicit(&engine->lingerers, 1, memory_order_relaxed);
	judge_lingering(engine, !atomic_compare_exchange_strong_explicit(&wait->word, &word, next,
									 memory_order_acquire,
									 memory_order_acquire));
}

bool twi_wait_follow(struct twi_engine *engine, struct twi_wait *wait, uint64_t until_ns)
{
	uint64_t now = twi_engine_clock(engine), most = FOLLOW_NS;

	twi_assert_held(engine);
	/* An operation that ended while the wait was on no list has woken no thread. */
	twi_assert_hot(wait->count > 1 ? !atomic_load_explicit(&wait->ended, memory_order_relaxed)
				       : !twi_waitable_done(wait->entries->what));
	if (engine->background == NULL && driver_of(engine) == NULL)
		most = UNCOVERED_NS;
	fall_asleep(engine, wait, NULL);
	if (lingering_pays(engine, now)) {
		atomic_store_explicit(&wait->word, TWI_WAIT_LINGERS, memory_order_relaxed);
		atomic_fetch_add_explicit(&engine->lingerers, 1, memory_order_relaxed);
		twi_engine_leave(engine);
		linger_for(engine, wait, now, until_ns);
	} else {
		twi_engine_leave(engine);
	}
	if (word_of(wait) == TWI_WAIT_ASLEEP && until_ns > now)
		sleep_on(wait, twi_min(until_ns - now, most));
	if (word_of(wait) == TWI_WAIT_ENDED)
		return true;
	twi_engine_enter(engine);
	if (word_of(wait) == TWI_WAIT_ENDED) {
		twi_engine_leave(engine);
		return true;
	}
	if (wait->due) { /* its operation has ended, and it was due to be woken */
		twi_slice_withdraw(engine, wait);
		twi_engine_leave(engine);
		return true;
	}
	wake_up(engine, wait);
	return false;
}

void twi_wait_watch(struct twi_engine *engine, struct twi_wait *wait, uint64_t alarm_ns)
{
	twi_assert_held(engine);
	fall_asleep(engine, wait, engine->ring);
	atomic_store_explicit(&engine->ring->sleeping, 1, memory_order_seq_cst);
	atomic_store_explicit(&engine->sentry, wait, memory_order_relaxed);
	engine->armed_since_enter = false;
	engine->alarm_ns = alarm_ns;
}

void twi_wait_watched(struct twi_engine *engine, struct twi_wait *wait)
{
	struct twi_ring *ring = wait->ring;

	twi_assert_held(engine);
	if (sentry_of(engine) == wait)
		atomic_store_explicit(&engine->sentry, NULL, memory_order_relaxed);
	atomic_store_explicit(&ring->sleeping, ring->watched, memory_order_relaxed);
	wake_up(engine, wait);
}

void twi_wait_relieve(struct twi_engine *engine)
{
	struct twi_wait *sentry = sentry_of(engine);

	twi_assert_held(engine);
	if (sentry == NULL || sentry->ring == engine->ring)
		return;
	atomic_store_explicit(&engine->sentry, NULL, memory_order_relaxed);
	twi_ring_hush(sentry->ring);
}

void twi_wait_wake_ended(struct twi_engine *engine, struct twi_wait *wait)
{
	twi_assert_held(engine);
	wake_up(engine, wait);
	set_word(wait, TWI_WAIT_ENDED);
}

void twi_wait_tell(struct twi_engine *engine, struct twi_waitable *what)
{
	struct twi_wait_entry *next;

	twi_assert_held(engine);
	for (struct twi_wait_entry *entry = what->waits; entry != NULL; entry = next) {
		struct twi_wait *wait = entry->wait;

		next = entry->next; /* it belongs to another wait: each has one entry here */
		atomic_store_explicit(&wait->ended, true, memory_order_relaxed);
		if (!wait->asleep)
			continue; /* it is about to see the end */
		if (wait->ring != NULL) {
			tell_to_look(wait);
			continue;
		}
		unlist_wait(engine, wait);
		twi_engine_count(engine->waiters, (uint32_t)-1);
		if (!twi_slice_defer(engine, wait))
			twi_wait_wake_ended(engine, wait);
	}
}

bool twi_wait_promote(struct twi_engine *engine)
{
	struct twi_list *pos, *next;
	uint64_t now = twi_engine_batch_now(engine);

	twi_assert_held(engine);
	twi_list_for_each_safe (pos, next, &engine->waiting) {
		struct twi_wait *wait = twi_container_of(pos, struct twi_wait, link);

		if (!wait->asleep ||
		    (!wait->ringed && wait->denied_ns != 0 && now < wait->denied_ns + DENIED_NS))
			continue;
		tell_to_look(wait);
		return true;
	}
	return false;
}

/* Will the driver be back before it pays to wake another thread? */
static bool is_away_shortly(const struct twi_engine *engine)
{
	return engine->background != NULL && engine->handoff.pause_ns < LAZY_NS;
}

void twi_wait_cover(struct twi_engine *engine, bool news)
{
	struct twi_wait *sentry = sentry_of(engine);

	twi_assert_held(engine);
	if (driver_of(engine) != NULL || twi_list_empty(&engine->waiting))
		return;
	if (sentry != NULL) {
		if (news)
			tell_to_look(sentry);
		return;
	}
	/* While the library's own thread keeps watch, no other thread is needed. */
	if (atomic_load_explicit(&engine->background_asleep, memory_order_relaxed) ==
		    TWI_BG_ASLEEP ||
	    is_away_shortly(engine) || twi_slice_owner_comes(engine))
		return;
	twi_wait_promote(engine);
}
