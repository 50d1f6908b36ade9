/*
 * engine_ring.c - finds, makes and drops the rings of driving threads, and keeps them in step.
 *
 * Slots 0 to TWI_RINGS_MAX - 1 are for the callers' threads, one more for the library's own. When
 * all are taken, the ring of a thread that has ended is dropped. Else the ring that has not been
 * used for the longest time is dropped, if that is long (IDLE_NS). Its thread gets another when it
 * comes back. The first TWI_RINGS_KEPT rings stay with their threads. A caller that gets no ring
 * starts and takes back operations all the same (engine->ring is NULL then): the next thread that
 * drives moves them.
 */
#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "memreg/pool/pool_regions.h"
#include "transport/engine/background.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/poller.h"
#include "transport/lanes/lane.h"

#define IDLE_NS       (100ull * 1000 * 1000)
#define IDLE_ALONE_NS (1000u * 1000) /* without a library's thread, which moves what others start */
#define TAKE_SHARE    8u             /* at most a ninth of the time goes into taking rings */
#define TAKE_PAUSE_NS (20ull * 1000 * 1000) /* upper limit, whatever the last one cost */
#define CLOSING_MOST  4u /* while so many wait to be closed, living threads keep theirs */

void twi_engine_drop_ring(struct twi_engine *engine, unsigned index)
{
	struct twi_ring *ring = engine->rings[index];

	twi_ring_reap(ring);
	twi_fd_close(engine, index);
	if (engine->last_ring == ring)
		engine->last_ring = NULL;
	if (engine->armed_ring == ring)
		engine->armed_ring = NULL;
	for (unsigned i = 0; i < engine->lane_count; i++)
		engine->moving[i]->ops->ring_gone(engine->moving[i], index);
	twi_processes_ring_gone(engine, index);
	engine->rings[index] = NULL;
	twi_thread_record_release(engine->ring_threads[index]);
	engine->ring_threads[index] = NULL;
	twi_pool_registrar_remove(engine->pool, ring->poller->registrar, ring);
	twi_ring_destroy(ring);
}

bool twi_engine_may_drop_ring(const struct twi_engine *engine)
{
	return atomic_load_explicit(&engine->rings_closing, memory_order_relaxed) < TWI_RINGS_MAX;
}

/* Registers the pool with a new ring. A pool that cannot be pinned is used unregistered. */
static int register_pool(struct twi_engine *engine, struct twi_ring *ring)
{
	int status;

	ring->regions_version = twi_pool_regions_version(engine->pool);
	status = twi_pool_registrar_add(engine->pool, ring->poller->registrar, ring);
	ring->registrar = twi_pool_registered(engine->pool, ring->poller->registrar, ring);
	if (status < 0 && engine->knobs.strict_premap)
		return status;
	if (status < 0)
		twi_log(engine->diag, 2, "%s", tow_error_message());
	return TOW_OK;
}

/*
 * Drops the ring that a living thread has not used for the longest time, if it is not in use. It is
 * in use while its thread sleeps on it, has a descriptor of it, or awaits a notification.
 *
 * Making another ring takes up to a millisecond, in which no other thread has the engine. Threads
 * that take each other's rings all the time would do nothing else. So the cost of one decides when
 * the next may be taken.
 */
static unsigned take_idle(struct twi_engine *engine)
{
	uint64_t now = twi_engine_clock(engine), idle_ns = IDLE_NS;
	unsigned oldest = TWI_RING_SLOTS;

	if (engine->background == NULL)
		idle_ns = IDLE_ALONE_NS;
	if (now < engine->take_again_ns ||
	    atomic_load_explicit(&engine->rings_closing, memory_order_relaxed) >= CLOSING_MOST)
		return TWI_RING_SLOTS;
	for (unsigned i = TWI_RINGS_KEPT; i < TWI_RINGS_MAX; i++) {
		const struct twi_ring *ring = engine->rings[i];

		if (ring->watched || ring->notices > 0 || ring->unsubmitted > 0 ||
		    atomic_load_explicit(&ring->sleeping, memory_order_relaxed) != 0 ||
		    now - ring->used_ns < idle_ns)
			continue;
		if (oldest == TWI_RING_SLOTS || ring->used_ns < engine->rings[oldest]->used_ns)
			oldest = i;
	}
	if (oldest == TWI_RING_SLOTS)
		return oldest;
	twi_engine_drop_ring(engine, oldest);
	twi_engine_rebind(engine);
	return oldest;
}

/*
 * A ring was taken at `since_ns`, and another made in its place: sets when the next may be taken.
 */
