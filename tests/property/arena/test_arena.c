/*
 * test_arena.c - both providers of arena.h under the same laws.
 *
 * A shadow has a word for each 64 bytes of the extent: the block that lies there, by number. What
 * comes out of a provider must be aligned, inside the extent, and on words that are nobody's; what
 * find says about any byte must be what the shadow says. A list made by next has each block once,
 * as it can be had again. The account must be the sum of the blocks, to the byte, its peak
 * included. After all is freed, all is one block.
 *
 * Providers that cannot be used in this process are skipped, with the reason.
 */
#include "twt.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "memreg/arena/arena.h"
#include "memreg/region/lease.h"
#include <internal/base.h>
#include <towline/status.h>

#define MIB          ((uint64_t)1 << 20)
#define EXTENT_BYTES (12 * MIB)
#define BLOCKS       256
#define THREADS_MAX  4
#define MAILBOX      16
#define UNIT         64

struct block {
	char *p;
	uint64_t asked, bytes, align;
	uint32_t id; /* in the shadow */
};

struct world {
	const struct twi_arena_ops *ops;
	void *arena;
	char *base;
	uint64_t bytes;
	_Atomic uint32_t *shadow; /* by unit; 0: nobody's */
	_Atomic(struct block *) mailbox[MAILBOX];
	bool alone; /* one thread: the shadow is the whole truth at any time */
};

struct worker {
	struct world *world;
	uint64_t random;
	int steps;
	uint32_t next_id;
	uint64_t allocated, waste, count, peak; /* what the account must say, when alone */
	const char *failure;                    /* cmocka's asserts belong to the main thread */
	struct block *block[BLOCKS];
};

#define CHECK(worker, cond)                                                                        \
	do {                                                                                       \
		if (!(cond) && (worker)->failure == NULL)                                          \
			(worker)->failure = #cond;                                                 \
	} while (0)

