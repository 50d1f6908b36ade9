/* engine_slice.c - which thread owns the slice, and which ones are due. See engine_slice.h. */
#include "transport/engine/engine_slice.h"

#include <sched.h>
#include <time.h>

#include "diag/base/cancel.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_wait.h"

#define SLICE_NS      (1000u * 1000)
#define EACH_NS       60000u  /* with few threads, so much for each that waits */
#define NEWS_NS       4000u   /* an exchange of the owner takes less, as a rule */
#define PATIENCE_NS   150000u /* and up to twice as much more, at random */
#define YIELD_NS      2000u
#define SHARED_NS     1200u /* in a yield this long another thread has had the core */
#define SHARED_TURNS  4u
#define HOG_NS        (500u * 1000)  /* another program keeps the core */
#define IDLE_NS       (1000u * 1000) /* then the driver sleeps */
#define AGAIN_NS      (5ull * 1000 * 1000)
#define AGAIN_MAX_NS  (100ull * 1000 * 1000)
#define PAYS_MOST     16
#define HOG_PAYS      4                /* such a yield counts for so many slices that do not pay */
#define SEEN_NS       (10u * SLICE_NS) /* waits are counted for so long, and then anew */
#define PAID_WAITS    32u              /* waits in SLICE_NS that make a slice pay */
#define ANSWER_WAITS  4u /* of the owner: then the other side's owner is known to be its partner */
#define CORES_EACH    2u /* one for a thread here, and one for its partner */
#define SELDOM_ROUNDS 2u /* turns of all threads: one that waits for longer exchanges seldom */

static void set_ringless(struct twi_slices *slices, bool ringless)
{
	atomic_store_explicit(&slices->ringless, ringless, memory_order_relaxed);
}

static uint32_t core_count(void)
{
	cpu_set_t set;

	/* It fails where a set has no room for all cores: those are enough. */
	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint32_t)CPU_COUNT(&set)
							    : CPU_SETSIZE;
}

void twi_slice_init(struct twi_slices *slices)
{
	*slices = (struct twi_slices){ .above = twi_max(core_count() / CORES_EACH, 2u),
				       .begin_most = UINT32_MAX,
				       .pays = PAYS_MOST,
				       .again_in_ns = AGAIN_NS,
				       .random = 1 };
	twi_list_init(&slices->due);
}

static struct twi_wait *wait_of(struct twi_list *link)
{
	return twi_container_of(link, struct twi_wait, link);
}

void twi_slice_withdraw(struct twi_engine *engine, struct twi_wait *wait)
{
	twi_assert_held(engine);
	twi_assert_hot(wait->due && engine->slices.due_count > 0);
	twi_list_remove(&wait->link);
	engine->slices.due_count--;
	if (engine->slices.fresh == wait)
		engine->slices.fresh = NULL;
	wait->due = false;
	twi_wait_wake_ended(engine, wait);
}

void twi_slice_wake_all(struct twi_engine *engine)
{
	struct twi_list *due = &engine->slices.due;

	twi_assert_held(engine);
	while (!twi_list_empty(due))
		twi_slice_withdraw(engine, wait_of(due->next));
}

static uint32_t threads_waiting(const struct twi_engine *engine)
{
	return atomic_load_explicit(&engine->waiters, memory_order_relaxed) +
	       engine->slices.due_count;
}

/* 31 bits by Knuth's MMIX generator (The Art of Computer Programming, volume 2, 3.3.4). */
static uint64_t random_bits(struct twi_slices *slices)
{
	slices->random = slices->random * 6364136223846793005u + 1442695040888963407u;
	return slices->random >> 33;
}

static void slices_stop(struct twi_engine *engine, uint64_t now_ns)
{
	struct twi_slices *slices = &engine->slices;

	atomic_store_explicit(&slices->on, false, memory_order_relaxed);
	if (slices->pays < 0) {
		slices->again_ns = now_ns + slices->again_in_ns;
		slices->again_in_ns = twi_min(2 * slices->again_in_ns, AGAIN_MAX_NS);
	}
	slices->pays = PAYS_MOST;
	twi_slice_wake_all(engine);
}

/* Has the owner exchanged so much that its slice pays? */
static bool has_paid(const struct twi_slices *slices)
{
	return (uint64_t)slices->owner_waits * SLICE_NS >= PAID_WAITS * slices->slice_ns;
}

/* Begins the slice of `owner`, which may have to be woken yet. */
static void slice_begin(struct twi_slices *slices, uint32_t owner, uint64_t now_ns)
{
	if (!has_paid(slices))
		slices->pays--;
	else if (slices->pays < PAYS_MOST)
		slices->pays++;
	else
		slices->again_in_ns = AGAIN_NS;
	slices->count++;
	if (slices->owner != owner)
		slices->last_owner = slices->owner;
	slices->owner = owner;
	slices->owner_waits = 0;
	slices->fresh = NULL;
	slices->news = 0;
	slices->missed_ns = 0;
	set_ringless(slices, false);
	slices->end_ns = twi_max(slices->end_ns, now_ns + slices->slice_ns / 4);
	slices->begun_ns = now_ns;
	slices->patience_ns = PATIENCE_NS + random_bits(slices) % (2 * PATIENCE_NS);
}

