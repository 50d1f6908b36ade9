/*
 * ring_closer.h - closing io_urings where nobody waits for it.
 *
 *	holder of the engine:  ring off all lists --> queue --> gives the engine back
 *	thread "tow-rings":                           queue --> io_uring_queue_exit
 *
 * A thread that closes an io_uring may have to wait for a thread of the kernel's own
 * (io_ring_ctx_wait_and_kill flushes work, Linux 6.18). Beside threads that spin and yield that one
 * was seen without a core for more than half a minute, in which nobody had the engine, and the
 * other side took this one for dead. So rings that go while the runtime is open are closed by a
 * thread that starts with the first of them. It ends with the runtime.
 *
 * Until it is closed a ring does nothing that others could notice: a deferred one moves only
 * when its thread enters it, a plain one has polls alone, and sends are over when they are
 * submitted (MSG_DONTWAIT). But it keeps the sockets that it polls: one that is closed meanwhile
 * ends with it.
 */
#ifndef TWI_RING_CLOSER_H
#define TWI_RING_CLOSER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct twi_engine;
struct twi_uring;

/* Tests set it: so many ms pass until a ring is closed, or until it is 0 again. */
extern _Atomic uint32_t twi_uring_close_ms;

/* Closes the ring and frees it. */
void twi_uring_close(struct twi_uring *ring);

/*
 * Takes a ring that nobody knows any more, to close it. False: the caller has to, as the runtime is
 * closing or there can be no thread. The engine is held.
 */
bool twi_uring_closer_take(struct twi_engine *engine, struct twi_uring *ring);

/* Closes what is left, and ends the thread. The runtime is closing. */
void twi_uring_closer_end(struct twi_engine *engine);

#endif
