/*
 * alloclog_held.c - lists a pool's live allocations and makes records of them. alloclog_held.h has
 * the concept.
 */
#include "memreg/alloclog/alloclog_held.h"

#include <stdlib.h>

#include "diag/base/clock.h"
#include "memreg/alloclog/alloclog_pair.h"
#include "memreg/pool/pool.h"
#include <internal/base.h>

#define ROOM 256
#define NONE SIZE_MAX

struct listing {
	struct twi_alloclog_held *held;
	size_t most;
	bool failed;
};

static bool list_block(void *arg, const struct twi_block *block, uint8_t align_log2)
{
	struct listing *listing = arg;
	struct twi_alloclog_held *held = listing->held;

	if (block->base == held->own)
		return true;
	listing->failed = held->count == listing->most;
	if (held->count == held->room && !listing->failed) {
		size_t room = twi_min(2 * held->room + ROOM, listing->most);
		void *grown = realloc(held->block, room * sizeof(held->block[0]));

		listing->failed = grown == NULL;
		if (grown != NULL) {
			held->block = grown;
			held->room = room;
		}
	}
	if (listing->failed)
		return false;
	held->block[held->count++] = (struct twi_alloclog_block){
		.address = (uintptr_t)block->base,
		.bytes = block->bytes,
		.align_log2 = align_log2,
	};
	return true;
}

static int by_address(const void *a, const void *b)
{
	const struct twi_alloclog_block *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return 0;
}

void twi_alloclog_held_list(struct twi_alloclog_held *held, struct twi_pool *pool, const void *own,
			    size_t most)
{
	struct listing listing = { .held = held, .most = most };

	*held = (struct twi_alloclog_held){ .own = own };
	twi_pool_each(pool, list_block, &listing);
	held->until_ns = twi_now_ns();
	if (listing.failed)
		twi_alloclog_held_fini(held);
	else if (held->count > 1)
		qsort(held->block, held->count, sizeof(held->block[0]), by_address);
}

void twi_alloclog_held_fini(struct twi_alloclog_held *held)
{
	free(held->block);
	held->block = NULL;
	held->count = held->room = 0;
}

static size_t place_of_block(const struct twi_alloclog_held *held, uint64_t address)
{
	size_t low = 0, high = held->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (held->block[middle].address == address)
			return middle;
		if (held->block[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return NONE;
}

/* Applies an event during the walk to the block at its address. */
static void note_event(struct twi_alloclog_held *held, const struct twi_alloclog_rec *rec)
{
	unsigned kind = twi_alloclog_rec_kind(rec);
	struct twi_alloclog_block *block;
	size_t at;

	if (rec->ns > held->until_ns || (kind != TWI_ALLOC_ALLOC && kind != TWI_ALLOC_FREE))
		return;
	at = place_of_block(held, rec->address);
	if (at == NONE)
		return;
	block = &held->block[at];
	if (block->first_ns != 0 && block->first_ns <= rec->ns)
		return;
	block->first_ns = rec->ns;
	block->came = kind == TWI_ALLOC_ALLOC;
}

size_t twi_alloclog_held_records(struct twi_alloclog_held *held, struct twi_alloclog_rec *recs,
				 size_t count, uint64_t since_ns, uint64_t *bytes_out)
{
	size_t written = 0;

	*bytes_out = 0;
	for (size_t i = 0; i < count && held->count > 0; i++)
		note_event(held, &recs[i]);
	for (size_t i = 0; i < held->count; i++) {
		const struct twi_alloclog_block *block = &held->block[i];

		if (block->came)
			continue;
		recs[count + written++] = (struct twi_alloclog_rec){
			.ns = since_ns,
			.address = block->address,
			.what = (uint64_t)TWI_ALLOC_ALLOC << 62 |
				(uint64_t)block->align_log2 << TWI_ALLOCLOG_ALIGN_BIT |
				block->bytes,
			.tag = TWI_ALLOC_TAG_EARLIER,
		};
		*bytes_out += block->bytes;
	}
	return written;
}