static void hand_over(struct twi_engine *engine, struct twi_wait *heir, uint64_t now_ns)
{
	slice_begin(&engine->slices, heir->mark, now_ns);
	set_ringless(&engine->slices, !heir->ringed);
	twi_slice_withdraw(engine, heir);
}

/*
 * Sets the length of slices. Few threads are soon in turn again, and have cores to wake on. Short
 * slices cost them little, unless only a few of their waits fit into one.
 */
static void set_length(struct twi_engine *engine)
{
	struct twi_slices *slices = &engine->slices;
	uint64_t each_ns = (uint64_t)EACH_NS * threads_waiting(engine);

	slices->slice_ns = twi_min(twi_max(each_ns, slices->paid_ns), SLICE_NS);
}

/* Learns from the slice that ends how long PAID_WAITS take. */
static void learn_pace(struct twi_slices *slices, uint64_t now_ns)
{
	uint64_t waits = twi_max(slices->owner_waits, 1u);
	uint64_t paid_ns = (now_ns - slices->begun_ns) * PAID_WAITS / waits;

	slices->paid_ns = (3 * slices->paid_ns + twi_min(paid_ns, SLICE_NS)) / 4;
}

/*
 * Ends the slice, and hands over. The other side ends slices as well: together the two do so once
 * in slice_ns.
 */
static void slice_end(struct twi_engine *engine, uint64_t now_ns)
{
	struct twi_slices *slices = &engine->slices;

	learn_pace(slices, now_ns);
	set_length(engine);
	slices->end_ns = now_ns + slices->slice_ns * threads_waiting(engine) / slices->due_count;
	hand_over(engine, wait_of(slices->due.next), now_ns);
}

/*
 * Have more waits begun than one of each thread? Threads that only wait are not in each other's
 * way.
 */
static bool they_exchange(struct twi_engine *engine, const struct twi_wait *wait)
{
	uint64_t waits = atomic_load_explicit(&engine->waits, memory_order_relaxed);
	struct twi_slices *slices = &engine->slices;

	if (wait->since_ns - slices->seen_ns >= SEEN_NS) {
		slices->seen_ns = wait->since_ns;
		slices->seen_waits = waits;
	}
	return waits - slices->seen_waits >=
	       twi_min(PAID_WAITS + 2u * threads_waiting(engine), slices->begin_most);
}

static bool slices_start(struct twi_engine *engine, const struct twi_wait *wait)
{
	struct twi_slices *slices = &engine->slices;

	if (wait->since_ns < slices->again_ns || engine->background == NULL || !wait->memory ||
	    !they_exchange(engine, wait))
		return false;
	atomic_store_explicit(&slices->on, true, memory_order_relaxed);
	slices->owner_waits = PAID_WAITS;
	set_length(engine);
	slices->end_ns = wait->since_ns + slices->slice_ns;
	slice_begin(slices, twi_self.mark, wait->since_ns);
	return true;
}

/*
 * Does the thread exchange seldom? It came to its wait in this very slice, or so long ago that all
 * others have had turns since. So it does not exchange all the time, as they do, and would leave a
 * slice of its own unused.
 */
static bool exchanges_seldom(struct twi_engine *engine, const struct twi_wait *wait,
			     uint64_t now_ns)
{
	const struct twi_slices *slices = &engine->slices;
	uint64_t round_ns = slices->slice_ns * threads_waiting(engine);

	return wait->since_ns > slices->begun_ns ||
	       now_ns >= wait->since_ns + SELDOM_ROUNDS * round_ns;
}

/* May the thread go on out of turn? At most one may in half a slice. */
static bool is_favoured(struct twi_engine *engine, const struct twi_wait *wait)
{
	struct twi_slices *slices = &engine->slices;
	uint64_t now_ns = twi_engine_batch_now(engine);

	if (now_ns < slices->favour_ns || !exchanges_seldom(engine, wait, now_ns))
		return false;
	slices->favour_ns = now_ns + slices->slice_ns / 2;
	slices->favoured = true;
	return true;
}

/*
 * Wakes the thread that became due last, if the owner has gone on exchanging since. In that case
 * the owner of the other side is still its partner. So a thread out of turn has sent what came, and
 * its partner here goes on, too. The last owner is left out: its partner may merely have answered
 * late.
 */
static void wake_answering(struct twi_engine *engine, uint64_t now_ns)
{
	struct twi_slices *slices = &engine->slices;
	struct twi_wait *fresh = slices->fresh;

	if (fresh == NULL || slices->owner_waits < slices->fresh_waits + ANSWER_WAITS)
		return;
	slices->fresh = NULL;
	if (now_ns < slices->favour_ns)
		return;
	slices->favour_ns = now_ns + slices->slice_ns / 2;
	slices->favoured = true;
	twi_slice_withdraw(engine, fresh);
}

