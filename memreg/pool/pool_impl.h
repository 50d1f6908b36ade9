/*
 * pool_impl.h - struct twi_pool, for the files that implement it.
 *
 *   pool.c            create and destroy, allocations, leases
 *   exhaust.c         the policies of a full pool
 *   pool_place.c      memory for a program's allocators
 *   pool_registrar.c  registrations
 *   pool_regions.c    the user's memory
 *   pool_report.c     /v1/pool, gauges
 *   pool_view.c       the kernel's view of the pool
 *
 * Lock order: control before regions.lock. A thread may hold control for as long as pinning takes.
 * No thread holds regions.lock while it calls a registrar.
 */
#ifndef TWI_POOL_IMPL_H
#define TWI_POOL_IMPL_H

#include <pthread.h>

#include "memreg/arena/arena.h"
#include "memreg/pool/late.h"
#include "memreg/pool/overflow.h"
#include "memreg/pool/pool.h"
#include "memreg/region/regions.h"

/* One registrar, the result of its registration, and the regions that it knows. */
struct twi_registration {
	struct twi_registration *next; /* changed under the control lock and regions.lock */
	const struct twi_registrar *registrar;
	void *ctx;
	bool registered;
	bool late;
	int status; /* the registrar's answer */
	/* All registrations of regions so far. */
	uint64_t count, bytes, ns, failures;
	uint64_t last_bytes, last_ns, max_ns;
	/* The regions that it knows now. */
	uint64_t known_count, known_bytes, extent_bytes;
	uint64_t known[TWI_SLOT_WORDS]; /* a bit for each region's first slot; under regions.lock */
	char reason[256];               /* why not registered */
	char mend[192];
};

/* Argument of a gauge: its pool, and the offset of its value in struct twi_pool_stats. */
struct twi_pool_gauge {
	struct twi_pool *pool;
	size_t offset;
};

#define TWI_POOL_GAUGES      15
#define TWI_POOL_VIEW_GAUGES 5

struct twi_pool_view; /* the kernel's view of the pool: pool_view.h */

struct twi_pool {
	struct twi_extent_table extents; /* first: twi_pool_find expects it there */
	const struct twi_arena_ops *ops;
	void *arena[TWI_EXTENTS_MAX]; /* by slot; set before the extent is published */
	struct twi_diag *diag;
	uint64_t asked_bytes;
	bool strict, require_zero_copy;
	struct twi_extent_options pages; /* for every extent; each sets its own bytes */
	char numa[17];
	enum twi_exhaust exhaust;
	uint64_t limit_bytes;
	pthread_mutex_t growing; /* held by the thread that makes an extent */
	struct twi_overflow overflow;
	_Atomic uint64_t deferred_bytes;
	_Atomic uint64_t placed_bytes; /* pool_place.h */
	_Atomic uint64_t own_bytes, own_allocations;
	pthread_mutex_t room_lock; /* with `room`, which is signalled after a free */
	pthread_cond_t room;
	_Atomic uint32_t room_waiters;
	_Atomic bool sealed;
	bool reported;                       /* /v1/pool is registered */
	bool detached;                       /* twi_pool_detach was called */
	_Atomic(twi_pool_returns *) returns; /* NULL: no callback */
	void *returns_user;

	pthread_mutex_t control; /* registrations */
	struct twi_registration *registrations;
	struct twi_regions regions;
	struct twi_late *late; /* NULL: none */

	_Atomic int64_t leased_bytes; /* signed: an end may be counted before its begin */
	_Atomic int64_t leased_peak_bytes;
	_Atomic uint64_t demand_bytes;  /* the most that was allocated plus refused */
	_Atomic uint64_t refused_bytes; /* sum of requests refused since the last free */
	_Atomic uint64_t enough_bytes;  /* pool size that would have had room for them */
	/* Least free space at the first extent's end when a request was met elsewhere. */
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

/* Allocates from the first extent with room. False: none has room. */
bool twi_pool_extents_alloc(struct twi_pool *pool, size_t bytes, size_t align, void **out);

/* Applies the policy when no extent has room. TOW_OK, TOW_EEXHAUSTED. exhaust.c */
int twi_pool_exhausted(struct twi_pool *pool, size_t bytes, size_t align, struct twi_site site,
		       void **out);

void twi_pool_registrars_clear(struct twi_pool *pool);

/*
 * announce gives a region to every registrar that is registered, or to none. A failure undoes the
 * earlier ones, and is returned with its message. *ns_out is the time of all registrars together.
 * forget undoes announce. The control lock is held in both.
 */
int twi_pool_announce(struct twi_pool *pool, const struct twi_region *region, uint64_t *ns_out);
void twi_pool_forget(struct twi_pool *pool, const struct twi_region *region);

/*
 * TOW_OK while some registrar is registered, or none was refused. Otherwise the failure of a
 * registrar that was not permitted to pin the pool. The control lock is held.
 */
int twi_pool_pinning(const struct twi_pool *pool);

#endif
