/* watch.c - arms one-shot polls in the holder's ring. See watch.h. */
#include "transport/engine/watch.h"

#include <poll.h>

#include "transport/engine/engine.h"
#include "transport/engine/poller.h"

bool twi_watch(struct twi_engine *engine, enum twi_lane_id lane, uint64_t rest, int fd,
	       uint32_t *rings)
{
	return twi_watch_as(engine, lane + 1u, rest, fd, rings);
}

bool twi_watch_as(struct twi_engine *engine, unsigned owner, uint64_t rest, int fd, uint32_t *rings)
{
	struct twi_ring *ring = engine->ring;

	twi_assert_held(engine);
	if (ring == NULL)
		return false;
	if ((*rings & 1u << ring->index) != 0)
		return true;
	if (!ring->poller->poll(
		    ring, fd, POLLIN,
		    twi_ring_tag_of(owner, (uint64_t)ring->index << TWI_WATCH_REST_BITS | rest)))
		return false;
	*rings |= 1u << ring->index;
	return true;
}

void twi_watch_nap(struct twi_engine *engine, uint64_t timeout_ns)
{
	twi_assert_held(engine);
	if (engine->ring == NULL)
		return;
	twi_ring_submit(engine->ring);
	twi_ring_sleep(engine->ring, timeout_ns);
}