/* Wakes due threads that exchange seldom; the slice stays its owner's. */
static void wake_seldom(struct twi_engine *engine, uint64_t now_ns)
{
	struct twi_slices *slices = &engine->slices;

	while (slices->due_count > 0 &&
	       exchanges_seldom(engine, wait_of(slices->due.next), now_ns)) {
		twi_slice_withdraw(engine, wait_of(slices->due.next));
		slices->favoured = true;
	}
}

bool twi_slice_may_lead(struct twi_engine *engine, const struct twi_wait *wait)
{
	struct twi_slices *slices = &engine->slices;

	twi_assert_held(engine);
	if (!twi_slices_on(slices)) {
		slices_start(engine, wait);
		return true;
	}
	if (slices->pays < 0 || threads_waiting(engine) <= slices->above) {
		slices_stop(engine, wait->since_ns);
		return true;
	}
	if (slices->owner != twi_self.mark) {
		if (twi_slice_owner_comes(engine))
			return false;
		slice_begin(slices, twi_self.mark, twi_engine_clock(engine));
		return true;
	}
	wake_answering(engine, wait->since_ns);
	slices->missed_ns = 0;
	slices->news = 0;
	slices->owner_waits++;
	if (wait->since_ns < slices->end_ns || slices->due_count == 0)
		return true;
	wake_seldom(engine, wait->since_ns);
	if (slices->due_count == 0)
		return true;
	slice_end(engine, wait->since_ns);
	return false;
}

bool twi_slice_is_ringless(const struct twi_engine *engine)
{
	const struct twi_slices *slices = &engine->slices;

	twi_assert_held(engine);
	return twi_slices_ringless(slices) && slices->owner == twi_self.mark;
}

bool twi_slice_lead_ringless(struct twi_engine *engine, const struct twi_wait *wait)
{
	struct twi_slices *slices = &engine->slices;

	twi_assert_held(engine);
	if (!twi_slices_on(slices) || slices->owner != twi_self.mark || !wait->memory)
		return false;
	set_ringless(slices, true);
	return true;
}

bool twi_slice_defer(struct twi_engine *engine, struct twi_wait *wait)
{
	struct twi_slices *slices = &engine->slices;

	twi_assert_held(engine);
	if (!twi_slices_on(slices) || is_favoured(engine, wait))
		return false;
	wait->due = true;
	twi_list_push_back(&slices->due, &wait->link);
	slices->due_count++;
	slices->news++;
	if (wait->mark != slices->last_owner) {
		slices->fresh = wait;
		slices->fresh_waits = slices->owner_waits;
	}
	return true;
}

bool twi_slice_pass(struct twi_engine *engine, const struct twi_wait *wait, uint64_t now_ns)
{
	struct twi_slices *slices = &engine->slices;
	bool elsewhere = slices->news > 0 && slices->owner_waits > 1;

	twi_assert_held(engine);
	if (now_ns < wait->since_ns + (elsewhere ? NEWS_NS : slices->patience_ns))
		return false;
	atomic_store_explicit(&engine->driver, NULL, memory_order_relaxed);
	hand_over(engine, wait_of(slices->due.prev), now_ns);
	return true;
}

static void sleep_shortly(void)
{
	TWI_UNCANCELED;
	const struct timespec moment = { .tv_nsec = 1 };

	nanosleep(&moment, NULL);
}

bool twi_slice_idle(struct twi_engine *engine, uint64_t idle_ns)
{
	struct twi_slices *slices = &engine->slices;
	uint64_t since_ns, yielded_ns;

	twi_assert_held(engine);
	if (idle_ns < YIELD_NS)
		return true; /* the clock was read in place of a pause */
	since_ns = twi_engine_clock(engine);
	sched_yield();
	yielded_ns = twi_engine_clock(engine) - since_ns;
	if (yielded_ns >= HOG_NS)
		slices->pays -= HOG_PAYS; /* slices of other programs are longer than ours */
	else if (yielded_ns < SHARED_NS)
		slices->shared_turns = 0;
	else if (++slices->shared_turns >= SHARED_TURNS) {
		slices->shared_turns = 0;
		if (random_bits(slices) % 2 == 0)
			sleep_shortly();
	}
	return idle_ns < IDLE_NS;
}

bool twi_slice_owner_comes(struct twi_engine *engine)
{
	struct twi_slices *slices = &engine->slices;
	uint64_t now_ns;

	twi_assert_held(engine);
	if (!twi_slices_on(slices))
		return false;
	if (atomic_load_explicit(&engine->driver, memory_order_relaxed) != NULL) {
		slices->missed_ns = 0; /* the owner is here, and gave way */
		return true;
	}
	now_ns = twi_engine_clock(engine);
	if (slices->missed_ns == 0)
		slices->missed_ns = now_ns;
	return now_ns - slices->missed_ns < TWI_SLICE_AWAY_NS;
}

bool twi_slice_owner_away(struct twi_engine *engine)
{
	struct twi_slices *slices = &engine->slices;

	twi_assert_held(engine);
	if (slices->due_count == 0)
		return false;
	if (!has_paid(slices))
		twi_slice_wake_all(engine);
	else
		hand_over(engine, wait_of(slices->due.next), twi_engine_clock(engine));
	return true;
}
