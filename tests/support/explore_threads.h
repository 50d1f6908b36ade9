/*
 * explore_threads.h - who runs: for what stands in place of the compiler's and the system's calls.
 * See explore.h.
 */
#ifndef TWT_EXPLORE_THREADS_H
#define TWT_EXPLORE_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/* Is an explored thread running? Else what happens is nobody's. */
bool twt_explore_inside(void);
unsigned twt_explore_self(void);

/* Before a step that others can see: another thread may go on first. `what` is for the log. */
void twt_explore_point(const char *what, uintptr_t address, const void *code);
/* The same before an access to memory, where only one thread's are nobody else's concern. */
void twt_explore_access(const char *what, uintptr_t address, bool store, const void *code);
/* What it brought. */
void twt_explore_note(uint64_t value);

/* Something was stored: those who have yielded may go on. */
void twt_explore_stored(void);

/*
 * Waits to be woken at `address`. False: its time was over, which can be where `timed`, and when
 * nobody else can go on.
 */
bool twt_explore_sleep(uintptr_t address, bool timed);
/* Wakes up to `most` of those who sleep there; returns how many. */
unsigned twt_explore_wake(uintptr_t address, unsigned most);

/* Before each run: nothing was sent. */
void twt_explore_system_begin(void);

/* The run's time: moves on with every step, and jumps when all wait. */
uint64_t twt_explore_now_ns(void);

#endif
