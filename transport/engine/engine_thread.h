/*
 * engine_thread.h - what the engines know of a thread: its mark, its record, and the ring that it
 * used last.
 *
 * A ring belongs to one thread, and is taken down when that thread has ended. The *record* of the
 * thread says whether it has. It is a small object with a reference count, which the thread and
 * each of its rings share. So no thread is looked up by number, and no record is overwritten, or
 * read after it was freed.
 */
#ifndef TWI_ENGINE_THREAD_H
#define TWI_ENGINE_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <internal/list.h>

struct twi_ring;

/* How long the thread has polled in vain: see transport/op/polled.h. */
struct twi_polled {
	uint64_t last_ns;    /* the last call in vain; 0: none since something has come */
	uint64_t cpu_ns;     /* the thread's CPU time when it was read last */
	uint64_t spun_ns;    /* time spent since then in such calls, and between two of them */
	uint64_t blocked_ns; /* time blocked since something has come */
	uint64_t mark_ns;    /* when the engine's logs are due */
	uint64_t queued_ns;  /* time that it wanted a CPU, when that was read last */
	uint64_t sleeps;     /* sleeps of the thread, when they were read last */
	uint64_t losses;     /* how often it had lost its core, when that was read last */
	uint64_t losses_ns;  /* and when that was (handoff.c) */
	uint64_t slept_ns;   /* slept between calls, one sleep each; its cause is not known yet */
	uint64_t away_ns;    /* when the first of these sleeps began, if there was one */
	uint64_t rest_ns;    /* length of the last of these sleeps */
	uint64_t woke_ns;    /* end of the last of these sleeps */
	uint64_t vain_ns;    /* end of the last call in vain; 0: something has moved since */
	uint64_t give_ns;    /* such a call gives the core away from this time on */
	uint64_t hogged_ns;  /* until then, another thread that computes may want the core */
	uint64_t hogged_for_ns; /* for how long that was believed last */
	uint32_t far;   /* times between calls still to be measured: lately some were long */
	uint32_t brief; /* times between calls since then, too short to be measured */
	bool rests;     /* it has a tow_fd, and may sleep on it */
	bool slow;      /* calls, or the times between them, are long */
	bool apart;     /* last_ns is the beginning of the call that goes on */
	bool news;      /* the call that ended one of those sleeps found news */
	bool heard;     /* it has learned of an operation's end after it had polled */
	bool shared;    /* another thread took the core for a moment when this one yielded it */
	uint32_t colls; /* collectives of whose end it has learned, in any way */
};

struct twi_thread_record {
	_Atomic uint32_t holds; /* references: one of the living thread, one of each ring */
	_Atomic uint32_t ended;
	_Atomic uint32_t inside;  /* between twi_thread_enter and _leave */
	struct twi_list link;     /* on the list of all living threads */
	struct twi_polled polled; /* used by the thread alone */
};

struct twi_thread {
	uint32_t mark; /* no other living thread has this number; 0: not given yet */
	int tid;       /* the kernel's thread id, set with the mark */
	struct twi_thread_record *record;
	uint64_t binding; /* binding of the engine that `ring` belongs to; 0: none */
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

/*
 * Takes a reference to the calling thread's record. NULL: there was no memory for a record, and the
 * thread counts as living for ever.
 */
struct twi_thread_record *twi_thread_record_acquire(void);
void twi_thread_record_release(struct twi_thread_record *record);

static inline bool twi_thread_record_ended(const struct twi_thread_record *record)
{
	/* acquire: pairs with the release at the thread's end */
	return record != NULL && atomic_load_explicit(&record->ended, memory_order_acquire) != 0;
}

/* The number of forks between this process and the first one: the child of a fork adds one. */
extern _Atomic uint64_t twi_fork_count;
static inline uint64_t twi_fork_generation(void)
{
	return atomic_load_explicit(&twi_fork_count, memory_order_relaxed);
}

/* Sets up all of this, once in a process. It must come before any of the above. */
void twi_thread_setup(void);

/* Registers for twi_barrier_all. False: the kernel has no such barrier. */
bool twi_barrier_setup(void);

/* Makes every thread of the process pass a full barrier, so that the fast path needs none. */
void twi_barrier_all(void);

/*
 * Enclose a short part of a call that may run while its object is being closed. That part checks
 * that the object is open, and uses it. The thread that closes the object first marks it as closed.
 * Then it waits in twi_threads_wait_outside: every thread that may have seen the object open has
 * left.
 *
 * enter returns what leave takes. Each costs one store where the kernel has the barrier of
 * twi_barrier_all.
 */
static inline struct twi_thread_record *twi_thread_enter(void);
static inline void twi_thread_leave(struct twi_thread_record *record);
void twi_threads_wait_outside(void);

/* The same for a thread without a record (it makes one if it can), or without such a barrier. */
struct twi_thread_record *twi_thread_enter_slowly(void);
void twi_thread_leave_slowly(void);
extern _Atomic bool twi_has_barrier; /* twi_barrier_all works on this kernel */

static inline struct twi_thread_record *twi_thread_enter(void)
{
	struct twi_thread_record *record = twi_self.record;

	if (__builtin_expect(record == NULL, 0) ||
	    __builtin_expect(!atomic_load_explicit(&twi_has_barrier, memory_order_relaxed), 0))
		return twi_thread_enter_slowly();
	atomic_store_explicit(&record->inside, 1, memory_order_relaxed);
	/*
	 * Keeps the compiler from moving later loads up; the barrier of the waiting thread does the
	 * rest.
	 */
	atomic_signal_fence(memory_order_seq_cst);
	return record;
}

static inline void twi_thread_leave(struct twi_thread_record *record)
{
	/* release: the waiting thread sees all that was done inside */
	if (__builtin_expect(record != NULL, 1))
		atomic_store_explicit(&record->inside, 0, memory_order_release);
	else
		twi_thread_leave_slowly();
}

/* Leaves the core to its sibling hardware thread for a moment. For threads that spin. */
static inline void twi_pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#else
	atomic_signal_fence(memory_order_seq_cst);
#endif
}

#endif
