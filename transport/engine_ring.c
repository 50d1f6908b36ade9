/*
 * engine_ring.c - each driving thread's ring: found, made, brought in step, taken down.
 *
 * Slots 0 to TWI_RINGS_MAX - 1 are for the callers' threads, one more for the library's own. A
 * caller that finds no slot starts and takes back operations all the same (engine->ring is NULL
 * then): the next thread that drives moves them.
 */
#include "diag/diag.h"
#include "diag/error.h"
#include "memreg/pool_regions.h"
#include "transport/background.h"
#include "transport/engine.h"
#include "transport/poller.h"

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
	engine->rings[index] = NULL;
	twi_life_release(engine->lives[index]);
	engine->lives[index] = NULL;
	twi_pool_registrar_remove(engine->pool, ring->poller->registrar, ring);
	twi_ring_destroy(ring);
}

/* Registers the pool with a new ring. A pool that cannot be pinned is used without. */
static int register_pool(struct twi_engine *engine, struct twi_ring *ring)
{
	int status;

	ring->regions_version = twi_pool_regions_version(engine->pool);
	status = twi_pool_registrar_add(engine->pool, ring->poller->registrar, ring);
	ring->registrar = twi_pool_registered(engine->pool, ring->poller->registrar, ring);
	if (status < 0 && engine->knobs.strict_premap != 0)
		return status;
	if (status < 0)
		twi_log(engine->diag, 2, "%s", tow_error_message());
	return TOW_OK;
}

/* A slot for the calling thread's ring, TWI_RING_SLOTS when there is none. */
static unsigned find_slot(struct twi_engine *engine)
{
	unsigned slot = 0;

	if (twi_background_self(engine))
		return TWI_RING_BACKGROUND;
	for (unsigned i = 0; i < TWI_RINGS_MAX; i++) {
		if (engine->rings[i] != NULL && twi_life_ended(engine->lives[i]))
			twi_engine_drop_ring(engine, i);
	}
	while (slot < TWI_RINGS_MAX && engine->rings[slot] != NULL)
		slot++;
	return slot < TWI_RINGS_MAX ? slot : TWI_RING_SLOTS;
}

/* One that is not deferred is moved by whoever enters the kernel: then no other thread may drive.
 */
static bool single(const struct twi_engine *engine)
{
	for (unsigned i = 0; i < TWI_RING_SLOTS; i++) {
		if (engine->rings[i] != NULL && !engine->rings[i]->deferred)
			return true;
	}
	return false;
}

static int add_ring(struct twi_engine *engine)
{
	unsigned slot = find_slot(engine);
	struct twi_ring *ring;
	int status;

	if (single(engine))
		return twi_error(TOW_EBUSY,
				 "without IORING_SETUP_DEFER_TASKRUN (Linux 6.1) only one thread "
				 "may drive a runtime");
	if (slot == TWI_RING_SLOTS)
		return twi_error(TOW_EBUSY, "more than %d threads drive this runtime",
				 TWI_RINGS_MAX);
	status = twi_ring_create(engine, &ring);
	if (status < 0)
		return status;
	ring->index = slot;
	status = register_pool(engine, ring);
	if (status < 0) {
		twi_ring_destroy(ring);
		return status;
	}
	engine->rings[slot] = ring;
	engine->lives[slot] = twi_life_acquire();
	twi_self.engine_id = engine->id;
	twi_self.ring = ring;
	return TOW_OK;
}

static struct twi_ring *find_ring(struct twi_engine *engine, uint32_t mark)
{
	for (unsigned i = 0; i < TWI_RING_SLOTS; i++) {
		if (engine->rings[i] != NULL && engine->rings[i]->mark == mark &&
		    !twi_life_ended(engine->lives[i]))
			return engine->rings[i];
	}
	return NULL;
}

/*
 * Reaps what the last holder has left in its queue. It comes before any system call on this
 * thread's ring: that might receive what follows it in the same stream.
 */
static void drain_others(struct twi_engine *engine)
{
	engine->last_ring = engine->ring;
	for (unsigned i = 0; i < TWI_RING_SLOTS; i++) {
		if (engine->rings[i] != NULL && engine->rings[i] != engine->ring)
			twi_ring_reap(engine->rings[i]);
	}
}

/* Regions have come or gone: this thread's ring follows. */
void twi_engine_keep_in_step(struct twi_engine *engine)
{
	/* Acquire: pairs with the release of whoever publishes a region. */
	uint64_t now = atomic_load_explicit(engine->regions_clock, memory_order_acquire);

	if (twi_unlikely(engine->ring->regions_version != now))
		twi_ring_sync(engine->ring);
}

int twi_engine_bind_ring(struct twi_engine *engine)
{
	struct twi_ring *ring = twi_self.ring;

	if (engine->virtual_clock)
		return TOW_OK;
	if (twi_unlikely(twi_self.engine_id != engine->id)) {
		ring = find_ring(engine, twi_thread_mark());
		if (ring == NULL) {
			int status = add_ring(engine);

			if (status < 0) {
				/* it works without: what is taken back must not be on its way */
				engine->ring = NULL;
				drain_others(engine);
				return status;
			}
			ring = twi_self.ring;
		}
		twi_self.engine_id = engine->id;
		twi_self.ring = ring;
	}
	engine->ring = ring;
	if (engine->last_ring != ring)
		drain_others(engine);
	twi_engine_keep_in_step(engine);
	return TOW_OK;
}
