/*
 * engine_heap.h - nodes with deadlines, the earliest first: an intrusive pairing heap.
 *
 * An insertion costs one comparison. A removal, of the first node or of any other, costs O(log n)
 * on average. Nothing is allocated and nothing recurses, so 60,000 operations that expire at once
 * are neither slow nor deep. A node that is on no heap has `prev` NULL; the `prev` of the root is
 * the root.
 */
#ifndef TWI_ENGINE_HEAP_H
#define TWI_ENGINE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct twi_heap_node {
	uint64_t key;
	struct twi_heap_node *child; /* the leftmost */
	struct twi_heap_node *next;  /* sibling to the right */
	struct twi_heap_node *prev;  /* sibling to the left, or the parent */
};

struct twi_heap {
	struct twi_heap_node *root; /* the smallest key; NULL: empty */
};

static inline bool twi_heap_has(const struct twi_heap_node *node)
{
	return node->prev != NULL;
}

/* Inserts a node that is on no heap. */
void twi_heap_insert(struct twi_heap *heap, struct twi_heap_node *node, uint64_t key);

/* Removes a node. It does nothing for a node that is on no heap. */
void twi_heap_remove(struct twi_heap *heap, struct twi_heap_node *node);

#endif
