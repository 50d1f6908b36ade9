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

#include <internal/list.h>

struct twi_ring;

/* For how long the thread has polled in vain: see transport/op/polled.h. */
struct twi_polled {
	uint64_t last_ns;    /* the last call in vain; 0: none since something has come */
	uint64_t cpu_ns;     /* the thread's CPU time when it was read last */
	uint64_t spun_ns;    /* of that since then in such calls, and between two of them */
	uint64_t blocked_ns; /* since something has come */
	uint64_t mark_ns;    /* when the engine's logs are due */
	uint64_t queued_ns;  /* for which it has wanted a CPU, likewise */
	uint64_t sleeps;     /* of the thread, when they were read last */
	uint64_t slept_ns;   /* between calls, in one sleep each: for what is not known */
	uint64_t away_ns;    /* since when, where that is so */
	uint64_t rest_ns;    /* of slept_ns, in the last sleep alone */
	uint64_t woke_ns;    /* and its end */
	uint32_t far;        /* so many times that begin are looked at: lately some were long */
	uint32_t brief;      /* times between two calls since then, too short to be looked at */
	bool rests;          /* it sleeps on a descriptor of the library's */
	bool slow;           /* calls, or what is between them, take long */
	bool apart;          /* last_ns is the beginning of the call that goes on */
	bool news;           /* there were some for the call that ended one of those sleeps */
	bool heard;          /* of the end of an operation, after it had polled */
	uint32_t colls;      /* of whose ends it has heard, by whatever */
};

struct twi_life {
	_Atomic uint32_t holds; /* the thread's while it lives, and one for each of its rings */
	_Atomic uint32_t ended;
	_Atomic uint32_t inside;  /* between twi_thread_enter and _leave */
	struct twi_list link;     /* on the list of all threads that live */
	struct twi_polled polled; /* the thread's alone */
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

/*
 * Around a short piece of a call that may run while its object is being closed: it looks whether
 * the object is still open, and uses it. Who closes says first that it is not, then waits with
 * twi_threads_wait_outside until nobody is inside who may have seen it open.
 *
 * enter gives what leave wants. It costs a store each, where the kernel has twi_barrier_all.
 */
static inline struct twi_life *twi_thread_enter(void);
static inline void twi_thread_leave(struct twi_life *life);
void twi_threads_wait_outside(void);

/* The same for a thread without a life, which gets one if it can, or without such a barrier. */
struct twi_life *twi_thread_enter_slowly(void);
void twi_thread_leave_slowly(void);
extern _Atomic bool twi_has_barrier; /* twi_barrier_all does what it says */

static inline struct twi_life *twi_thread_enter(void)
{
	struct twi_life *life = twi_self.life;

	if (__builtin_expect(life == NULL, 0) ||
	    __builtin_expect(!atomic_load_explicit(&twi_has_barrier, memory_order_relaxed), 0))
		return twi_thread_enter_slowly();
	atomic_store_explicit(&life->inside, 1, memory_order_relaxed);
	/* Before what comes next: the barrier of the one who waits does the rest. */
	atomic_signal_fence(memory_order_seq_cst);
	return life;
}

static inline void twi_thread_leave(struct twi_life *life)
{
	/* release: who waits sees all that was done inside */
	if (__builtin_expect(life != NULL, 1))
		atomic_store_explicit(&life->inside, 0, memory_order_release);
	else
		twi_thread_leave_slowly();
}

/* A spinning thread leaves the core to its sibling for a moment. */
static inline void twi_pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#else
	atomic_signal_fence(memory_order_seq_cst);
#endif
}

#endif
