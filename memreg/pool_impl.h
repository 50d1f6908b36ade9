/*
 * pool_impl.h - struct twi_pool, for the files that implement it: pool.c (life, allocation,
 * leases), pool_registrar.c (registrations), pool_report.c (/v1/pool, gauges), pool_view.c (what
 * the kernel says of it).
 */
#ifndef TWI_POOL_IMPL_H
#define TWI_POOL_IMPL_H

#include <pthread.h>

#include "memreg/arena.h"
#include "memreg/pool.h"

/* One registrar and what came of it. */
struct twi_registration {
	struct twi_registration *next;
	const struct twi_registrar *registrar;
	void *ctx;
	bool registered;
	bool late;
	int status; /* the registrar's answer */
	uint64_t bytes, ns;
	char reason[256]; /* why not registered */
	char mend[192];
};

/* What a gauge is asked by: its pool and the place of its value in struct twi_pool_stats. */
struct twi_pool_gauge {
	struct twi_pool *pool;
	size_t offset;
};

#define TWI_POOL_GAUGES      12
#define TWI_POOL_VIEW_GAUGES 5

struct twi_pool_view; /* what the kernel says: pool_view.h */

struct twi_pool {
	struct twi_extent_table extents; /* first: twi_pool_find knows it there */
	const struct twi_arena_ops *ops;
	void *arena[TWI_EXTENTS_MAX]; /* by slot; set before the extent is published */
	struct twi_diag *diag;
	uint64_t asked_bytes;
	uint64_t region_generation; /* the last one given */
	uint32_t next_slot;
	bool strict;
	_Atomic bool sealed;
	bool reported; /* /v1/pool is registered */

	pthread_mutex_t control; /* registrations */
	struct twi_registration *registrations;

	_Atomic int64_t leased_bytes; /* signed: an end may be counted before its begin */
	_Atomic int64_t leased_peak_bytes;
	_Atomic uint64_t demand_bytes;  /* of requests that failed */
	_Atomic uint64_t refused_bytes; /* by requests that failed, since the last free */
	_Atomic uint64_t enough_bytes;  /* pool size that would have been enough for them */
	_Atomic uint64_t exhausted;
	struct twi_pool_gauge gauge[TWI_POOL_GAUGES];
	struct twi_pool_gauge view_gauge[TWI_POOL_VIEW_GAUGES];
	struct twi_pool_view *view;
};

/* Registers /v1/pool and the gauges with diag. */
int twi_pool_report_add(struct twi_pool *pool);
void twi_pool_report_remove(struct twi_pool *pool);

void twi_pool_registrars_clear(struct twi_pool *pool);

#endif