static void pause_taking(struct twi_engine *engine, uint64_t since_ns)
{
	uint64_t now = twi_engine_clock(engine);

	engine->take_again_ns = now + twi_min(TAKE_SHARE * (now - since_ns), TAKE_PAUSE_NS);
}

/* A slot for the calling thread's ring, TWI_RING_SLOTS when there is none. */
static unsigned find_slot(struct twi_engine *engine, bool *taken_out)
{
	unsigned slot = 0;

	*taken_out = false;
	if (twi_background_self(engine))
		return TWI_RING_BACKGROUND;
	for (unsigned i = 0; i < TWI_RINGS_MAX; i++) {
		if (engine->rings[i] != NULL && twi_thread_record_ended(engine->ring_threads[i]) &&
		    twi_engine_may_drop_ring(engine))
			twi_engine_drop_ring(engine, i);
	}
	while (slot < TWI_RINGS_MAX && engine->rings[slot] != NULL)
		slot++;
	if (slot < TWI_RINGS_MAX)
		return slot;
	slot = take_idle(engine);
	*taken_out = slot != TWI_RING_SLOTS;
	return slot;
}

static int add_ring(struct twi_engine *engine)
{
	TWI_UNCANCELED;
	uint64_t since = twi_engine_clock(engine);
	bool taken;
	unsigned slot = find_slot(engine, &taken);
	struct twi_ring *ring;
	int status;

	if (slot == TWI_RING_SLOTS)
		return TOW_EBUSY;
	status = twi_ring_create(engine, &ring);
	if (status == TOW_OK) {
		ring->index = slot;
		if (slot < TWI_RINGS_KEPT || slot == TWI_RING_BACKGROUND)
			twi_ring_keep(ring);
		status = register_pool(engine, ring);
		if (status < 0)
			twi_ring_destroy(ring);
	}
	if (taken)
		pause_taking(engine, since);
	if (status < 0)
		return status;
	if (!ring->deferred)
		engine->plain_rings = true;
	engine->rings[slot] = ring;
	engine->ring_threads[slot] = twi_thread_record_acquire();
	twi_self.binding = engine->binding;
	twi_self.ring = ring;
	return TOW_OK;
}

static struct twi_ring *find_ring(struct twi_engine *engine, uint32_t mark)
{
	for (unsigned i = 0; i < TWI_RING_SLOTS; i++) {
		if (engine->rings[i] != NULL && engine->rings[i]->mark == mark &&
		    !twi_thread_record_ended(engine->ring_threads[i]))
			return engine->rings[i];
	}
	return NULL;
}

/*
 * Reaps what other threads have left in their rings. It comes before any system call on this
 * thread's ring: that might receive what follows in the same stream.
 */
static void drain_others(struct twi_engine *engine)
{
	uint64_t now = twi_engine_batch_now(engine);

	if (engine->last_ring != NULL)
		engine->last_ring->used_ns = now;
	if (engine->ring != NULL)
		engine->ring->used_ns = now;
	engine->last_ring = engine->ring;
	for (unsigned i = 0; i < TWI_RING_SLOTS; i++) {
		if (engine->rings[i] != NULL && engine->rings[i] != engine->ring)
			twi_ring_reap(engine->rings[i]);
	}
}

void twi_engine_keep_in_step(struct twi_engine *engine)
{
	twi_assert_held(engine);
	/* acquire: pairs with the release of the thread that publishes a region */
	uint64_t now = atomic_load_explicit(engine->regions_clock, memory_order_acquire);

	if (twi_unlikely(engine->ring->regions_version != now))
		twi_ring_sync(engine->ring);
}

int twi_engine_bind_ring(struct twi_engine *engine)
{
	struct twi_ring *ring = twi_self.ring;

	twi_assert_held(engine);
	if (engine->virtual_clock)
		return TOW_OK;
	if (twi_unlikely(twi_self.binding != engine->binding)) {
		ring = find_ring(engine, twi_thread_mark());
		if (ring == NULL) {
			int status = add_ring(engine);

			if (status < 0) {
				/*
				 * it works without a ring: what it takes back must not be on its
				 * way
				 */
				engine->ring = NULL;
				drain_others(engine);
				return status;
			}
			ring = twi_self.ring;
		}
		twi_self.binding = engine->binding;
		twi_self.ring = ring;
	}
	engine->ring = ring;
	if (engine->last_ring != ring)
		drain_others(engine);
	twi_engine_keep_in_step(engine);
	return TOW_OK;
}
