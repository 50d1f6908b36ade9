/*
 * extent.h - one contiguous mapping of the pool: a memfd, faulted in, and pinned where permitted.
 *
 *   | guard (2 MiB, no access) | base ....... bytes ....... | guard (at least 2 MiB) |
 *                                ^ a multiple of 2 MiB; of 1 GiB where such pages are tried
 *
 * It is a memfd, not anonymous memory, so that a peer on the same host can map it. It takes the
 * best pages to be had: hugetlb 1 GiB, else hugetlb 2 MiB, else transparent huge pages, else base
 * pages. `step` says of each better kind why it is not that one, and which line mends it. Overruns
 * at either end hit a guard. The child of a fork does not get it.
 *
 * Whoever calls twi_extent_open or twi_extent_map owns it until twi_extent_unmap. Not for
 * concurrent use, except that base, bytes, fd, page_bytes, kind and slot never change between open
 * and unmap.
 */
#ifndef TWI_EXTENT_H
#define TWI_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memreg/os/numa.h"
#include "memreg/region/region.h"

#define TWI_HUGE_BYTES  (2u << 20)
#define TWI_GIANT_BYTES (1ull << 30)

struct twi_diag;

/* From the worst to the best. */
enum twi_page_kind {
	TWI_PAGES_BASE,
	TWI_PAGES_THP,        /* base pages that the kernel has merged; known after populating */
	TWI_PAGES_HUGETLB_2M, /* reserved huge pages */
	TWI_PAGES_HUGETLB_1G,
};
#define TWI_PAGES_KINDS 4

/* Called by the thread that populates. */
typedef void twi_extent_progress(void *user, uint64_t done_bytes, uint64_t total_bytes);

struct twi_extent_options {
	uint64_t bytes;
	enum twi_page_kind best;       /* the best that is tried; TWI_PAGES_BASE: no huge pages */
	const char *numa;              /* the knob; NULL is "" */
	twi_extent_progress *progress; /* about ten times a second; NULL: nobody is told */
	void *progress_user;
	struct twi_diag *diag; /* whose log hears of a slow one; NULL: no log */
};

/* Why the extent is not on pages of one kind. */
struct twi_page_step {
	char reason[192]; /* "": no step down from this kind, or it was not wanted */
	char mend[128];
};

struct twi_extent {
	void *base;
	uint64_t bytes; /* what was asked, rounded up to page_bytes */
	int fd;
	uint64_t page_bytes; /* unit of the mapping: that of hugetlb, else the base page */
	uint32_t slot;       /* place in the pool's table */
	enum twi_page_kind kind;
	struct twi_region region; /* what registrars are told; set by the pool */
	bool thp_advised;         /* transparent huge pages were asked for */
	bool mlocked;
	bool touched; /* populated by touching: the kernel lacks MADV_POPULATE_WRITE */
	unsigned populate_threads;
	int populate_errno; /* why it could not be populated */
	int pin_status;     /* why it is not locked in memory; TOW_OK: it is */
	uint64_t populate_ns;
	uint64_t huge_bytes; /* bytes on huge pages of any kind */
	void *reserved;      /* the whole reservation with its guards */
	uint64_t reserved_bytes;
	struct twi_page_step step[TWI_PAGES_KINDS]; /* by kind */
	char reason[640];     /* all steps down, from the best kind; "" when there is none */
	char mend[512];       /* the lines that mend them, from the nearest kind */
	char pin_reason[192]; /* why not mlocked */
	char pin_mend[192];
	struct twi_numa numa;  /* where it was to lie */
	char numa_reason[192]; /* why it is not bound there */
	char numa_mend[192];
	twi_extent_progress *progress; /* of the options */
	void *progress_user;
	struct twi_diag *diag;
};

/* "base", "thp", "hugetlb-2MiB", "hugetlb-1GiB" */
const char *twi_page_kind_name(enum twi_page_kind kind);

/*
 * Maps options->bytes (> 0), locks it in memory if that is allowed (twi_extent_pin), and faults all
 * of it in, on the best pages to be had. Reserved huge pages that turn out not to be there (a bound
 * node or a control group without them) are one more step down. TOW_EINVAL, TOW_ENOMEM, TOW_EPERM,
 * TOW_ESYSTEM; then nothing stays behind.
 */
int twi_extent_open(const struct twi_extent_options *options, struct twi_extent *extent_out);

/*
 * The two halves of twi_extent_open, without the step down between them.
 *
 * map: addresses, file and binding. Nothing stays behind after a failure.
 * populate: faults in with up to `threads` threads (0: one for each CPU that we may run on);
 * threads that cannot be made are done without. TOW_ENOMEM when the system has no memory left for
 * it; the extent is still to be unmapped.
 */
int twi_extent_map(const struct twi_extent_options *options, struct twi_extent *extent_out);
int twi_extent_populate(struct twi_extent *extent, unsigned threads);

/*
 * Locks its pages in memory as they are faulted in. It is called between map and populate: pages
 * that are there already would be walked over on one CPU, for a fifth of the time of populate.
 * TOW_EPERM or TOW_ENOMEM when RLIMIT_MEMLOCK forbids it: the extent works all the same, and
 * pin_status, pin_reason and pin_mend say why it is not pinned.
 */
int twi_extent_pin(struct twi_extent *extent);

/* It stays mapped, and is neither locked in memory nor has a file any more. */
void twi_extent_release(struct twi_extent *extent);

void twi_extent_unmap(struct twi_extent *extent);

/* Bytes in memory now, as the kernel sees it. */
uint64_t twi_extent_resident_bytes(const struct twi_extent *extent);

/* RLIMIT_MEMLOCK as text for messages, and the line that raises it. */
void twi_memlock_describe(char *reason, size_t reason_bytes, char *mend, size_t mend_bytes);

#endif
