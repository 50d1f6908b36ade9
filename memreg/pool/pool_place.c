/*
 * pool_place.c - places memory for a program's allocators. It counts block sizes, not requests.
 */
#include "memreg/pool/pool_place.h"

#include "diag/base/error.h"
#include "memreg/arena/arena.h"
#include "memreg/pool/pool.h"
#include "memreg/pool/pool_impl.h"
#include "memreg/region/lease.h"
#include <internal/base.h>

/* Marks the block as placed, and returns its size. */
static uint64_t mark_block(struct twi_pool *pool, const void *memory)
{
	const struct twi_extent *extent = twi_pool_find(pool, memory, 1);
	struct twi_block block;
	int status = pool->ops->find(pool->arena[extent->slot], memory, &block);

	twi_assert(status == TOW_OK);
	twi_hold_mark_placed(block.hold);
	return block.bytes;
}

static uint64_t add_placed(struct twi_pool *pool, uint64_t add, uint64_t subtract)
{
	/* The difference wraps around where it is negative, as it should. */
	return atomic_fetch_add_explicit(&pool->placed_bytes, add - subtract,
					 memory_order_relaxed) +
	       add - subtract;
}

int twi_pool_place(struct twi_pool *pool, size_t bytes, size_t align, uint64_t most_bytes,
		   void **out)
{
	int status;

	*out = NULL;
	if (align != 0 && (!twi_is_power_of_two(align) || align > TWI_ALIGN_MAX))
		return twi_error(TOW_EINVAL,
				 "tow_place: align = %zu is not a power of two up to %u, nor 0",
				 align, (unsigned)TWI_ALIGN_MAX);
	if (bytes > most_bytes)
		return TOW_EBUSY;
	if (add_placed(pool, bytes, 0) > most_bytes) {
		add_placed(pool, 0, bytes);
		return TOW_EBUSY;
	}
	status = twi_pool_try(pool, bytes, align, out);
	add_placed(pool, status == TOW_OK ? mark_block(pool, *out) : 0, bytes);
	return status;
}
