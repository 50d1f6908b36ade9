/*
 * blocks.h - the blocks that are placed in the pool: where each lies, how long it is, and whose
 * pool it is of. Every block begins and ends on a page, so that no two share one.
 *
 * The table lies in memory of its own, and grows by doubling. The caller holds twm_lock.
 */
#ifndef TWM_BLOCKS_H
#define TWM_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include <towline/runtime.h>

#define TWM_PAGE 4096u

struct twm_block {
	void *memory; /* NULL: a free row of the table */
	size_t bytes; /* whole pages */
	struct tow_runtime *runtime;
	void *copy;  /* between the two halves of a fork: what its child gets; else NULL */
	bool copied; /* it is such a child's own memory now, and of no pool */
};

/* False: no memory for the table. */
bool twm_blocks_add(const struct twm_block *block);
/* NULL: none begins there. It stays until the table changes. */
struct twm_block *twm_blocks_find(const void *memory);
void twm_blocks_remove(struct twm_block *block);

/* The rows in any order, NULL behind the last; begin with NULL. */
struct twm_block *twm_blocks_next(struct twm_block *block);

size_t twm_blocks_count(void);

#endif
