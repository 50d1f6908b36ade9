/*
 * blocks.c - the table of blocks.h, a hash table with open addressing. Removing a row closes its
 * gap.
 */
#include "plugins/malloc/blocks.h"

#include <stdint.h>
#include <sys/mman.h>

#define FIRST_ROWS 1024u

static struct twm_block *rows;
static size_t capacity, count; /* capacity: a power of two, or 0 */

/* Fibonacci hashing of the page number (Knuth, The Art of Computer Programming 3, 6.4). */
static size_t place_of(const void *memory)
{
	return (size_t)(((uintptr_t)memory / TWM_PAGE * 0x9e3779b97f4a7c15u) >> 20) &
	       (capacity - 1);
}

static struct twm_block *row_of(const void *memory)
{
	size_t at = place_of(memory);

	while (rows[at].memory != NULL && rows[at].memory != memory)
		at = (at + 1) & (capacity - 1);
	return &rows[at];
}

static bool grow_table(void)
{
	struct twm_block *old = rows;
	size_t old_capacity = capacity;
	size_t bytes = (capacity > 0 ? 2 * capacity : FIRST_ROWS) * sizeof(*rows);
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return false;
	rows = at;
	capacity = bytes / sizeof(*rows);
	for (size_t i = 0; i < old_capacity; i++) {
		if (old[i].memory != NULL)
			*row_of(old[i].memory) = old[i];
	}
	if (old != NULL)
		munmap(old, old_capacity * sizeof(*old));
	return true;
}

bool twm_blocks_add(const struct twm_block *block)
{
	if (count >= capacity / 4 * 3 && !grow_table())
		return false;
	*row_of(block->memory) = *block;
	count++;
	return true;
}

struct twm_block *twm_blocks_find(const void *memory)
{
	struct twm_block *row;

	if (count == 0)
		return NULL;
	row = row_of(memory);
	return row->memory != NULL ? row : NULL;
}

void twm_blocks_remove(struct twm_block *block)
{
	size_t gap = (size_t)(block - rows);

	/* A later row moves into the gap where the search for it would end at the gap. */
	for (size_t at = (gap + 1) & (capacity - 1); rows[at].memory != NULL;
	     at = (at + 1) & (capacity - 1)) {
		size_t home = place_of(rows[at].memory);

		if (((at - home) & (capacity - 1)) >= ((at - gap) & (capacity - 1))) {
			rows[gap] = rows[at];
			gap = at;
		}
	}
	rows[gap] = (struct twm_block){ .memory = NULL };
	count--;
}

struct twm_block *twm_blocks_next(struct twm_block *block)
{
	for (size_t i = block == NULL ? 0 : (size_t)(block - rows) + 1; i < capacity; i++) {
		if (rows[i].memory != NULL)
			return &rows[i];
	}
	return NULL;
}

size_t twm_blocks_count(void)
{
	return count;
}
