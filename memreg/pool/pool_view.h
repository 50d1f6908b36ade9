/*
 * pool_view.h - what the kernel says of the pool's memory: resident, locked, pinned, by node.
 *
 * Looking reads /proc/self/smaps and numa_maps, for which the kernel walks all page tables of the
 * process, and the fdinfo of every ring. So a look that took long is kept for twenty times as long
 * as it took: whoever asks again and again costs a twentieth of one core at most.
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
	bool nodes_known; /* numa_maps likewise */
	struct twi_range_view extent[TWI_EXTENTS_MAX];
	uint64_t pinned_bytes[TWI_EXTENTS_MAX]; /* registered with some ring, counted once */
	struct twi_pinned process;
};

/* One node's part of the pool. */
struct twi_pool_node {
	uint64_t resident, mlocked, pinned; /* the latter two of extents that are wholly so */
};

/* TOW_OK, TOW_ENOMEM: makes pool->view. */
int twi_pool_view_create(struct twi_pool *pool);
void twi_pool_view_destroy(struct twi_pool *pool);

/*
 * The view: looked at now, or one that is no older than `old_ns`, or kept because it was dear. It
 * is the caller's until the release. Takes the pool's control lock on the way.
 */
const struct twi_pool_view *twi_pool_view_acquire(struct twi_pool *pool, uint64_t old_ns);
void twi_pool_view_release(struct twi_pool *pool);

/* Bytes in memory of one extent, on whatever pages. */
static inline uint64_t twi_pool_view_resident(const struct twi_pool_view *view, uint32_t extent)
{
	return view->extent[extent].rss + view->extent[extent].hugetlb;
}

/* The part that lies on `node`. */
void twi_pool_view_node(struct twi_pool *pool, const struct twi_pool_view *view, unsigned node,
			struct twi_pool_node *out);

/* Members of /v1/pool, and of the object of its extent `index`. */
void twi_pool_view_emit(struct twi_pool *pool, const struct twi_pool_view *view,
			struct twi_emit *e);
void twi_pool_view_emit_extent(const struct twi_pool_view *view, uint32_t index,
			       struct twi_emit *e);

/* The gauges of the view: add and remove them with pool->diag. */
int twi_pool_view_gauges_add(struct twi_pool *pool);
void twi_pool_view_gauges_remove(struct twi_pool *pool);

#endif
