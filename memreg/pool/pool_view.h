/*
 * pool_view.h - the kernel's view of the pool's memory: resident, locked, pinned, by node.
 *
 * A look reads /proc/self/smaps and numa_maps, for which the kernel walks all page tables of the
 * process, and the fdinfo of every ring. A look that took 10 ms or more is kept for 20 times its
 * CPU time. So a caller that asks continuously costs at most a twentieth of one core. For gauges
 * each look is kept for 1 s and for 500 times its CPU time, whichever is longer.
 */
#ifndef TWI_POOL_VIEW_H
#define TWI_POOL_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "memreg/os/pinned.h"
#include "memreg/os/procfs.h"
#include "memreg/pool/pool.h"

struct twi_emit;

struct twi_pool_view {
	uint64_t at_ns;   /* when the look began */
	uint64_t cost_ns; /* CPU time that it took */
	uint32_t extents;
	bool known;       /* smaps could be read */
	bool nodes_known; /* numa_maps could be read */
	struct twi_range_view extent[TWI_EXTENTS_MAX];
	uint64_t pinned_bytes[TWI_EXTENTS_MAX]; /* registered with some ring, each byte once */
	struct twi_pinned process;
};

/* The part of the pool on one node. */
struct twi_pool_node {
	uint64_t resident, mlocked, pinned; /* the last two only of wholly locked, pinned extents */
};

/* Makes pool->view. TOW_OK, TOW_ENOMEM. */
int twi_pool_view_create(struct twi_pool *pool);
void twi_pool_view_destroy(struct twi_pool *pool);

/*
 * Returns a view that the caller holds until the release. A kept view is returned when it is no
 * older than `old_ns`, or when the look was expensive. A new look takes the pool's control lock.
 */
const struct twi_pool_view *twi_pool_view_acquire(struct twi_pool *pool, uint64_t old_ns);
void twi_pool_view_release(struct twi_pool *pool);

/* Bytes of one extent that are in memory, on pages of any kind. */
static inline uint64_t twi_pool_view_resident(const struct twi_pool_view *view, uint32_t extent)
{
	return view->extent[extent].rss + view->extent[extent].hugetlb;
}

/* The part of the pool that lies on `node`. */
void twi_pool_view_node(struct twi_pool *pool, const struct twi_pool_view *view, unsigned node,
			struct twi_pool_node *out);

/* Emits members of /v1/pool, and members of its extent `index`. */
void twi_pool_view_emit(struct twi_pool *pool, const struct twi_pool_view *view,
			struct twi_emit *e);
void twi_pool_view_emit_extent(const struct twi_pool_view *view, uint32_t index,
			       struct twi_emit *e);

/* Adds the gauges of the view to pool->diag, and removes them. */
int twi_pool_view_gauges_add(struct twi_pool *pool);
void twi_pool_view_gauges_remove(struct twi_pool *pool);

#endif
