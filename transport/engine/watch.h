/*
 * watch.h - watches on descriptors of a lane that has no requests of its own in the rings: a
 * sleeper is woken when one becomes readable.
 *
 * A watch is a one-shot poll in the ring of the driver (lane.h: that is harmless there when the
 * engine changes hands). Its completion reaches the lane's `completed` with `rest` in the lower 48
 * bits and the ring's index above them. From then on that ring watches no more.
 *
 * The engine is held in all calls.
 */
#ifndef TWI_ENGINE_WATCH_H
#define TWI_ENGINE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/lane_id.h"

struct twi_engine;

#define TWI_WATCH_REST_BITS 48

/*
 * Watches `fd` in the holder's ring unless that ring's bit in *rings is set, and sets the bit.
 * False: there is no ring, or its queue is stuck.
 */
bool twi_watch(struct twi_engine *engine, enum twi_lane_id lane, uint64_t rest, int fd,
	       uint32_t *rings);

/* The same for any owner of requests (poller.h). */
bool twi_watch_as(struct twi_engine *engine, unsigned owner, uint64_t rest, int fd,
		  uint32_t *rings);

/* The index of the ring that the completion `user_data` belongs to. */
static inline unsigned twi_watch_ring(uint64_t user_data)
{
	return (unsigned)(user_data >> TWI_WATCH_REST_BITS) & 0xff;
}

/* Sleeps until the holder's ring has something, at most for timeout_ns. */
void twi_watch_nap(struct twi_engine *engine, uint64_t timeout_ns);

#endif
