/*
 * watch.h - says when memory of the user's is no longer what it was: unmapped, moved, replaced or
 * given back, by whatever thread and call, also by the allocator inside free().
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
 * Why that is safe. From the first step of an unmap until its event is read the kernel answers
 * EAGAIN to our ioctl, whatever the range (`changing` counts for the whole descriptor). From before
 * the read until the user of this file has been told, busy is set. So whoever learns, from the
 * thread that unmapped, that there is other memory now, and asks after that, gets an answer other
 * than TOW_OK or finds that the range has been dropped. (It matters that busy is looked at last.)
 *
 * Nobody waits for the monitor but threads that change watched memory, and the monitor waits for
 * nobody: it only tries the lock, and reads on while it is taken. So no lock that is held anywhere,
 * by a thread that unmaps, frees or was stopped by a signal, can make a deadlock of it.
 *
 * What has no event (tried on Linux 6.18), and what is done about it:
 * - shared memory and files can be truncated or punched through any descriptor, in any process.
 *   Only private anonymous memory is watched; the rest is refused.
 * - shmat(SHM_REMAP) on top. So each check walks the range's mappings and probes each of them
 *   (before Linux 6.11, which has no cheap walk, only the first).
 * - madvise(MADV_DONTNEED) tells before it drops the pages, not after. So what was discarded a
 *   moment ago is not trusted for some time: twi_watch_unsettled.
 *
 * A probe is UFFDIO_ZEROPAGE onto a page that must be there: EEXIST, and nothing is changed. (A
 * write-protect ioctl would split the huge page under it.)
 *
 * The child of a fork has no watched memory; it closes our descriptor, so that it cannot keep
 * alive what this process has closed. A program that uses userfaultfd on the same memory gets EBUSY
 * from whichever comes second.
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
	uint32_t ticks; /* discarded: till it is settled */
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
	bool blind; /* believe everything: for the test that shows what that leads to */
	pthread_t thread;
	/* Called with the lock held: [start, end) is not what it was. */
	void (*changed)(void *arg, uint64_t start, uint64_t end);
	void *arg;
	pthread_mutex_t *lock;
	_Atomic bool busy;
	_Atomic bool broken; /* the descriptor has failed: nothing is to be trusted any more */

	/* Under the lock. */
	struct twi_watch_ranges discarded; /* a moment ago */
	uint32_t all_ticks;                /* there were too many: all of memory is unsettled */
	struct twi_watch_ranges moved;     /* watched memory that mremap has moved to here */

	char reason[192]; /* why it is not running, and what mends it */
	char mend[192];
};

/*
 * Opens and starts the monitor. TOW_OK; TOW_ENOTSUP with reason and mend: then nothing stays, and
 * stop is legal. The caller has set lock, changed and arg.
 */
int twi_watch_start(struct twi_watch *watch);

/* Nothing is watched any more (the caller has removed all ranges). */
void twi_watch_stop(struct twi_watch *watch);

/*
 * Watches whole pages. TOW_ENOTSUP with a message: not private anonymous memory, or not mapped all
 * through, or watched by someone else; TOW_ENOMEM.
 */
int twi_watch_add(struct twi_watch *watch, uint64_t start, uint64_t end);
void twi_watch_remove(struct twi_watch *watch, uint64_t start, uint64_t end);

/* With the lock held. */

/*
 * Is [start, end), a part of a watched range, the memory that it was? TOW_OK; TOW_AGAIN: some
 * mapping is being changed now, ask again; TOW_EFREED: no.
 */
int twi_watch_check(struct twi_watch *watch, uint64_t start, uint64_t end);

/* May pages of the range still be dropped by a call that was made before now? */
bool twi_watch_unsettled(const struct twi_watch *watch, uint64_t start, uint64_t end);

/* A range to which watched memory has been moved, once. */
bool twi_watch_moved(struct twi_watch *watch, uint64_t *start_out, uint64_t *end_out);

#endif
