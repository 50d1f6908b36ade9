/*
 * site.h - the call site in the user's program that caused a copy or a late registration.
 *
 * It is taken in the public call (the return address, and the calling thread's tag) and travels
 * with the operation. So an event that happens later, in any thread, still names the call site.
 *
 *	struct twi_diag_block --- sites.rows    TWI_SITE_ROWS rows of 64 bytes, found by hashing
 *	                      \-- sites.other   one cell for each reason: events without a row
 *
 * A row is one (reason, caller, tag, size class). Its thread alone writes it, with plain loads and
 * stores; a reader folds the rows of all threads. A row is never reused, so a thread can tell only
 * so many call sites apart. Events of further ones go into the cell of their reason: the sums stay
 * right, only the call site is not known. Only readers turn addresses into names (place.h).
 */
#ifndef TWI_SITE_H
#define TWI_SITE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/record/counter.h"
#include "diag/record/tag.h"

struct twi_site {
	const void *caller; /* return address in the user's program; NULL: not known */
	uint32_t tag;       /* the thread's tag at that time (tow_tag_set); 0: none */
};

#define TWI_SITE_NONE ((struct twi_site){ 0 })

/* In a public function: its call site. */
#define TWI_SITE_HERE                                                                              \
	((struct twi_site){ .caller = __builtin_return_address(0), .tag = twi_tag_current })

/* 16 KiB for each thread that ever copies; a power of two. */
#define TWI_SITE_ROWS 256
/* Neighbours that are tried before a call site counts as unknown. A table that is half full has
 * room near nearly every slot. */
#define TWI_SITE_PROBES 64

struct twi_site_cell {
	_Atomic uint64_t count, bytes, ns;
	_Atomic uint64_t max_ns; /* of the event that took longest */
	_Atomic uint64_t first_ns, last_ns;
};

struct twi_site_row {
	_Alignas(64) _Atomic uint64_t key; /* 0: free; release, with the reader's acquire */
	const void *caller;                /* set before key */
	struct twi_site_cell cell;
};

struct twi_sites {
	struct twi_site_row *_Atomic rows; /* made by the first record; release, as key */
	struct twi_site_cell other[TWI_R_COUNT];
};

/* Called by the owning thread only. About 10 ns, half of it for the clock; the first allocates. */
void twi_sites_record(struct twi_sites *sites, enum twi_reason reason, uint64_t bytes, uint64_t ns,
		      struct twi_site site);
void twi_sites_fini(struct twi_sites *sites);

/* The sum over all events of one reason, call site, tag and size class. */
struct twi_site_sum {
	struct twi_site site;
	enum twi_reason reason;
	uint32_t size_class;
	bool other; /* of all call sites without a row: site and size_class say nothing */
	uint64_t count, bytes, ns;
	uint64_t max_ns, first_ns, last_ns;
};

struct twi_diag;

/*
 * Sums over all threads, each key once, grouped by (reason, caller, tag). The caller gives the rows
 * to free(); NULL if there are none. TOW_OK or TOW_ENOMEM.
 */
int twi_site_sums(struct twi_diag *diag, struct twi_site_sum **rows_out, size_t *count_out);

#endif
