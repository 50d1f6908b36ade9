/*
 * latecache.h - registers the user's memory at its first use, and keeps the registration.
 *
 *   use of [p, p + bytes)  --- in a user region ------------------------> that one
 *                          |-- in a cached one that is unchanged -------> that one (hit)
 *                          `-- else: watch it, register its pages ------> a new one (late, miss)
 *
 * Cached regions do not overlap: a new region replaces those it touches. When bytes, entries or
 * slots run out, the least recently used region without holds is dropped.
 *
 * A stale registration would corrupt data. So an entry is used only while watch.h confirms that its
 * memory is unchanged. Without watching, nothing is cached. An entry whose memory has changed is no
 * longer found from that moment; registrars forget it when its last hold ends. If memory was
 * discarded a moment ago, its registration serves one use and is then forgotten.
 *
 * The next caller of twi_pool_regions_settle makes registrars forget dropped entries. The watching
 * thread never does so, because a registrar may free memory, and would then wait for that thread.
 */
#ifndef TWI_LATECACHE_H
#define TWI_LATECACHE_H

#include "memreg/pool/late.h"
#include "memreg/region/regions.h"
#include "memreg/user/watch.h"

struct twi_pool;

struct twi_latecache {
	struct twi_late late; /* first */
	struct twi_watch watch;
	uint64_t limit_bytes;
	uint32_t limit_entries;
	bool tried;                     /* watching was tried; `tried`, `able`: control lock */
	bool able;                      /* memory can be watched here */
	_Atomic uint64_t invalidations; /* uncounted: the watching thread must not allocate */
};

/* For twi_pool_options.late. */
extern const struct twi_late_ops twi_latecache_ops;

/* The late cache of a pool that was made with twi_latecache_ops. */
struct twi_latecache *twi_latecache_of(const struct twi_pool *pool);

#endif
