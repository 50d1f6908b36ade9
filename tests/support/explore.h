/*
 * explore.h - plays a few threads in every order, within bounds: a controlled scheduler and the
 * weak memory of C11, for code that shares memory without a lock.
 *
 * The code under test is compiled as for ThreadSanitizer (-fsanitize=thread), and every access to
 * memory then calls a function; here those functions belong to the explorer (explore_tsan.c), so
 * the code is what the library has, and nothing is written twice. The threads are contexts of one
 * thread of the system, and only the explorer changes from one to another: before an atomic access,
 * a fence, or a call that gives way.
 *
 *	order   who goes on is a choice. To leave a thread that could go on is a preemption, of
 *	        which a run has at most so many; who follows one that waits or has ended is free.
 *	values  which of the stores that C11 allows a load may return is a choice as well. Not to
 *	        return the last one is a stale read, of which a run has at most so many.
 *	races   plain accesses of two threads, one of them a write, that nothing orders: a fault.
 *	ends    when nobody can go on the run is a deadlock: a lost wake-up, for instance.
 *
 * One run after the other makes the next combination of choices, until all were made. That few
 * preemptions find nearly all faults is Musuvathi and Qadeer's observation (Iterative Context
 * Bounding, PLDI 2007); how loads choose among stores follows Norris and Demsky (CDSChecker, OOPSLA
 * 2013) and Lidbury and Donaldson (tsan11, POPL 2017). What is not played: a store that comes
 * before an earlier one in the order of its location, and loads of values that are stored later.
 */
#ifndef TWT_EXPLORE_H
#define TWT_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWT_EXPLORE_THREADS 4u

struct twt_explore_case {
	const char *name;
	unsigned threads;
	void (*begin)(void); /* before each run: the memory is as it was before the run before */
	void (*thread)(unsigned number);
	void (*end)(void);                 /* after each run, when all threads have ended */
	unsigned preemptions, stale_reads; /* at most so many in a run */
	uint64_t runs;                     /* at most; 0: until all were made */
	bool polite;   /* a yield waits for nothing: who has yielded goes on when nobody else can */
	bool may_wait; /* that nobody can go on is an end, too: time passes for one who sleeps */
};

struct twt_explored {
	uint64_t runs;
	uint32_t choices; /* of the run that had most */
	bool whole;       /* all runs within the bounds were made */
	bool faulty;
	char fault[256];
};

/*
 * Explores one case. Where a run is faulty it stops, with the run's choices in `out->fault` and its
 * last steps on standard output.
 */
void twt_explore(const struct twt_explore_case *what, struct twt_explored *out);

/*
 * The same, and a fault fails the calling test. Prints how many runs there were.
 * TOW_EXPLORE_PREEMPTIONS and TOW_EXPLORE_STALE add to the bounds.
 */
void twt_explore_all(const struct twt_explore_case *what);

/* For the threads and for `end`: the run is faulty unless this holds. */
#define twt_explore_check(holds)                                                                   \
	do {                                                                                       \
		if (!(holds))                                                                      \
			twt_explore_fault("%s:%d: not so: %s", __FILE__, __LINE__, #holds);        \
	} while (0)
void twt_explore_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* There is nothing to do before another thread has stored something: it goes on after that. */
void twt_explore_yield(void);

/* Waits until something was sent by send(fd), and takes all of it. */
void twt_explore_receive(int fd);

/*
 * Memory whose relaxed accesses are to be ordered by others, as plain ones must be: of what is
 * atomic only because the other side may be hostile. For all runs of the program.
 */
void twt_explore_guard(const volatile void *memory, size_t bytes);

/*
 * Memory that each thread has for itself though it stands at one address: of a thread-local. At
 * most four, of 256 bytes together, for all runs of the program.
 */
void twt_explore_own(void *memory, size_t bytes);
bool twt_explore_owns(uintptr_t address);

/* A place in the code as tools know it: without what the loader has added. */
const void *twt_explore_code(const void *code);

#endif
