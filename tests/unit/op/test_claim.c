/*
 * test_claim.c - claims on memory: of which kind it is, what a peer holds, parts that outlive the
 * whole, and a peer that goes before its claims do.
 */
#include "twt.h"

#include <towline/towline.h>

#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/claim.h"
#include "transport/op/endpoint.h"

#define MIB ((uint64_t)1 << 20)

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct tow_peer peer;
static struct tow_op op;

static int set_up(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	(void)state;
	options.premap_memory_bytes = 4 << 20;
	options.staging_bytes = 0;
	options.stats = 0;
	options.max_ops = 16;
	options.exhaust = "copy";
	assert_int_equal(twi_runtime_open_sim(&options, &runtime), TOW_OK);
	engine = twi_runtime_engine(runtime);
	twi_engine_enter(engine); /* for the whole test: claims are its holder's */
	peer = (struct tow_peer){ .engine = engine };
	twi_peer_claims_init(&peer.claims);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	twi_engine_leave(engine);
	return tow_runtime_close(runtime);
}

static void lease(void *data, uint64_t bytes)
{
	op = (struct tow_op){ .engine = engine, .data = data, .bytes = bytes };
	twi_claim_init(&op.claim);
	twi_claim_lease(&peer, &op);
}

static uint64_t leased(void)
{
	struct twi_pool_stats stats;

	twi_pool_stats(engine->pool, &stats);
	return stats.leased;
}

static void kinds(void **state)
{
	void *pool, *outside;
	static char own[4096];

	(void)state;
	assert_int_equal(tow_alloc(runtime, 3 * MIB, 0, &pool), TOW_OK);
	assert_int_equal(tow_alloc(runtime, 2 * MIB, 0, &outside), TOW_OK);
	lease(pool, 3 * MIB);
	assert_int_equal(op.claim.kind, TWI_CLAIM_POOL);
	assert_non_null(op.claim.region);
	assert_int_equal(twi_claim_reason(&op.claim, true), TWI_R_pool_unpinned);
	twi_claim_lease(&peer, &op); /* once is enough */
	assert_int_equal(peer.claims.bytes, 3 * MIB);
	twi_claim_drop(engine, &op.claim);
	twi_claim_drop(engine, &op.claim);
	assert_int_equal(leased() + peer.claims.bytes, 0);
	lease((char *)outside + 64, MIB);
	assert_int_equal(op.claim.kind, TWI_CLAIM_OUTSIDE);
	assert_int_equal(twi_claim_reason(&op.claim, false), TWI_R_pool_exhausted);
	assert_int_equal(leased(), 2 * MIB);
	assert_int_equal(peer.claims.bytes, 0);
	twi_claim_drop(engine, &op.claim);
	lease(own, sizeof(own));
	assert_int_equal(op.claim.kind, TWI_CLAIM_UNREGISTERED);
	assert_int_equal(twi_claim_reason(&op.claim, true), TWI_R_unregistered_send);
	assert_int_equal(twi_claim_reason(&op.claim, false), TWI_R_unregistered_recv);
	twi_claim_drop(engine, &op.claim);
	lease(pool, 0); /* a message of no bytes claims nothing */
	assert_int_equal(op.claim.kind, TWI_CLAIM_NONE);
	assert_int_equal(leased(), 0);
	assert_int_equal(tow_free(runtime, pool), TOW_OK);
	assert_int_equal(tow_free(runtime, outside), TOW_OK);
}

/* Parts count for themselves only when the whole has gone. */
static void parts(void **state)
{
	struct twi_claim part[3];
	char *pool;
	void *at;

	(void)state;
	assert_int_equal(tow_alloc(runtime, 3 * MIB, 0, &at), TOW_OK);
	pool = at;
	lease(pool, 3 * MIB);
	for (int i = 0; i < 3; i++)
		twi_claim_share(&op.claim, pool + i * (int)MIB, MIB, engine, &part[i]);
	assert_int_equal(peer.claims.bytes, 3 * MIB);
	assert_int_equal(tow_free(runtime, pool), TOW_OK);
	assert_true(twi_pool_freed(engine->pool, pool));
	twi_claim_drop(engine, &part[1]);
	assert_int_equal(peer.claims.bytes, 3 * MIB);
	twi_claim_drop(engine, &op.claim);
	assert_int_equal(peer.claims.bytes, 2 * MIB);
	assert_int_equal(peer.claims.peak_bytes, 3 * MIB);
	assert_true(leased() >= 3 * MIB);
	twi_claim_drop(engine, &part[0]);
	assert_int_equal(peer.claims.bytes, MIB);
	assert_int_equal(twi_pool_deferred(engine->pool), leased());
	twi_claim_drop(engine, &part[2]);
	assert_int_equal(peer.claims.bytes, 0);
	assert_int_equal(leased() + twi_pool_deferred(engine->pool), 0);
}

/* Whatever is left when the peer goes still gives its memory back. */
static void without_peer(void **state)
{
	struct twi_claim part[2];
	void *at;

	(void)state;
	for (int order = 0; order < 3; order++) {
		assert_int_equal(tow_alloc(runtime, MIB, 0, &at), TOW_OK);
		lease(at, MIB);
		twi_claim_share(&op.claim, at, 4096, engine, &part[0]);
		twi_claim_share(&op.claim, at, 4096, engine, &part[1]);
		if (order == 1)
			twi_claim_drop(engine, &op.claim);
		twi_peer_claims_fini(&peer.claims);
		assert_int_equal(tow_free(runtime, at), TOW_OK);
		if (order == 0)
			twi_claim_drop(engine, &op.claim);
		twi_claim_drop(engine, &part[0]);
		twi_claim_drop(engine, &part[1]);
		if (order == 2)
			twi_claim_drop(engine, &op.claim);
		assert_int_equal(leased() + twi_pool_deferred(engine->pool), 0);
		twi_peer_claims_init(&peer.claims);
	}
}

/* Only what was freed counts, and only when all peers together hold more than one may. */
static void room(void **state)
{
	void *at;

	(void)state;
	engine->knobs.peer_lease_bytes = 1 << 20;
	assert_int_equal(tow_alloc(runtime, 2 * MIB, 0, &at), TOW_OK);
	lease(at, 2 * MIB);
	assert_int_equal(twi_claim_room(&peer, 1), TOW_OK);
	assert_int_equal(tow_free(runtime, at), TOW_OK);
	assert_int_equal(twi_claim_room(&peer, 1), TOW_EBUSY);
	assert_int_equal(peer.claims.refused, 1);
	engine->knobs.peer_lease_bytes = 2 << 20;
	assert_int_equal(twi_claim_room(&peer, 1), TOW_OK);
	engine->knobs.peer_lease_bytes = 0; /* a quarter of the pool */
	assert_int_equal(twi_claim_room(&peer, 1), TOW_EBUSY);
	twi_claim_drop(engine, &op.claim);
	assert_int_equal(twi_claim_room(&peer, 1), TOW_OK);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = { EACH(kinds), EACH(parts), EACH(without_peer),
					    EACH(room) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
