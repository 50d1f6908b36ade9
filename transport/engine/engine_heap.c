/*
 * engine_heap.c - melds heaps, also in the two passes over the children of a removed node. See
 * engine_heap.h.
 */
#include "transport/engine/engine_heap.h"

#include <internal/base.h>

/* Melds two roots into one; of equal keys `a` stays above. */
static struct twi_heap_node *meld_heaps(struct twi_heap_node *a, struct twi_heap_node *b)
{
	struct twi_heap_node *top = a, *below = b;

	if (b->key < a->key) {
		top = b;
		below = a;
	}
	below->next = top->child;
	below->prev = top;
	if (top->child != NULL)
		top->child->prev = below;
	top->child = below;
	top->next = NULL;
	top->prev = top;
	return top;
}

/*
 * Makes one root of a list of siblings: melds pairs from the left, then all pairs from the right.
 */
static struct twi_heap_node *gather_siblings(struct twi_heap_node *first)
{
	struct twi_heap_node *pairs = NULL, *root;

	while (first != NULL) {
		struct twi_heap_node *a = first, *b = first->next, *pair = a;

		first = b != NULL ? b->next : NULL;
		if (b != NULL)
			pair = meld_heaps(a, b);
		pair->next = pairs;
		pairs = pair;
	}
	if (pairs == NULL)
		return NULL;
	root = pairs;
	pairs = pairs->next;
	root->next = NULL;
	root->prev = root;
	while (pairs != NULL) {
		struct twi_heap_node *next = pairs->next;

		root = meld_heaps(pairs, root);
		pairs = next;
	}
	return root;
}

void twi_heap_insert(struct twi_heap *heap, struct twi_heap_node *node, uint64_t key)
{
	twi_assert(!twi_heap_has(node));
	node->key = key;
	node->child = node->next = NULL;
	node->prev = node;
	heap->root = heap->root == NULL ? node : meld_heaps(heap->root, node);
}

void twi_heap_remove(struct twi_heap *heap, struct twi_heap_node *node)
{
	struct twi_heap_node *rest;

	if (node->prev == NULL)
		return;
	rest = gather_siblings(node->child);
	if (heap->root == node) {
		heap->root = rest;
	} else {
		if (node->prev->child == node)
			node->prev->child = node->next;
		else
			node->prev->next = node->next;
		if (node->next != NULL)
			node->next->prev = node->prev;
		if (rest != NULL)
			heap->root = meld_heaps(heap->root, rest);
	}
	node->child = node->next = node->prev = NULL;
}
