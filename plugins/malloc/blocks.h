/*
 * blocks.h - a table of the blocks that are placed in the pool, with address, length and runtime.
 *
 * Every block begins and ends on a page, so that no two blocks share one. The table has a mapping
 * of its own, and grows by doubling. The caller holds twm_lock.
 */
#ifndef TWM_BLOCKS_H
#define TWM_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include <towline/runtime.h>

#define TWM_PAGE 4096u

struct twm_block {
	void *memory; /* NULL: a free row of the table */
	size_t bytes; /* whole pages; 0: a forked child has neither the memory nor the address */
	struct tow_runtime *runtime;
	void *copy;  /* while a fork is under way: the copy for the child; else NULL */
	bool copied; /* the block is private memory of a forked child, and of no pool */
};

/* Adds a row. False: there is no memory for the table. */
bool twm_blocks_add(const struct twm_block *block);
/* Finds the block that begins at `memory`; NULL: none. Valid until the table changes. */
struct twm_block *twm_blocks_find(const void *memory);
void twm_blocks_remove(struct twm_block *block);

/* Walks the rows in any order: the first one after NULL, NULL after the last one. */
struct twm_block *twm_blocks_next(struct twm_block *block);

size_t twm_blocks_count(void);

#endif
