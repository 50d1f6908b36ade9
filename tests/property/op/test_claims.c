/*
 * test_claims.c - random claims on memory of the pool against a plain count of them.
 *
 * Operations of one engine share leases (memreg/pool/shared_lease.h), in more allocations at once
 * than it has places. Whatever the order is in which they come and go, an allocation that was freed
 * must stay as long as a claim is on it, and go back with the last one. It is filled with a mark,
 * so that memory which goes back early shows as another's mark; and what the pool says is leased is
 * what the claims say.
 */
#include "twt.h"

#include <stdbool.h>
#include <string.h>

#include <towline/towline.h>

#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/claim.h"
#include "transport/op/endpoint.h"

#define BLOCKS 12
#define OPS    64
#define STEPS  200000
#define POOL   ((int64_t)4 << 20)

struct block {
	uint64_t *p;
	uint64_t bytes, mark;
	unsigned claims;
	bool freed;
};

struct world {
	struct tow_runtime *runtime;
	struct twi_engine *engine;
	struct tow_peer peer;
	uint64_t random;
	struct block block[BLOCKS];
	struct tow_op op[OPS];
	int of[OPS]; /* the block whose claim it has; -1: none */
};

static struct world world;

static unsigned below(uint64_t most)
{
	return (unsigned)twt_random_below(&world.random, most);
}

static bool is_marked(const struct block *b)
{
	return b->p[0] == b->mark && b->p[b->bytes / 8 - 1] == b->mark;
}

static void do_alloc(struct block *b)
{
	uint64_t bytes = (uint64_t)16 << below(14);
	void *p;

	if (twi_pool_alloc(world.engine->pool, bytes, 0, &p) < 0)
		return;
	*b = (struct block){ .p = p, .bytes = bytes, .mark = twt_random(&world.random) };
	b->p[0] = b->p[bytes / 8 - 1] = b->mark;
}

static void settle(struct block *b)
{
	if (b->freed && b->claims == 0)
		b->p = NULL;
}

static void do_free(struct block *b)
{
	assert_int_equal(twi_pool_free(world.engine->pool, b->p), TOW_OK);
	b->freed = true;
	settle(b);
}

static void do_claim(struct block *b, unsigned at)
{
	struct tow_op *op = &world.op[at];
	uint64_t from = below(b->bytes);
	bool beyond = below(16) == 0; /* the end of the pool: it is not the pool's memory */

	*op = (struct tow_op){ .engine = world.engine,
			       .data = (char *)b->p + from,
			       .bytes = beyond ? 2 * POOL : 1 + below(b->bytes - from) };
	twi_claim_init(&op->claim);
	twi_claim_lease(&world.peer, op);
	if (b->freed || beyond) { /* nor has whoever sends what is freed a claim on it */
		assert_int_equal(op->claim.kind, TWI_CLAIM_UNREGISTERED);
		twi_claim_drop(world.engine, &op->claim);
		return;
	}
	assert_int_equal(op->claim.kind, TWI_CLAIM_POOL);
	assert_ptr_equal(op->claim.block.base, b->p);
	assert_ptr_equal(op->claim.region, &twi_pool_find(world.engine->pool, b->p, 1)->region);
	world.of[at] = (int)(b - world.block);
	b->claims++;
}

/* One more of what another operation has, as a part of it. */
static void do_share(unsigned from, unsigned at)
{
	struct tow_op *op = &world.op[from];

	world.op[at] = (struct tow_op){ .engine = world.engine };
	twi_claim_share(&op->claim, op->data, op->bytes, world.engine, &world.op[at].claim);
	world.of[at] = world.of[from];
	world.block[world.of[from]].claims++;
}

static void do_drop(unsigned at)
{
	struct block *b = &world.block[world.of[at]];

	assert_true(is_marked(b));
	twi_claim_drop(world.engine, &world.op[at].claim);
	world.of[at] = -1;
	b->claims--;
	settle(b);
}

/* An allocation is rounded up, by a quarter at most. */
static void check_leased(void)
{
	struct twi_pool_stats stats;
	uint64_t leased = 0, deferred = 0;

	for (unsigned i = 0; i < BLOCKS; i++) {
		const struct block *b = &world.block[i];

		if (b->p == NULL)
			continue;
		assert_true(is_marked(b));
		leased += b->claims > 0 ? b->bytes : 0;
		deferred += b->freed ? b->bytes : 0;
	}
	twi_pool_stats(world.engine->pool, &stats);
	assert_in_range(stats.leased, leased, leased * 5 / 4 + BLOCKS * 64);
	assert_in_range(stats.deferred, deferred, deferred * 5 / 4 + BLOCKS * 64);
	assert_int_equal(stats.leased == 0, leased == 0);
}

static void do_step(void)
{
	struct block *b = &world.block[below(BLOCKS)];
	unsigned at = below(OPS), from = below(OPS);

	if (b->p == NULL)
		do_alloc(b);
	else if (!b->freed && below(8) == 0)
		do_free(b);
	else if (world.of[at] >= 0)
		do_drop(at);
	else if (world.of[from] >= 0 && world.op[from].claim.listed && below(6) == 0)
		do_share(from, at);
	else
		do_claim(b, at);
}

static void open_world(void)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	world.random = twt_seed();
	options.premap_memory_bytes = POOL;
	options.staging_bytes = 0;
	options.stats = 0;
	assert_int_equal(twi_runtime_open_sim(&options, &world.runtime), TOW_OK);
	world.engine = twi_runtime_engine(world.runtime);
	twi_engine_enter(world.engine); /* for the whole test: claims are its holder's */
	world.peer = (struct tow_peer){ .engine = world.engine };
	twi_peer_claims_init(&world.peer.claims);
	memset(world.of, 0xff, sizeof(world.of));
}

static void random_claims(void **state)
{
	(void)state;
	open_world();
	for (int i = 0; i < STEPS; i++) {
		do_step();
		if (i % 16 == 0)
			check_leased();
	}
	for (unsigned i = 0; i < OPS; i++) {
		if (world.of[i] >= 0)
			do_drop(i);
	}
	for (unsigned i = 0; i < BLOCKS; i++) {
		if (world.block[i].p != NULL)
			do_free(&world.block[i]);
	}
	check_leased();
	assert_int_equal(world.peer.claims.bytes, 0);
	twi_engine_leave(world.engine);
	assert_int_equal(tow_runtime_close(world.runtime), TOW_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_claims),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
