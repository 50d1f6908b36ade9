/*
 * malloc.c - the malloc family. Each call places a large allocation, and passes others on.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "plugins/malloc/blocks.h"
#include "plugins/malloc/malloc_preload.h"
#include "plugins/malloc/next.h"
#include "plugins/malloc/place.h"

/* The C library declares these with attributes of its own. Here only the exported names matter. */
void cfree(void *memory);
void *malloc(size_t bytes);
void free(void *memory);
void *calloc(size_t count, size_t bytes);
void *realloc(void *memory, size_t bytes);
void *reallocarray(void *memory, size_t count, size_t bytes);
int posix_memalign(void **out, size_t align, size_t bytes);
void *aligned_alloc(size_t align, size_t bytes);
void *memalign(size_t align, size_t bytes);
void *valloc(size_t bytes);
void *pvalloc(size_t bytes);
size_t malloc_usable_size(void *memory);

#define CALLER __builtin_return_address(0)

static void *no_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

/* Memory for a thread that is looking up the next allocator. */
static void *early_memory(size_t bytes, size_t align)
{
	void *memory = twm_next_early(bytes, align);

	return memory != NULL ? memory : no_memory();
}

static bool is_power_of_two(size_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

TWM_PUBLIC void *malloc(size_t bytes)
{
	const struct twm_next *next;
	void *memory = twm_place(bytes, 0, CALLER);

	if (memory != NULL)
		return memory;
	next = twm_next_get();
	return next != NULL ? next->malloc(bytes) : early_memory(bytes, 0);
}

TWM_PUBLIC void free(void *memory)
{
	const struct twm_next *next;

	if (memory == NULL || twm_next_is_early(memory) || twm_unplace(memory))
		return;
	next = twm_next_get();
	if (next != NULL) /* else this thread is looking it up, and has no memory of it */
		next->free(memory);
}

TWM_PUBLIC void cfree(void *memory)
{
	free(memory);
}

TWM_PUBLIC void *calloc(size_t count, size_t bytes)
{
	const struct twm_next *next;
	size_t all;
	void *memory;

	if (__builtin_mul_overflow(count, bytes, &all))
		return no_memory();
	memory = twm_place(all, 0, CALLER);
	if (memory != NULL)
		return memset(memory, 0, all);
	next = twm_next_get();
	return next != NULL ? next->calloc(count, bytes) : early_memory(all, 0);
}

static size_t usable_bytes(void *memory)
{
	const struct twm_next *next;
	size_t placed = twm_placed_bytes(memory);

	if (placed > 0)
		return placed;
	if (twm_next_is_early(memory))
		return twm_next_early_room(memory);
	next = twm_next_get();
	return next != NULL ? next->usable(memory) : 0;
}

/* Moves a block to another allocator. Without memory it returns NULL, and `was` stays. */
static void *move_block(void *was, size_t was_bytes, size_t bytes, const void *caller)
{
	void *memory = twm_place(bytes, 0, caller);

	if (memory == NULL)
		memory = twm_next_get() != NULL ? twm_next_get()->malloc(bytes)
						: early_memory(bytes, 0);
	if (memory == NULL)
		return NULL;
	memcpy(memory, was, was_bytes < bytes ? was_bytes : bytes);
	free(was);
	return memory;
}

static void *resize_block(void *memory, size_t bytes, const void *caller)
{
	size_t placed = twm_placed_bytes(memory);
	const struct twm_next *next;

	if (placed > 0 && bytes > 0) {
		/* The block stays where it is while it fits and wastes at most half. */
		if (bytes <= placed && bytes >= placed / 2)
			return memory;
		return move_block(memory, placed, bytes, caller);
	}
	if (placed > 0) { /* realloc(p, 0) frees, as glibc's does */
		free(memory);
		return NULL;
	}
	if (twm_next_is_early(memory))
		return move_block(memory, twm_next_early_room(memory), bytes, caller);
	next = twm_next_get();
	if (next == NULL)
		return no_memory();
	if (twm_would_place(bytes, caller))
		return move_block(memory, next->usable(memory), bytes, caller);
	return next->realloc(memory, bytes);
}

TWM_PUBLIC void *realloc(void *memory, size_t bytes)
{
	const struct twm_next *next;
	void *fresh;

	if (memory != NULL)
		return resize_block(memory, bytes, CALLER);
	fresh = twm_place(bytes, 0, CALLER);
	if (fresh != NULL)
		return fresh;
	next = twm_next_get();
	return next != NULL ? next->malloc(bytes) : early_memory(bytes, 0);
}

TWM_PUBLIC void *reallocarray(void *memory, size_t count, size_t bytes)
{
	size_t all;

	if (__builtin_mul_overflow(count, bytes, &all))
		return no_memory();
	return memory != NULL ? resize_block(memory, all, CALLER) : realloc(NULL, all);
}

TWM_PUBLIC int posix_memalign(void **out, size_t align, size_t bytes)
{
	const struct twm_next *next;
	void *memory = NULL;

	if (is_power_of_two(align) && align % sizeof(void *) == 0)
		memory = twm_place(bytes, align, CALLER);
	if (memory != NULL) {
		*out = memory;
		return 0;
	}
	next = twm_next_get();
	if (next != NULL)
		return next->posix_memalign(out, align, bytes);
	*out = twm_next_early(bytes, align);
	return *out != NULL ? 0 : ENOMEM;
}

TWM_PUBLIC void *aligned_alloc(size_t align, size_t bytes)
{
	const struct twm_next *next;
	void *memory = is_power_of_two(align) ? twm_place(bytes, align, CALLER) : NULL;

	if (memory != NULL)
		return memory;
	next = twm_next_get();
	return next != NULL ? next->aligned_alloc(align, bytes) : early_memory(bytes, align);
}

TWM_PUBLIC void *memalign(size_t align, size_t bytes)
{
	const struct twm_next *next;
	void *memory = is_power_of_two(align) ? twm_place(bytes, align, CALLER) : NULL;

	if (memory != NULL)
		return memory;
	next = twm_next_get();
	return next != NULL ? next->memalign(align, bytes) : early_memory(bytes, align);
}

TWM_PUBLIC void *valloc(size_t bytes)
{
	const struct twm_next *next;
	void *memory = twm_place(bytes, TWM_PAGE, CALLER);

	if (memory != NULL)
		return memory;
	next = twm_next_get();
	return next != NULL ? next->valloc(bytes) : no_memory();
}

TWM_PUBLIC void *pvalloc(size_t bytes)
{
	const struct twm_next *next;
	void *memory = twm_place(bytes, TWM_PAGE, CALLER); /* whole pages, as all placed blocks */

	if (memory != NULL)
		return memory;
	next = twm_next_get();
	return next != NULL ? next->pvalloc(bytes) : no_memory();
}

TWM_PUBLIC size_t malloc_usable_size(void *memory)
{
	return memory != NULL ? usable_bytes(memory) : 0;
}
