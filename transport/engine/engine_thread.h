/*
 * engine_thread.h - who a thread is to the engines: its mark, its life, the ring it used last.
 *
 * A ring belongs to one thread and is taken down when that thread has ended. Whether it has is told
 * by a *life*: a small counted object that the thread and each of its rings share, so that nothing
 * is ever looked up by number, overwritten, or read after it was freed.
 */
#ifndef TWI_ENGINE_THREAD_H
#define TWI_ENGINE_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct twi_ring;

struct twi_life {
	_Atomic uint32_t holds; /* the thread's while it lives, and one for each of its rings */
	_Atomic uint32_t ended;
};

struct twi_thread {
	uint32_t mark; /* a small number that no other live thread has; 0: not given yet */
	int tid;       /* the kernel's, set with it */
	struct twi_life *life;
	uint64_t binding; /* of the engine whose ring stands here; 0: none */
	struct twi_ring *ring;
};

/* Initial-exec, because a call to find it would cost as much as taking the engine. */
extern __thread struct twi_thread twi_self __attribute__((tls_model("initial-exec"), aligned(8)));

uint32_t twi_thread_begin(void);

/* The calling thread's mark; never 0. */
static inline uint32_t twi_thread_mark(void)
{
	return __builtin_expect(twi_self.mark != 0, 1) ? twi_self.mark : twi_thread_begin();
}

/* A hold on the calling thread's life. NULL without memory: it then counts as living for ever. */
struct twi_life *twi_life_acquire(void);
void twi_life_release(struct twi_life *life);

static inline bool twi_life_ended(const struct twi_life *life)
{
	/* acquire: pairs with the release at the thread's end */
	return life != NULL && atomic_load_explicit(&life->ended, memory_order_acquire) != 0;
}

/* How often this process has been forked into being: the child of a fork adds one. */
extern _Atomic uint64_t twi_fork_count;
static inline uint64_t twi_fork_generation(void)
{
	return atomic_load_explicit(&twi_fork_count, memory_order_relaxed);
}

/* Once in a process, before any of the above. */
void twi_thread_setup(void);

/* Registers for twi_barrier_all; false when the kernel has nothing of the kind. */
bool twi_barrier_setup(void);

/* Makes every thread of the process pass a full barrier, so that the fast path needs none. */
void twi_barrier_all(void);

#endif
