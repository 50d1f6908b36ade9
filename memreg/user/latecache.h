/*
 * latecache.h - memory of the user's that was registered at its first use, and stays registered for
 * the next.
 *
 *   use of [p, p + bytes)  --- in a user region ------------------------> that one
 *                          |-- in a cached one that is unchanged -------> that one (hit)
 *                          `-- else: watch it, register its pages ------> a new one (late, miss)
 *
 * Cached regions do not overlap: a new one takes in those it touches. The one used longest ago goes
 * when bytes, entries or slots run out, but none that a transport holds.
 *
 * A stale registration would corrupt data, so an entry is used only while watch.h can vouch for it;
 * where there is no watching, nothing is cached. An entry whose memory has changed is not found any
 * more from that moment; registrars forget it when its last hold ends. A registration of memory
 * that was discarded a moment ago serves this one use and is forgotten after it.
 *
 * Dropped entries are forgotten by whoever comes next (twi_pool_regions_settle), never by the
 * thread that watches: a registrar may free memory, and would wait for that thread.
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
	bool tried;                     /* to watch; under the control lock, like the next */
	bool able;                      /* it can be had */
	_Atomic uint64_t invalidations; /* not yet counted: the watching thread must not allocate */
};

/* For twi_pool_options.late. */
extern const struct twi_late_ops twi_latecache_ops;

/* That of a pool which was given the table. */
struct twi_latecache *twi_latecache_of(const struct twi_pool *pool);

#endif
