/*
 * pool_impl.h - struct twi_pool, for the files that implement it: pool.c (life, allocation,
 * leases), pool_registrar.c (registrations), pool_regions.c (the user's memory),
 * pool_report.c (/v1/pool, gauges), pool_view.c (what the kernel says of it).
 *
 * Locks: control before regions.lock. The first may be held for as long as pinning takes; the
 * second is never held while a registrar is called.
 */
#ifndef TWI_POOL_IMPL_H
#define TWI_POOL_IMPL_H

#include <pthread.h>

#include "memreg/arena/arena.h"
#include "memreg/pool/late.h"
#include "memreg/pool/overflow.h"
#include "memreg/pool/pool.h"
#include "memreg/region/regions.h"

/* One registrar, what came of it, and what it knows. */
struct twi_registration {
	struct twi_registration *next; /* changed under the control lock and regions.lock */
	const struct twi_registrar *registrar;
	void *ctx;
	bool registered;
	bool late;
	int status; /* the registrar's answer */
	/* Registrations of regions, ever. */
	uint64_t count, bytes, ns, failures;
	uint64_t last_bytes, last_ns, max_ns;
	/* Now. */
	uint64_t known_count, known_bytes, extent_bytes;
	uint64_t known[TWI_SLOT_WORDS]; /* a bit for the first slot of each; under regions.lock */
	char reason[256];               /* why not registered */
	char mend[192];
};

/* What a gauge is asked by: its pool and the place of its value in struct twi_pool_stats. */
struct twi_pool_gauge {
	struct twi_pool *pool;
	size_t offset;
};

#define TWI_POOL_GAUGES      15
#define TWI_POOL_VIEW_GAUGES 5

struct twi_pool_view; /* what the kernel says: pool_view.h */

struct twi_pool {
	struct twi_extent_table extents; /* first: twi_pool_find knows it there */
	const struct twi_arena_ops *ops;
	void *arena[TWI_EXTENTS_MAX]; /* by slot; set before the extent is published */
	struct twi_diag *diag;
	uint64_t asked_bytes;
	bool strict, require_zero_copy;
	struct twi_extent_options pages; /* of every extent; bytes as it comes */
	char numa[17];
	enum twi_exhaust exhaust;
	uint64_t limit_bytes;
	pthread_mutex_t growing; /* one thread makes an extent, the others wait for it */
	struct twi_overflow overflow;
	_Atomic uint64_t deferred_bytes;
	_Atomic uint64_t placed_bytes; /* pool_place.h */
	_Atomic uint64_t own_bytes, own_allocations;
	pthread_mutex_t room_lock; /* with room: somebody has freed something */
	pthread_cond_t room;
	_Atomic uint32_t room_waiters;
	_Atomic bool sealed;
	bool reported;                       /* /v1/pool is registered */
	bool detached;                       /* of all but its memory */
	_Atomic(twi_pool_returns *) returns; /* NULL: nobody listens */
	void *returns_user;

	pthread_mutex_t control; /* registrations */
	struct twi_registration *registrations;
	struct twi_regions regions;
	struct twi_late *late; /* NULL: none */

	_Atomic int64_t leased_bytes; /* signed: an end may be counted before its begin */
	_Atomic int64_t leased_peak_bytes;
	_Atomic uint64_t demand_bytes;  /* of requests that failed */
	_Atomic uint64_t refused_bytes; /* by requests that failed, since the last free */
	_Atomic uint64_t enough_bytes;  /* pool size that would have been enough for them */
	/* At the end of the first extent, the least that was free when others had to help out. */
	_Atomic uint64_t spare_bytes;
	_Atomic uint64_t exhausted;
	struct twi_pool_gauge gauge[TWI_POOL_GAUGES];
	struct twi_pool_gauge view_gauge[TWI_POOL_VIEW_GAUGES];
	struct twi_pool_view *view;
};

/* Registers /v1/pool and the gauges with diag. */
int twi_pool_report_add(struct twi_pool *pool);
void twi_pool_report_remove(struct twi_pool *pool);

/* Maps, populates and pins an extent, makes its arena, registers and publishes it. */
int twi_pool_extent_create(struct twi_pool *pool, const struct twi_extent_options *options);

/* The first extent with room for it. */
bool twi_pool_extents_alloc(struct twi_pool *pool, size_t bytes, size_t align, void **out);

/* No extent has room: what the policy says. TOW_OK, TOW_EEXHAUSTED. exhaust.c */
int twi_pool_exhausted(struct twi_pool *pool, size_t bytes, size_t align, struct twi_site site,
		       void **out);

void twi_pool_registrars_clear(struct twi_pool *pool);

/*
 * Tells every registrar that is registered of a region, or none: a failure undoes the others and
 * is returned with its message. The time that they took together is in *ns_out. The control lock
 * is held, in both; forget is for what announce has told.
 */
int twi_pool_announce(struct twi_pool *pool, const struct twi_region *region, uint64_t *ns_out);
void twi_pool_forget(struct twi_pool *pool, const struct twi_region *region);

/*
 * TOW_OK while some registrar takes regions, or none is there. Else, where one was not permitted to
 * pin the pool, its failure. The control lock is held.
 */
int twi_pool_pinning(const struct twi_pool *pool);

#endif
