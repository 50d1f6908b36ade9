/*
 * waitable.h - what a thread can wait for: all that the engine knows of an operation.
 *
 * A room that makes something that ends embeds one (struct tow_op), sets DONE when it has ended,
 * and then calls twi_engine_tell. The engine reads it, and links those who wait.
 */
#ifndef TWI_WAITABLE_H
#define TWI_WAITABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct twi_wait_entry;

/* A bit of twi_waitable.state; the others are the owner's. */
#define TWI_WAITABLE_DONE 2u

struct twi_waitable {
	_Atomic uint32_t state;
	bool memory_polled;           /* its end is seen by a look at memory, not told by a ring */
	bool crowd;                   /* and more ranks than there are cores look for it */
	struct twi_wait_entry *waits; /* threads that wait for it (engine_wait.h) */
};

/*
 * Has it ended, for the holder of the engine? Relaxed will do: who ends it holds the engine, and
 * this thread holds it, or held it after it became a sleeper that the other sees. A stale answer
 * costs one futile sleep of a wake that comes.
 */
static inline bool twi_waitable_done(const struct twi_waitable *what)
{
	return (atomic_load_explicit(&what->state, memory_order_relaxed) & TWI_WAITABLE_DONE) != 0;
}

#endif
