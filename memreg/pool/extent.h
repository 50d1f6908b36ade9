/*
 * extent.h - one contiguous mapping of the pool: a memfd, faulted in, and pinned where permitted.
 *
 *   | guard (2 MiB, no access) | base ....... bytes ....... | guard (at least 2 MiB) |
 *                                ^ a multiple of 2 MiB; of 1 GiB where such pages are tried
 *
 * An extent is a memfd, not anonymous memory, so that a peer on the same host can map it. It uses
 * the best pages that are available: hugetlb 1 GiB, else hugetlb 2 MiB, else transparent huge
 * pages, else base pages. `step` holds why each better kind was not used, and the command that
 * mends it. An overrun at either end hits a guard. A forked child does not inherit the extent.
 *
 * The caller of twi_extent_open or twi_extent_map owns the extent until twi_extent_unmap. An extent
 * is not for concurrent use, with one exception: base, bytes, fd, page_bytes, kind and slot never
 * change between open and unmap.
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

/* Ordered from the worst kind to the best. */
enum twi_page_kind {
	TWI_PAGES_BASE,
	TWI_PAGES_THP,        /* base pages that the kernel merged; known after populating */
	TWI_PAGES_HUGETLB_2M, /* reserved huge pages */
	TWI_PAGES_HUGETLB_1G,
};
#define TWI_PAGES_KINDS 4

/* The thread that populates calls it. */
typedef void twi_extent_progress(void *user, uint64_t done_bytes, uint64_t total_bytes);

struct twi_extent_options {
	uint64_t bytes;
	enum twi_page_kind best;       /* the best kind to try; TWI_PAGES_BASE: no huge pages */
	const char *numa;              /* the knob; NULL is "" */
	twi_extent_progress *progress; /* called about ten times a second; NULL: no callback */
	void *progress_user;
	struct twi_diag *diag; /* its log gets the progress of a slow populate; NULL: no log */
};

/* Why the extent is not on pages of one kind. */
struct twi_page_step {
	char reason[192]; /* "": there is no step down from this kind, or it was not wanted */
	char mend[128];
};

struct twi_extent {
	void *base;
	uint64_t bytes; /* the requested size, rounded up to page_bytes */
	int fd;
	uint64_t page_bytes; /* page size of the mapping: the hugetlb page, else the base page */
	uint32_t slot;       /* index in the pool's table */
	enum twi_page_kind kind;
	struct twi_region region; /* what registrars get; set by the pool */
	bool thp_advised;         /* transparent huge pages were asked for */
	bool mlocked;
	bool touched; /* populated by writing, because the kernel lacks MADV_POPULATE_WRITE */
	unsigned populate_threads;
	int populate_errno; /* why populating failed */
	int pin_status;     /* why the extent is not locked in memory; TOW_OK: it is locked */
	uint64_t populate_ns;
	uint64_t huge_bytes; /* bytes on huge pages of any kind */
	void *reserved;      /* start of the whole reservation, guards included */
	uint64_t reserved_bytes;
	struct twi_page_step step[TWI_PAGES_KINDS]; /* by kind */
	char reason[640];     /* reasons of all steps, best kind first; "" without a step */
	char mend[512];       /* commands that mend the steps, nearest kind first */
	char pin_reason[192]; /* why the extent is not locked in memory */
	char pin_mend[192];
	struct twi_numa numa;  /* the nodes that were asked for */
	char numa_reason[192]; /* why the extent is not bound to them */
	char numa_mend[192];
	twi_extent_progress *progress; /* copied from the options */
	void *progress_user;
	struct twi_diag *diag;
};

/* "base", "thp", "hugetlb-2MiB", "hugetlb-1GiB" */
const char *twi_page_kind_name(enum twi_page_kind kind);

/*
 * Maps options->bytes (> 0) on the best available pages, locks them in memory if that is permitted
 * (twi_extent_pin), and faults all of them in. Reserved huge pages may turn out to be missing, on a
 * bound node or in a control group without them. The extent then steps down to the next kind.
 * Returns TOW_EINVAL, TOW_ENOMEM, TOW_EPERM or TOW_ESYSTEM; after a failure nothing stays behind.
 */
int twi_extent_open(const struct twi_extent_options *options, struct twi_extent *extent_out);

/*
 * The two halves of twi_extent_open, without the step down between them.
 *
 * map makes the addresses, the file and the binding. Nothing stays behind after a failure.
 * populate faults the extent in with up to `threads` threads; 0 means one for each CPU that the
 * process may use. It continues with fewer threads when some cannot be made. Returns TOW_ENOMEM
 * when the system has too little memory; the caller must still unmap the extent.
 */
int twi_extent_map(const struct twi_extent_options *options, struct twi_extent *extent_out);
int twi_extent_populate(struct twi_extent *extent, unsigned threads);

/*
 * Locks the extent's pages in memory as they are faulted in. Call it between map and populate: the
 * kernel would walk over present pages on one CPU, which takes a fifth of the time of populate.
 * Returns TOW_EPERM or TOW_ENOMEM when RLIMIT_MEMLOCK forbids the lock. The extent works without
 * it; pin_status, pin_reason and pin_mend say why it is not pinned.
 */
int twi_extent_pin(struct twi_extent *extent);

/* Unlocks the extent and closes its file. The extent stays mapped. */
void twi_extent_release(struct twi_extent *extent);

void twi_extent_unmap(struct twi_extent *extent);

/* Bytes of the extent that are in memory now, by mincore. */
uint64_t twi_extent_resident_bytes(const struct twi_extent *extent);

/* Writes RLIMIT_MEMLOCK as text for messages, and the command that raises it. */
void twi_memlock_describe(char *reason, size_t reason_bytes, char *mend, size_t mend_bytes);

#endif
