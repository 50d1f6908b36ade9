/*
 * next.h - finds the next allocator, which is the program's own or that of another preload.
 *
 * The lookup by name may allocate. A small area of this library serves these allocations, and never
 * takes anything back.
 */
#ifndef TWM_NEXT_H
#define TWM_NEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct twm_next {
	void *(*malloc)(size_t bytes);
	void (*free)(void *memory);
	void *(*calloc)(size_t count, size_t bytes);
	void *(*realloc)(void *memory, size_t bytes);
	int (*posix_memalign)(void **out, size_t align, size_t bytes);
	void *(*aligned_alloc)(size_t align, size_t bytes);
	void *(*memalign)(size_t align, size_t bytes);
	void *(*valloc)(size_t bytes);
	void *(*pvalloc)(size_t bytes);
	size_t (*usable)(void *memory);
};

/* The calls; valid once twm_next_found is set. */
extern struct twm_next twm_next;
extern atomic_bool twm_next_found;

const struct twm_next *twm_next_find(void);

/* Returns the calls of the next allocator; NULL: this thread is looking them up now. */
static inline const struct twm_next *twm_next_get(void)
{
	/* acquire: pairs with the release in twm_next_find */
	return __builtin_expect(atomic_load_explicit(&twm_next_found, memory_order_acquire), 1)
		       ? &twm_next
		       : twm_next_find();
}

/* Returns cleared memory during the lookup; NULL: the area is used up. */
void *twm_next_early(size_t bytes, size_t align);

#define TWM_EARLY_BYTES (64u << 10)
extern unsigned char twm_early_area[TWM_EARLY_BYTES];

static inline bool twm_next_is_early(const void *memory)
{
	return (uintptr_t)memory - (uintptr_t)twm_early_area < TWM_EARLY_BYTES;
}

/* Bytes from `memory`, which lies in the area, to the end of the area. */
static inline size_t twm_next_early_room(const void *memory)
{
	return TWM_EARLY_BYTES - ((uintptr_t)memory - (uintptr_t)twm_early_area);
}

#endif
