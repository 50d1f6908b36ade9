/*
 * waitable.h - what a thread can wait for: all that the engine knows of an operation.
 *
 * An object that ends embeds one (struct tow_op). When it has ended, its room sets DONE and then
 * calls twi_engine_tell. The engine reads the state, and links the threads that wait.
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
	bool memory_polled;           /* its end shows in memory, not by a completion of a ring */
	bool crowd;                   /* more ranks than there are cores look for it */
	struct twi_wait_entry *waits; /* threads that wait for it (engine_wait.h) */
};

/*
 * Has it ended? Relaxed is enough: the thread that ends it holds the engine. The calling thread
 * holds it now, or held it after it became a sleeper that the other thread sees. A stale answer
 * costs one futile sleep, which a wake ends.
 */
static inline bool twi_waitable_done(const struct twi_waitable *what)
{
	return (atomic_load_explicit(&what->state, memory_order_relaxed) & TWI_WAITABLE_DONE) != 0;
}

#endif
