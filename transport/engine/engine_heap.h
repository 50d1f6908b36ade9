/*
 * engine_heap.h - what has a deadline, earliest first: an intrusive pairing heap.
 *
 * Putting in costs a comparison; taking out, of the first or of any other, O(log n) on average.
 * Nothing is allocated and nothing recurses, so that 60,000 operations that expire at once are
 * neither slow nor deep. One that is on no heap has `prev` NULL; the root points to itself.
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

/* The node is on no heap. */
void twi_heap_insert(struct twi_heap *heap, struct twi_heap_node *node, uint64_t key);

/* Removing a node that is on no heap does nothing. */
void twi_heap_remove(struct twi_heap *heap, struct twi_heap_node *node);

#endif
