/*
 * extent.h - one contiguous mapping of the pool: a memfd, faulted in, and pinned where permitted.
 *
 *   | guard (2 MiB, no access) | base ....... bytes ....... | guard (at least 2 MiB) |
 *                                ^ a multiple of 2 MiB
 *
 * It is a memfd, not anonymous memory, so that a peer on the same host can map it. It takes the
 * best pages to be had: hugetlb 2 MiB, else transparent huge pages, else base pages; `reason` says
 * why it is not the first, `mend` is the line that mends it. Overruns at either end hit a guard.
 * The child of a fork does not get it.
 *
 * Whoever calls twi_extent_map owns it until twi_extent_unmap. Not for concurrent use, except that
 * base, bytes, fd, page_bytes and slot never change between map and unmap.
 */
#ifndef TWI_EXTENT_H
#define TWI_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memreg/region.h"

#define TWI_HUGE_BYTES (2u << 20)

enum twi_page_kind {
	TWI_PAGES_BASE,
	TWI_PAGES_THP,     /* base pages that the kernel has merged; known after populating */
	TWI_PAGES_HUGETLB, /* reserved huge pages */
};

struct twi_extent {
	void *base;
	uint64_t bytes; /* what was asked, rounded up to page_bytes */
	int fd;
	uint64_t page_bytes; /* unit of the mapping: 2 MiB for hugetlb, else the base page */
	uint32_t slot;       /* place in the pool's table */
	enum twi_page_kind kind;
	struct twi_region region; /* what registrars are told; set by the pool */
	bool thp_advised;         /* transparent huge pages were asked for */
	bool mlocked;
	bool touched; /* populated by touching: the kernel lacks MADV_POPULATE_WRITE */
	unsigned populate_threads;
	uint64_t populate_ns;
	uint64_t huge_bytes; /* bytes on huge pages of either kind */
	void *reserved;      /* the whole reservation with its guards */
	uint64_t reserved_bytes;
	char reason[192];     /* why not on (better) huge pages; "" when there is nothing to say */
	char mend[192];       /* the line that mends it */
	char pin_reason[192]; /* why not mlocked */
	char pin_mend[192];
};

const char *twi_page_kind_name(enum twi_page_kind kind);

/*
 * Maps `bytes` (> 0), with huge pages where wanted and to be had. Fails with TOW_EINVAL,
 * TOW_ENOMEM, TOW_ESYSTEM; then nothing stays behind.
 */
int twi_extent_map(uint64_t bytes, bool huge_pages, struct twi_extent *extent_out);

/*
 * Faults all of it in with up to `threads` threads (0: one for each CPU that we may run on).
 * Threads that cannot be made are done without. TOW_ENOMEM when the system has no memory left for
 * it.
 */
int twi_extent_populate(struct twi_extent *extent, unsigned threads);

/*
 * Locks it in memory. TOW_EPERM or TOW_ENOMEM when RLIMIT_MEMLOCK forbids it: the extent works all
 * the same, and pin_reason and pin_mend say why it is not pinned.
 */
int twi_extent_pin(struct twi_extent *extent);

void twi_extent_unmap(struct twi_extent *extent);

/* Bytes in memory now, as the kernel sees it. */
uint64_t twi_extent_resident_bytes(const struct twi_extent *extent);

/* RLIMIT_MEMLOCK as text for messages, and the line that raises it. */
void twi_memlock_describe(char *reason, size_t reason_bytes, char *mend, size_t mend_bytes);

#endif
