/*
 * arena.c - chooses the provider of a new pool.
 */
#include "memreg/arena/arena.h"

#include <stdatomic.h>

static _Atomic(const struct twi_arena_ops *) forced;

void twi_arena_force(const struct twi_arena_ops *ops)
{
	atomic_store_explicit(&forced, ops, memory_order_relaxed);
}

const struct twi_arena_ops *twi_arena_choose(void)
{
	const struct twi_arena_ops *ops = atomic_load_explicit(&forced, memory_order_relaxed);

	if (ops != NULL)
		return ops;
	return twi_arena_jemalloc_refusal() != NULL ? &twi_arena_pagerun : &twi_arena_jemalloc;
}