static char *map_extent(uint64_t bytes)
{
	char *memory = mmap(NULL, bytes + TWI_ALIGN_MAX, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *base = (char *)twi_align_up((uintptr_t)memory, TWI_ALIGN_MAX);

	assert_true(memory != MAP_FAILED);
	if (base > memory)
		munmap(memory, (size_t)(base - memory));
	munmap(base + bytes, TWI_ALIGN_MAX - (size_t)(base - memory));
	return base;
}

/* Skips when the provider of this test is not to be had. */
static const struct twi_arena_ops *provider(void **state)
{
	const struct twi_arena_ops *ops = *state;

	if (ops == &twi_arena_jemalloc && twi_arena_jemalloc_refusal() != NULL) {
		printf("skipped: %s\n", twi_arena_jemalloc_refusal());
		skip();
	}
	return ops;
}

static uint64_t random_bytes(uint64_t *random)
{
	/* All magnitudes alike: 0 to 512 KiB, now and then up to 4 MiB. */
	unsigned bits = (unsigned)twt_random_below(random, 20);

	if (twt_random_below(random, 50) == 0)
		bits = 22;
	return twt_random(random) & (((uint64_t)1 << bits) - 1);
}

/* Marks the units of [p, p + bytes) as id's, or as nobody's; all must have been `before`. */
static bool claim(struct world *world, const char *p, uint64_t bytes, uint32_t before, uint32_t id)
{
	uint64_t first = (uint64_t)(p - world->base) / UNIT, count = bytes / UNIT;

	for (uint64_t i = first; i < first + count; i++)
		if (atomic_exchange_explicit(&world->shadow[i], id, memory_order_relaxed) != before)
			return false;
	return true;
}

static void check_found(struct worker *w, const struct block *b, uint64_t offset)
{
	struct world *world = w->world;
	struct twi_block found;

	CHECK(w, world->ops->find(world->arena, b->p + offset, &found) == TOW_OK);
	if (w->failure != NULL)
		return;
	CHECK(w, found.base == b->p);
	CHECK(w, found.bytes == b->bytes);
	CHECK(w, *found.hold == TWI_HOLD_LIVE);
}

static void begin(struct worker *w, struct block *b, uint64_t align)
{
	struct world *world = w->world;
	uint64_t offset = (uint64_t)(b->p - world->base);
	struct twi_block found;

	CHECK(w, (uintptr_t)b->p % twi_max(align, (uint64_t)TWI_ALIGN_DEFAULT) == 0);
	CHECK(w, offset < world->bytes);
	if (w->failure == NULL)
		CHECK(w, world->ops->find(world->arena, b->p, &found) == TOW_OK);
	if (w->failure != NULL)
		return;
	b->bytes = found.bytes;
	CHECK(w, b->bytes >= b->asked);
	CHECK(w, b->bytes % UNIT == 0);
	CHECK(w, b->bytes <= world->bytes - offset);
	if (w->failure == NULL)
		CHECK(w, claim(world, b->p, b->bytes, 0, b->id));
	check_found(w, b, twt_random_below(&w->random, b->bytes));
	check_found(w, b, b->bytes - 1);
	w->count++;
	w->allocated += b->bytes;
	w->waste += b->bytes - b->asked;
	w->peak = twi_max(w->peak, w->allocated);
}

static struct block *do_alloc(struct worker *w)
{
	struct world *world = w->world;
	struct block b = { .asked = random_bytes(&w->random), .id = ++w->next_id };
	uint64_t align = 64;
	struct twi_arena_stats stats;
	struct block *copy;
	void *p;
	int status;

	if (twt_random_below(&w->random, 4) == 0)
		align = (uint64_t)1 << twt_random_below(&w->random, 22);
	status = world->ops->alloc(world->arena, b.asked, align, &p);
	if (status == TOW_OK) {
		b.p = p;
		b.align = align;
		begin(w, &b, align);
		copy = malloc(sizeof(*copy));
		*copy = b;
		return copy;
	}
	CHECK(w, status == TOW_EEXHAUSTED);
	CHECK(w, p == NULL);
	/* A request fails only when there is no such room. */
	world->ops->stats(world->arena, &stats);
	if (world->alone && align <= 4096)
		CHECK(w, stats.largest_free_bytes < twi_align_up(twi_max(b.asked, 1u), 4096));
	return NULL;
}

static void do_free(struct worker *w, struct block *b)
{
	struct world *world = w->world;
	struct twi_block found;

	check_found(w, b, twt_random_below(&w->random, b->bytes));
	CHECK(w, world->ops->find(world->arena, b->p, &found) == TOW_OK);
	if (w->failure != NULL)
		return;
	CHECK(w, claim(world, b->p, b->bytes, b->id, 0));
	CHECK(w, twi_hold_free(found.hold) == TWI_HOLD_ENDED);
	world->ops->give(world->arena, b->p);
	if (world->alone)
		CHECK(w, world->ops->find(world->arena, b->p, &found) == TOW_EFREED);
	w->count--;
	w->allocated -= b->bytes;
	w->waste -= b->bytes - b->asked;
	free(b);
}

/* Any address of the extent, free ones too: find and the shadow must agree. */
static void do_look(struct worker *w)
{
	struct world *world = w->world;
	uint64_t offset = twt_random_below(&w->random, world->bytes);
	uint32_t id = atomic_load_explicit(&world->shadow[offset / UNIT], memory_order_relaxed);
	struct twi_block found;
	int status = world->ops->find(world->arena, world->base + offset, &found);

	if (world->alone)
		CHECK(w, (status == TOW_OK) == (id != 0));
	if (status != TOW_OK)
		return;
	/* Never wild, also when somebody else frees it at this moment. */
	CHECK(w, (char *)found.base >= world->base);
	CHECK(w, (char *)found.base <= world->base + offset);
	CHECK(w, found.bytes <= world->bytes);
	CHECK(w, offset < (uint64_t)((char *)found.base - world->base) + found.bytes);
}

/* All of them, from the lowest address on; when others are at work, it ends and is never wild. */
static void check_list(struct worker *w)
{
	struct world *world = w->world;
	char *at = world->base, *end = at + world->bytes;
	uint64_t count = 0, bytes = 0;
	struct twi_block found;
	uint8_t align_log2;

	while (w->failure == NULL && at < end &&
	       world->ops->next(world->arena, at, &found, &align_log2) == TOW_OK) {
		char *base = found.base;

		CHECK(w, base >= at);
		CHECK(w, base + found.bytes <= end);
		if (world->alone)
			CHECK(w, world->shadow[(base - world->base) / UNIT] != 0);
		at = base + (world->alone ? found.bytes : UNIT);
		count++;
		bytes += found.bytes;
	}
	if (!world->alone)
		return;
	CHECK(w, count == w->count);
	CHECK(w, bytes == w->allocated);
}

/* From any unit on the first block is one that begins there or behind it. */
static void check_next(struct worker *w)
{
	struct world *world = w->world;
	uint64_t from = twt_random_below(&w->random, BLOCKS), offset;
	struct block *b = w->block[from];
	struct twi_block found;
	uint8_t align_log2;

	if (b == NULL)
		return;
	CHECK(w, world->ops->next(world->arena, b->p, &found, &align_log2) == TOW_OK);
	CHECK(w, found.base == b->p);
	CHECK(w, found.bytes == b->bytes);
	/* Whole pages are placed by their alignment, small blocks by their size alone. */
	if (b->bytes % 4096 == 0)
		CHECK(w, align_log2 == __builtin_ctzll(twi_max(b->align, (uint64_t)64)));
	else
		CHECK(w, align_log2 == 6);
	offset = (uint64_t)(b->p - world->base) + UNIT;
	if (!world->alone || offset >= world->bytes ||
	    world->ops->next(world->arena, world->base + offset, &found, &align_log2) != TOW_OK)
		return;
	while (offset < world->bytes &&
	       (world->shadow[offset / UNIT] == 0 || world->shadow[offset / UNIT] == b->id))
		offset += UNIT;
	CHECK(w, found.base == world->base + offset);
}

static void check_account(struct worker *w)
{
	struct twi_arena_stats stats;

	w->world->ops->stats(w->world->arena, &stats);
	CHECK(w, stats.total_bytes == w->world->bytes);
	CHECK(w, stats.free_bytes + stats.allocated_bytes == stats.total_bytes);
	CHECK(w, stats.largest_free_bytes <= stats.free_bytes);
	CHECK(w, stats.last_free_bytes <= stats.largest_free_bytes);
	CHECK(w, stats.waste_bytes <= stats.allocated_bytes || !w->world->alone);
	if (!w->world->alone)
		return;
	CHECK(w, stats.allocated_bytes == w->allocated);
	CHECK(w, stats.waste_bytes == w->waste);
	CHECK(w, stats.allocations == w->count);
	CHECK(w, stats.peak_bytes == w->peak);
}

static void step(struct worker *w)
{
	struct block **slot = &w->block[twt_random_below(&w->random, BLOCKS)];

	switch (twt_random_below(&w->random, 16)) {
	case 0:
		do_look(w);
		break;
	case 1: /* a block for a block: frees happen on other threads than allocations */
		*slot = atomic_exchange(&w->world->mailbox[twt_random_below(&w->random, MAILBOX)],
					*slot);
		break;
	case 2:
		if (twt_random_below(&w->random, 50) == 0)
			check_account(w);
		if (twt_random_below(&w->random, 50) == 0)
			check_list(w);
		check_next(w);
		break;
	default:
		if (*slot != NULL) {
			do_free(w, *slot);
			*slot = NULL;
		} else {
			*slot = do_alloc(w);
		}
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < w->steps && w->failure == NULL; i++)
		step(w);
	return NULL;
}

static void check_all_is_free(struct world *world)
{
	struct twi_arena_stats stats;
	struct twi_block found;
	void *p;

	world->ops->stats(world->arena, &stats);
	assert_int_equal(stats.allocated_bytes, 0);
	assert_int_equal(stats.waste_bytes, 0);
	assert_int_equal(stats.allocations, 0);
	assert_int_equal(stats.free_bytes, world->bytes);
	assert_int_equal(stats.largest_free_bytes, world->bytes);
	assert_int_equal(stats.last_free_bytes, world->bytes);
	assert_int_equal(world->ops->alloc(world->arena, world->bytes, 64, &p), TOW_OK);
	assert_ptr_equal(p, world->base);
	assert_int_equal(world->ops->find(world->arena, world->base + world->bytes - 1, &found),
			 TOW_OK);
	assert_int_equal(twi_hold_free(found.hold), TWI_HOLD_ENDED);
	world->ops->give(world->arena, p);
}

static void world_begin(struct world *world, const struct twi_arena_ops *ops, int threads)
{
	*world = (struct world){ .ops = ops, .bytes = EXTENT_BYTES, .alone = threads == 1 };
	world->base = map_extent(world->bytes);
	world->shadow = calloc(world->bytes / UNIT, sizeof(*world->shadow));
	assert_int_equal(ops->create(world->base, world->bytes, &world->arena), TOW_OK);
}

static void world_end(struct world *world)
{
	check_all_is_free(world);
	world->ops->destroy(world->arena);
	munmap(world->base, world->bytes);
	free(world->shadow);
}

static void run(const struct twi_arena_ops *ops, int threads, int steps)
{
	struct worker *w = calloc((size_t)threads, sizeof(*w));
	uint64_t random = twt_seed();
	pthread_t thread[THREADS_MAX];
	struct world world;

	world_begin(&world, ops, threads);
	for (int i = 0; i < threads; i++) {
		w[i] = (struct worker){ .world = &world, .random = twt_random(&random) };
		w[i].steps = steps;
		w[i].next_id = (uint32_t)i << 28;
		assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < threads; i++)
		if (w[i].failure != NULL)
			fail_msg("thread %d: %s", i, w[i].failure);
	/* What is left of all of them, and of the mailbox, is this thread's to free. */
	for (int i = 0; i < threads; i++)
		for (int k = 0; k < BLOCKS; k++)
			if (w[i].block[k] != NULL)
				do_free(&w[0], w[i].block[k]);
	for (int k = 0; k < MAILBOX; k++)
		if (world.mailbox[k] != NULL)
			do_free(&w[0], world.mailbox[k]);
	if (w[0].failure != NULL)
		fail_msg("at the end: %s", w[0].failure);
	world_end(&world);
	free(w);
}

static void one_thread(void **state)
{
	run(provider(state), 1, 150000);
}

static void two_threads(void **state)
{
	run(provider(state), 2, 60000);
}

static void four_threads(void **state)
{
	run(provider(state), 4, 40000);
}

/* 1 MiB blocks: all of the extent; twice, the second time after many small blocks. */
static void blocks_of_1_mib_fill_it(void **state)
{
	const struct twi_arena_ops *ops = provider(state);
	void *big[EXTENT_BYTES / MIB + 1], *small[2000];
	struct world world;

	world_begin(&world, ops, 1);
	for (int round = 0; round < 2; round++) {
		uint64_t count = 0;
		struct twi_block found;

		while (ops->alloc(world.arena, MIB, 64, &big[count]) == TOW_OK)
			count++;
		assert_int_equal(count, EXTENT_BYTES / MIB);
		while (count-- > 0) {
			ops->find(world.arena, big[count], &found);
			twi_hold_free(found.hold);
			ops->give(world.arena, big[count]);
		}
		for (int i = 0; i < 2000; i++)
			assert_int_equal(
				ops->alloc(world.arena, 1 + (uint64_t)i * 4, 64, &small[i]),
				TOW_OK);
		for (int i = 0; i < 2000; i++) {
			ops->find(world.arena, small[i], &found);
			twi_hold_free(found.hold);
			ops->give(world.arena, small[i]);
		}
	}
	world_end(&world);
}

/* Metadata lies elsewhere: whatever a provider does, it never writes into the extent. */
static void memory_is_never_written(void **state)
{
	const struct twi_arena_ops *ops = provider(state);
	uint64_t random = twt_seed();
	struct twi_block found;
	struct twi_arena_stats stats;
	struct world world;
	void *p[300] = { 0 };

	world_begin(&world, ops, 1);
	memset(world.base, 0xa5, world.bytes);
	for (int i = 0; i < 20000; i++) {
		void **slot = &p[twt_random_below(&random, 300)];

		if (*slot != NULL) {
			assert_int_equal(ops->find(world.arena, *slot, &found), TOW_OK);
			assert_int_equal(twi_hold_free(found.hold), TWI_HOLD_ENDED);
			ops->give(world.arena, *slot);
			*slot = NULL;
		} else if (ops->alloc(world.arena, random_bytes(&random), 64, slot) != TOW_OK) {
			*slot = NULL;
		}
		if (i % 1000 == 0)
			ops->stats(world.arena, &stats);
	}
	/* Destroyed with blocks left. */
	ops->destroy(world.arena);
	for (uint64_t i = 0; i < world.bytes; i++)
		if ((unsigned char)world.base[i] != 0xa5)
			fail_msg("byte %llu was written", (unsigned long long)i);
	munmap(world.base, world.bytes);
	free(world.shadow);
}

/* jemalloc has 4,094 arenas at once; those that are destroyed must come back. */
static void ten_thousand_arenas(void **state)
{
	const struct twi_arena_ops *ops = provider(state);
	char *base = map_extent(TWI_ALIGN_MAX);
	struct twi_block found;
	void *arena, *p;

	for (int i = 0; i < 10000; i++) {
		assert_int_equal(ops->create(base, TWI_ALIGN_MAX, &arena), TOW_OK);
		assert_int_equal(ops->alloc(arena, 100, 64, &p), TOW_OK);
		assert_int_equal(ops->alloc(arena, MIB, 64, &p), TOW_OK);
		assert_int_equal(ops->find(arena, (char *)p + 5000, &found), TOW_OK);
		assert_ptr_equal(found.base, p);
		ops->destroy(arena);
	}
	munmap(base, TWI_ALIGN_MAX);
}

static void lengths_out_of_range(void **state)
{
	const struct twi_arena_ops *ops = provider(state);
	struct world world;
	void *p = &world;

	assert_int_equal(ops->create(NULL, 0, &p), TOW_EINVAL);
	assert_null(p);
	world_begin(&world, ops, 1);
	assert_int_equal(ops->alloc(world.arena, SIZE_MAX, 64, &p), TOW_EEXHAUSTED);
	assert_int_equal(ops->alloc(world.arena, EXTENT_BYTES + 1, 64, &p), TOW_EEXHAUSTED);
	assert_null(p);
	world_end(&world);
}

extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));

