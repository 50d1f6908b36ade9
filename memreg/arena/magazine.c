/*
 * magazine.c - takes from, puts into and drains the shards; magazine.h has the concept.
 *
 * Budget: take and put make one atomic exchange on a cache line of this CPU, and no call that can
 * sleep. (sched_getcpu reads a word that the kernel updates, in 2 ns; without rseq it is a vdso
 * call.)
 */
#include "memreg/arena/magazine.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/hash.h"

#define LINE       64
#define SPINS      100
#define PATIENCE   256 /* refusals until a drain: the shard may be full of the wrong sizes */
#define UNIT_SHIFT 6   /* sizes are multiples of 64 */

struct set {
	void *base[TWI_MAGAZINE_WAYS];
	uint32_t units[TWI_MAGAZINE_WAYS];
	uint32_t count;
};

struct twi_magazine_shard {
	_Alignas(LINE) _Atomic bool busy;
	uint32_t refused;
	uint32_t filled; /* a bit for each set that is not empty */
	uint64_t bytes;
	struct set set[TWI_MAGAZINE_SETS];
};

/* Blocks that left a shard. They are returned after the shard is released. */
struct leavers {
	void *base[TWI_MAGAZINE_SETS * TWI_MAGAZINE_WAYS];
	uint32_t count;
};

static uint32_t shard_count(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	uint32_t count = 1;

	while (count < TWI_MAGAZINE_SHARDS_MAX && (long)count < cpus)
		count *= 2;
	return count;
}

bool twi_magazine_init(struct twi_magazine *magazine, uint64_t bytes)
{
	uint32_t count = shard_count();

	magazine->memory = calloc(count + 1, sizeof(struct twi_magazine_shard));
	if (magazine->memory == NULL)
		return false;
	magazine->shard =
		(struct twi_magazine_shard *)twi_align_up((uintptr_t)magazine->memory, LINE);
	magazine->mask = count - 1;
	magazine->stays = 0;
	magazine->shard_bytes = bytes / TWI_MAGAZINE_SHARE;
	atomic_init(&magazine->occupied, 0);
	pthread_mutex_init(&magazine->drain, NULL);
	return true;
}

void twi_magazine_fini(struct twi_magazine *magazine)
{
	pthread_mutex_destroy(&magazine->drain);
	free(magazine->memory);
	magazine->memory = NULL;
}

/* Acquire: pairs with the release in let_go of the last holder. */
static bool seize_shard(const struct twi_magazine *magazine, struct twi_magazine_shard *shard)
{
	if (twi_magazine_alone(magazine))
		return true;
	return !atomic_load_explicit(&shard->busy, memory_order_relaxed) &&
	       !atomic_exchange_explicit(&shard->busy, true, memory_order_acquire);
}

static void let_go(struct twi_magazine_shard *shard)
{
	atomic_store_explicit(&shard->busy, false, memory_order_release);
}

/* Waits for the holder. The holder needs some ns, or its CPU; the sleep lets any thread run. */
static void wait_for(const struct twi_magazine *magazine, struct twi_magazine_shard *shard)
{
	const struct timespec nap = { .tv_nsec = 20000 };

	for (int spins = 0; !seize_shard(magazine, shard); spins++)
		if (spins >= SPINS)
			nanosleep(&nap, NULL);
}

static uint32_t this_shard(const struct twi_magazine *magazine)
{
	uint32_t cpu =
		twi_magazine_alone(magazine) ? magazine->stays - 1 : (uint32_t)sched_getcpu();

	return cpu & magazine->mask;
}

static uint32_t set_of(uint32_t units)
{
	return (uint32_t)(twi_hash_spread(units) >> 59);
}
_Static_assert(TWI_MAGAZINE_SETS == 1 << (64 - 59), "set_of yields five bits");

