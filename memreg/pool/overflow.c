/*
 * overflow.c - a sorted index of blocks; overflow.h has the concept.
 */
#include "memreg/pool/overflow.h"

#include <stdlib.h>
#include <string.h>

#include "memreg/region/lease.h"
#include <internal/base.h>
#include <towline/status.h>

void twi_overflow_init(struct twi_overflow *overflow)
{
	*overflow = (struct twi_overflow){ .room = 0 };
	pthread_mutex_init(&overflow->lock, NULL);
}

void twi_overflow_fini(struct twi_overflow *overflow)
{
	uint32_t count = atomic_load_explicit(&overflow->count, memory_order_relaxed);

	for (uint32_t i = 0; i < count; i++) {
		free(overflow->index[i]->base);
		free(overflow->index[i]);
	}
	free(overflow->index);
	pthread_mutex_destroy(&overflow->lock);
}

/* The index of the first block that begins above p. */
static uint32_t place_above(const struct twi_overflow *overflow, const void *p)
{
	uint32_t low = 0, high = atomic_load_explicit(&overflow->count, memory_order_relaxed);

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if ((uintptr_t)overflow->index[middle]->base <= (uintptr_t)p)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The block around p, or NULL. The lock is held. */
static struct twi_overflow_block *block_at(const struct twi_overflow *overflow, const void *p,
					   uint32_t *place_out)
{
	uint32_t at = place_above(overflow, p);
	struct twi_overflow_block *block;

	if (at == 0)
		return NULL;
	block = overflow->index[at - 1];
	*place_out = at - 1;
	return (uintptr_t)p - (uintptr_t)block->base < block->bytes ? block : NULL;
}

static bool make_room(struct twi_overflow *overflow)
{
	uint32_t room = overflow->room == 0 ? 64 : overflow->room * 2;
	struct twi_overflow_block **index;

	if (atomic_load_explicit(&overflow->count, memory_order_relaxed) < overflow->room)
		return true;
	index = room > 1u << 24 ? NULL : realloc(overflow->index, room * sizeof(index[0]));
	if (index == NULL)
		return false;
	overflow->index = index;
	overflow->room = room;
	return true;
}

static void insert_block(struct twi_overflow *overflow, struct twi_overflow_block *block)
{
	uint32_t count = atomic_load_explicit(&overflow->count, memory_order_relaxed);
	uint32_t at = place_above(overflow, block->base);
	uint64_t bytes;

	memmove(overflow->index + at + 1, overflow->index + at,
		(count - at) * sizeof(overflow->index[0]));
	overflow->index[at] = block;
	bytes = atomic_fetch_add_explicit(&overflow->bytes, block->bytes, memory_order_relaxed) +
		block->bytes;
	if (bytes > atomic_load_explicit(&overflow->peak_bytes, memory_order_relaxed))
		atomic_store_explicit(&overflow->peak_bytes, bytes, memory_order_relaxed);
	/* Release: pairs with the acquire in twi_overflow_empty. */
	atomic_store_explicit(&overflow->count, count + 1, memory_order_release);
}

/* Inserts the block into the index if the limit allows it. */
static int admit_block(struct twi_overflow *overflow, struct twi_overflow_block *block,
		       uint64_t limit)
{
	int status = TOW_ENOMEM;

	twi_hold_begin(&block->hold);
	pthread_mutex_lock(&overflow->lock);
	if (block->bytes > limit ||
	    atomic_load_explicit(&overflow->bytes, memory_order_relaxed) > limit - block->bytes)
		status = TOW_EEXHAUSTED;
	else if (make_room(overflow))
		status = TOW_OK;
	if (status == TOW_OK)
		insert_block(overflow, block);
	pthread_mutex_unlock(&overflow->lock);
	return status;
}

int twi_overflow_alloc(struct twi_overflow *overflow, size_t bytes, size_t align, uint64_t limit,
		       void **out)
{
	struct twi_overflow_block *block;
	int status;

	*out = NULL;
	if (bytes > limit)
		return TOW_EEXHAUSTED;
	bytes = twi_align_up(twi_max(bytes, (size_t)1), align);
	block = calloc(1, sizeof(*block));
	if (block == NULL)
		return TOW_ENOMEM;
	block->base = aligned_alloc(align, bytes);
	block->bytes = bytes;
	status = block->base == NULL ? TOW_ENOMEM : admit_block(overflow, block, limit);
	if (status < 0) {
		free(block->base);
		free(block);
		return status;
	}
	*out = block->base;
	return TOW_OK;
}

/* Removes the block from the index. The lock is held; the caller frees the memory without it. */
static void take_out(struct twi_overflow *overflow, uint32_t at)
{
	uint32_t count = atomic_load_explicit(&overflow->count, memory_order_relaxed) - 1;

	atomic_fetch_sub_explicit(&overflow->bytes, overflow->index[at]->bytes,
				  memory_order_relaxed);
	memmove(overflow->index + at, overflow->index + at + 1,
		(count - at) * sizeof(overflow->index[0]));
	atomic_store_explicit(&overflow->count, count, memory_order_release);
}

enum action { LEASE, LEASE_AGAIN, RELEASE, FREE };

static int move_hold(_Atomic uint32_t *hold, enum action action)
{
	switch (action) {
	case LEASE:
		return twi_hold_lease(hold);
	case LEASE_AGAIN:
		return twi_hold_lease_again(hold);
	case RELEASE:
		return twi_hold_release(hold);
	case FREE:
		break;
	}
	return twi_hold_free(hold);
}

static int act_on_block(struct twi_overflow *overflow, const void *p, enum action action,
			uint64_t *bytes_out)
{
	struct twi_overflow_block *block, *ended = NULL;
	int outcome = TOW_EFOREIGN;
	uint32_t at;

	if (twi_overflow_empty(overflow))
		return TOW_EFOREIGN;
	pthread_mutex_lock(&overflow->lock);
	block = block_at(overflow, p, &at);
	if (block != NULL && (action != FREE || block->base == p)) {
		*bytes_out = block->bytes;
		outcome = move_hold(&block->hold, action);
		if (outcome == TWI_HOLD_ENDED) {
			take_out(overflow, at);
			ended = block;
		}
	}
	pthread_mutex_unlock(&overflow->lock);
	if (ended != NULL) {
		free(ended->base);
		free(ended);
	}
	return outcome;
}

int twi_overflow_lease(struct twi_overflow *overflow, const void *p, uint64_t *bytes_out)
{
	return act_on_block(overflow, p, LEASE, bytes_out);
}

int twi_overflow_lease_again(struct twi_overflow *overflow, const void *p, uint64_t *bytes_out)
{
	return act_on_block(overflow, p, LEASE_AGAIN, bytes_out);
}

int twi_overflow_release(struct twi_overflow *overflow, const void *p, uint64_t *bytes_out)
{
	return act_on_block(overflow, p, RELEASE, bytes_out);
}

int twi_overflow_free(struct twi_overflow *overflow, void *p)
{
	uint64_t bytes;

	return act_on_block(overflow, p, FREE, &bytes);
}

bool twi_overflow_find(struct twi_overflow *overflow, const void *p, uint64_t bytes,
		       void **base_out)
{
	struct twi_overflow_block *block;
	bool found = false;
	uint32_t at;

	if (twi_overflow_empty(overflow))
		return false;
	pthread_mutex_lock(&overflow->lock);
	block = block_at(overflow, p, &at);
	if (block != NULL) {
		uint64_t offset = (uint64_t)((uintptr_t)p - (uintptr_t)block->base);

		found = bytes <= block->bytes - offset;
		*base_out = block->base;
	}
	pthread_mutex_unlock(&overflow->lock);
	return found;
}
