/*
 * ring_closer.h - closes io_urings in a thread of its own, so that no other thread waits for that.
 *
 *	holder of the engine:  ring off all lists --> queue --> gives the engine back
 *	thread "tow-rings":                           queue --> io_uring_queue_exit
 *
 * A thread that closes an io_uring may have to wait for a thread of the kernel
 * (io_ring_ctx_wait_and_kill flushes work, Linux 6.18). Beside threads that spin and yield, such a
 * kernel thread was seen without a core for more than half a minute. No thread had the engine
 * meanwhile, and the other side took this process for dead. So a thread of the library closes the
 * rings that go while the runtime is open. It starts with the first of them, and ends with the
 * runtime.
 *
 * Until it is closed, a ring does nothing that others could notice. A deferred ring moves only when
 * its thread enters it; a plain one has only polls. Sends are over when they are submitted
 * (MSG_DONTWAIT). But a ring keeps the sockets that it polls: a socket that is closed meanwhile
 * ends with the ring.
 */
#ifndef TWI_RING_CLOSER_H
#define TWI_RING_CLOSER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct twi_engine;
struct twi_uring;

/* Set by tests: so many ms pass until a ring is closed, or until this is 0 again. */
extern _Atomic uint32_t twi_uring_close_ms;

/* Closes the ring and frees it. */
void twi_uring_close(struct twi_uring *ring);

/*
 * Takes a ring that is off all lists, to close it. False: the caller has to close it, as the
 * runtime is closing or there can be no thread. The engine is held.
 */
bool twi_uring_closer_take(struct twi_engine *engine, struct twi_uring *ring);

/* Closes the rings that are left, and ends the thread. The runtime is closing. */
void twi_uring_closer_end(struct twi_engine *engine);

#endif