static void the_choice(void **state)
{
	(void)state;
	if (mallctl != NULL) {
		assert_null(twi_arena_jemalloc_refusal());
		assert_ptr_equal(twi_arena_choose(), &twi_arena_jemalloc);
	} else {
		assert_non_null(twi_arena_jemalloc_refusal());
		assert_ptr_equal(twi_arena_choose(), &twi_arena_pagerun);
	}
	twi_arena_force(&twi_arena_pagerun);
	assert_ptr_equal(twi_arena_choose(), &twi_arena_pagerun);
	twi_arena_force(NULL);
	assert_string_equal(twi_arena_choose()->name, mallctl != NULL ? "jemalloc" : "pagerun");
}

#define PAGERUN(test)                                                                              \
	{                                                                                          \
		"pagerun: " #test, test, NULL, NULL, (void *)(uintptr_t)&twi_arena_pagerun         \
	}
#define JEMALLOC(test)                                                                             \
	{                                                                                          \
		"jemalloc: " #test, test, NULL, NULL, (void *)(uintptr_t)&twi_arena_jemalloc       \
	}
#define BOTH(test) PAGERUN(test), JEMALLOC(test)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(one_thread),
		BOTH(two_threads),
		BOTH(four_threads),
		BOTH(blocks_of_1_mib_fill_it),
		BOTH(memory_is_never_written),
		BOTH(ten_thousand_arenas),
		BOTH(lengths_out_of_range),
		cmocka_unit_test(the_choice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
