/*
 * watch.h - reports when the user's memory is no longer what it was: unmapped, moved, replaced or
 * given back. It reports this for any thread and any call, also for the allocator inside free().
 *
 * How. userfaultfd, with ranges registered in write-protect mode and nothing protected: no fault is
 * ever delivered, only the events UNMAP, REMAP and REMOVE. The thread that unmaps sleeps in the
 * kernel until its event has been read.
 *
 *   thread that unmaps             monitor                          thread that asks (lock held)
 *   munmap: changing++, unmaps
 *   queues the event, sleeps       busy = 1
 *                                  read() ------------------.       twi_watch_check:
 *   wakes, changing--, returns                              |         changing?  -> TOW_AGAIN
 *   maps, fills, tells others      lock; changed(); busy = 0          busy?      -> TOW_AGAIN
 *
 * Why that is safe. From the first step of an unmap until its event is read, the kernel answers
 * EAGAIN to our ioctl. This holds for any range, as `changing` is per descriptor. `busy` is set
 * from before the read until the user of this file has got the changes. A thread may learn from the
 * unmapping thread that other memory is mapped there now. If it asks after that, it does not get
 * TOW_OK, or it finds that the range was dropped. (The check must read `busy` last.)
 *
 * Only threads that change watched memory wait for the monitor. The monitor waits for no thread: it
 * only tries the lock, and reads on while the lock is taken. A thread that unmaps, frees or was
 * stopped by a signal may hold any lock. Even so there is no deadlock.
 *
 * Changes without an event (tried on Linux 6.18), and the measure against each:
 * - Any process can truncate or punch shared memory and files through any descriptor. So only
 *   private anonymous memory is watched; other memory is refused.
 * - shmat(SHM_REMAP) on top. So each check walks the range's mappings and probes each of them
 *   (before Linux 6.11, which has no cheap walk, only the first).
 * - madvise(MADV_DONTNEED) sends its event before it drops the pages, not after. So memory that was
 *   discarded a moment ago is not trusted for some time: twi_watch_unsettled.
 *
 * A probe is UFFDIO_ZEROPAGE onto a page that must be present: it returns EEXIST and changes
 * nothing. (A write-protect ioctl would split the huge page under it.)
 *
 * The child of a fork has no watched memory. It closes our descriptor, so that it cannot keep alive
 * what this process has closed. If a program uses userfaultfd on the same memory, the second of the
 * two gets EBUSY.
 */
#ifndef TWI_WATCH_H
#define TWI_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TWI_WATCH_RANGES 32

struct twi_watch_range {
	uint64_t start, end;
	uint32_t ticks; /* discarded ranges: ticks until it is settled */
};

struct twi_watch_ranges {
	struct twi_watch_range range[TWI_WATCH_RANGES];
	uint32_t count;
};

struct twi_watch {
	int fd, maps_fd, stop_fd;
	uint64_t page_bytes;
	bool running;
	bool walks; /* the kernel has PROCMAP_QUERY */
	bool blind; /* accept everything: for the test that shows the consequence */
	pthread_t thread;
	/* Called with the lock held: [start, end) is no longer what it was. */
	void (*changed)(void *arg, uint64_t start, uint64_t end);
	void *arg;
	pthread_mutex_t *lock;
	_Atomic bool busy;
	_Atomic bool broken; /* the descriptor has failed: no check succeeds any more */

	/* Under the lock. */
	struct twi_watch_ranges discarded; /* discarded a moment ago */
	uint32_t all_ticks;                /* too many ranges: all memory is unsettled so long */
	struct twi_watch_ranges moved;     /* targets of mremap of watched memory */

	char reason[192]; /* why the monitor is not running, and what helps */
	char mend[192];
};

/*
 * Opens the descriptor and starts the monitor. The caller has set lock, changed and arg. TOW_OK, or
 * TOW_ENOTSUP with reason and mend. After a failure nothing stays behind, and stop is legal.
 */
int twi_watch_start(struct twi_watch *watch);

/* Ends the monitor. The caller has removed all ranges. */
void twi_watch_stop(struct twi_watch *watch);

/*
 * Watches whole pages. TOW_ENOTSUP with a message: not all of it is private anonymous memory,
 * or something else watches it. TOW_ENOMEM.
 */
int twi_watch_add(struct twi_watch *watch, uint64_t start, uint64_t end);
void twi_watch_remove(struct twi_watch *watch, uint64_t start, uint64_t end);

/* The caller of everything below holds the lock. */

/*
 * Tests whether [start, end), a part of a watched range, is still the same memory. TOW_OK: it is.
 * TOW_AGAIN: a mapping is being changed now; ask again. TOW_EFREED: it is not.
 */
int twi_watch_check(struct twi_watch *watch, uint64_t start, uint64_t end);

/* True when a call that was made before now may still drop pages of the range. */
bool twi_watch_unsettled(const struct twi_watch *watch, uint64_t start, uint64_t end);

/* Takes a range to which watched memory was moved. False: there is none. */
bool twi_watch_moved(struct twi_watch *watch, uint64_t *start_out, uint64_t *end_out);

#endif