static void *take_from(struct twi_magazine_shard *shard, uint32_t units, uint64_t align)
{
	uint32_t number = set_of(units);
	struct set *set = &shard->set[number];

	for (uint32_t i = set->count; i-- > 0;) {
		void *base = set->base[i];

		if (set->units[i] != units || ((uintptr_t)base & (align - 1)))
			continue;
		if (--set->count == 0)
			shard->filled &= ~(1u << number);
		set->base[i] = set->base[set->count];
		set->units[i] = set->units[set->count];
		shard->bytes -= (uint64_t)units << UNIT_SHIFT;
		return base;
	}
	return NULL;
}

void *twi_magazine_take(struct twi_magazine *magazine, uint64_t bytes, uint64_t align)
{
	uint32_t number = this_shard(magazine);
	struct twi_magazine_shard *shard = &magazine->shard[number];
	void *base;

	if (!(atomic_load_explicit(&magazine->occupied, memory_order_relaxed) >> number & 1) ||
	    bytes > magazine->shard_bytes || !seize_shard(magazine, shard))
		return NULL;
	base = take_from(shard, (uint32_t)(bytes >> UNIT_SHIFT), align);
	let_go(shard);
	return base;
}

static void empty_shard(struct twi_magazine_shard *shard, struct leavers *leavers)
{
	leavers->count = 0;
	for (; shard->filled; shard->filled &= shard->filled - 1) {
		struct set *set = &shard->set[__builtin_ctz(shard->filled)];

		for (uint32_t k = 0; k < set->count; k++)
			leavers->base[leavers->count++] = set->base[k];
		set->count = 0;
	}
	shard->bytes = 0;
	shard->refused = 0;
}

static bool keep_block(struct twi_magazine_shard *shard, uint64_t room, void *base, uint32_t units)
{
	uint32_t number = set_of(units);
	struct set *set = &shard->set[number];
	uint64_t bytes = (uint64_t)units << UNIT_SHIFT;

	if (set->count == TWI_MAGAZINE_WAYS || shard->bytes + bytes > room)
		return false;
	set->base[set->count] = base;
	set->units[set->count++] = units;
	shard->filled |= 1u << number;
	shard->bytes += bytes;
	return true;
}

void twi_magazine_put(struct twi_magazine *magazine, void *base, uint64_t bytes,
		      twi_magazine_give give, void *ctx)
{
	uint32_t number = this_shard(magazine);
	struct twi_magazine_shard *shard = &magazine->shard[number];
	uint64_t bit = (uint64_t)1 << number;
	bool kept, drain = false;

	if (bytes > magazine->shard_bytes || !seize_shard(magazine, shard)) {
		give(ctx, base);
		return;
	}
	kept = keep_block(shard, magazine->shard_bytes, base, (uint32_t)(bytes >> UNIT_SHIFT));
	if (!kept)
		drain = ++shard->refused >= PATIENCE;
	/* Still held: a drain that cleared the bit waits for the shard, and finds the block. */
	if (!(atomic_load_explicit(&magazine->occupied, memory_order_relaxed) & bit))
		atomic_fetch_or_explicit(&magazine->occupied, bit, memory_order_relaxed);
	let_go(shard);
	if (!kept)
		give(ctx, base);
	/* It does not replace the oldest block, which a drain elsewhere would then miss. */
	if (drain)
		twi_magazine_drain(magazine, give, ctx);
}

void twi_magazine_drain(struct twi_magazine *magazine, twi_magazine_give give, void *ctx)
{
	uint64_t occupied;
	struct leavers leavers;

	if (!twi_magazine_alone(magazine))
		pthread_mutex_lock(&magazine->drain);
	occupied = atomic_exchange_explicit(&magazine->occupied, 0, memory_order_relaxed);
	for (; occupied; occupied &= occupied - 1) {
		struct twi_magazine_shard *shard = &magazine->shard[__builtin_ctzll(occupied)];

		wait_for(magazine, shard);
		empty_shard(shard, &leavers);
		let_go(shard);
		for (uint32_t i = 0; i < leavers.count; i++)
			give(ctx, leavers.base[i]);
	}
	if (!twi_magazine_alone(magazine))
		pthread_mutex_unlock(&magazine->drain);
}
