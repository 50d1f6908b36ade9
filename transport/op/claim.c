/*
 * claim.c - see claim.h.
 */
#include "transport/op/claim.h"

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "memreg/pool/pool_regions.h"
#include "memreg/region/lease.h"
#include "transport/engine/engine.h"
#include "transport/lanes/lane.h"
#include "transport/op/endpoint.h"
#include "transport/op/op.h"
#include "transport/op/op_table.h"
#include "transport/op/parts.h"

void twi_peer_claims_init(struct twi_peer_claims *claims)
{
	*claims = (struct twi_peer_claims){ .bytes = 0 };
	twi_list_init(&claims->list);
}

void twi_peer_claims_fini(struct twi_peer_claims *claims)
{
	struct twi_list *entry;

	while ((entry = twi_list_first(&claims->list)) != NULL) {
		struct twi_claim *claim = twi_container_of(entry, struct twi_claim, link);
		struct twi_list *share;

		while ((share = twi_list_first(&claim->shares)) != NULL) {
			twi_list_remove(share);
			twi_container_of(share, struct twi_claim, link)->peer = NULL;
		}
		twi_list_remove(entry);
		claim->listed = false;
		claim->peer = NULL;
	}
}

/* Puts the lease on its peer's list. */
static void enlist_claim(struct twi_claim *claim, struct tow_peer *peer)
{
	struct twi_peer_claims *claims = &peer->claims;

	claim->peer = peer;
	claim->listed = true;
	twi_list_init(&claim->shares);
	twi_list_init(&claim->link);
	twi_list_push_back(&claims->list, &claim->link);
	claims->bytes += claim->bytes;
	claims->peak_bytes = twi_max(claims->peak_bytes, claims->bytes);
}

/* The bytes that this peer holds of memory that its owner has freed. */
static uint64_t freed_bytes_held(struct tow_peer *peer)
{
	struct twi_list *pos, *next;
	uint64_t bytes = 0;

	twi_list_for_each_safe (pos, next, &peer->claims.list) {
		const struct twi_claim *claim = twi_container_of(pos, struct twi_claim, link);

		if (twi_pool_freed(peer->engine->pool, claim->memory))
			bytes += claim->bytes;
	}
	return bytes;
}

int twi_claim_room(struct tow_peer *peer, uint64_t bytes)
{
	struct twi_engine *engine = peer->engine;
	uint64_t most = engine->knobs.peer_lease_bytes, held;

	twi_assert_held(peer->engine);
	if (most == 0)
		most = engine->knobs.premap_memory_bytes / 4;
	/* Nearly always: all peers together hold back no more than one of them may. */
	if (twi_likely(peer->claims.bytes <= most || twi_pool_deferred(engine->pool) <= most))
		return TOW_OK;
	held = freed_bytes_held(peer);
	if (held <= most)
		return TOW_OK;
	peer->claims.refused++;
	twi_count(engine->diag, TWI_C_peer_lease_refusals, 1);
	return twi_error(TOW_EBUSY,
			 "peer %s holds back %llu bytes of freed memory, peer_lease_bytes is %llu: "
			 "wait for earlier sends before this one of %llu bytes",
			 peer->address, (unsigned long long)held, (unsigned long long)most,
			 (unsigned long long)bytes);
}

/* Takes a lease from the pool: no lease of this engine on that memory can be shared. */
static __attribute__((noinline)) int lease_from_pool(struct twi_engine *engine,
						     struct twi_claim *claim, const void *data,
						     uint64_t bytes)
{
	struct twi_pool *pool = engine->pool;
	const struct twi_extent *extent = twi_pool_find(pool, data, bytes);
	int status;

	if (extent == NULL && !twi_pool_overflow(pool, data, bytes))
		return TOW_OK;
	status = extent != NULL ? twi_pool_lease_block(pool, extent, data, &claim->block)
				: twi_pool_lease(pool, data);
	if (twi_unlikely(status < 0))
		return status;
	claim->kind = extent != NULL ? TWI_CLAIM_POOL : TWI_CLAIM_OUTSIDE;
	if (extent != NULL) {
		claim->region = &extent->region;
		twi_shared_keep(&engine->ops->leases, &claim->block, extent);
	}
	return TOW_OK;
}

static inline int claim_piece(struct twi_engine *engine, struct twi_claim *claim, const void *data,
			      uint64_t bytes)
{
	const struct twi_extent *extent;

	claim->memory = data;
	claim->bytes = bytes;
	claim->kind = TWI_CLAIM_UNREGISTERED;
	if (twi_unlikely(
		    !twi_shared_lease(&engine->ops->leases, data, bytes, &claim->block, &extent)))
		return lease_from_pool(engine, claim, data, bytes);
	claim->kind = TWI_CLAIM_POOL;
	claim->region = &extent->region;
	return TOW_OK;
}

int twi_claim_memory(struct tow_op *op)
{
	return claim_piece(op->engine, &op->claim, op->data, op->bytes);
}

void twi_claim_lease(struct tow_peer *peer, struct tow_op *op)
{
	twi_assert_held(peer->engine);
	if (op->claim.kind != TWI_CLAIM_NONE || op->bytes == 0)
		return;
	twi_claim_memory(op);
	if (op->claim.kind == TWI_CLAIM_POOL)
		enlist_claim(&op->claim, peer);
}

void twi_claim_lease_piece(struct tow_peer *peer, struct tow_op *op, struct twi_claim *claim,
			   const void *data, uint64_t bytes)
{
	twi_assert_held(op->engine);
	if (claim->kind != TWI_CLAIM_NONE)
		return;
	claim_piece(op->engine, claim, data, bytes);
	if (peer != NULL)
		twi_claim_list_piece(peer, claim);
}

void twi_claim_count(const struct tow_op *op, uint64_t bytes)
{
	struct twi_diag *diag = op->engine->diag;
	bool send = op->kind == TWI_OP_SEND;

	twi_assert_held(op->engine);
	if ((op->claim.kind != TWI_CLAIM_UNREGISTERED && op->claim.kind != TWI_CLAIM_PARTS) ||
	    !twi_space_counts(op->space))
		return;
	bytes = twi_min(bytes, op->bytes); /* the rest is dropped */
	if (op->claim.kind == TWI_CLAIM_PARTS) {
		bytes = twi_parts_unregistered(op->claim.parts, bytes);
		if (bytes == 0)
			return;
	}
	twi_count(diag, send ? TWI_C_unregistered_sends : TWI_C_unregistered_recvs, 1);
	twi_count(diag, send ? TWI_C_unregistered_send_bytes : TWI_C_unregistered_recv_bytes,
		  bytes);
}

static int refuse_claim(struct twi_engine *engine, const struct tow_op *op, const void *data,
			uint64_t bytes)
{
	twi_count(engine->diag, TWI_C_zero_copy_refusals, 1);
	return twi_error(TOW_EZEROCOPY,
			 "require_zero_copy: %s of %llu bytes at %p, which are not registered; "
			 "allocate them with tow_alloc or register them with tow_mem_register",
			 op->kind == TWI_OP_SEND ? "send" : "receive", (unsigned long long)bytes,
			 data);
}

/* False: the message goes without registration, which is no failure of the send or receive. */
static bool register_late(struct twi_engine *engine, struct twi_site site, struct twi_claim *claim,
			  const void *data, uint64_t bytes)
{
	struct twi_error_kept kept;
	int status;

	twi_error_keep(&kept);
	status = twi_pool_region_late(engine->pool, data, bytes, site, &claim->region);
	twi_error_settle(&kept, TOW_OK);
	return status == TOW_OK;
}

/* The second step. Memory outside the pool is leased, and may have to be registered too. */
static int need_piece(struct tow_peer *peer, struct tow_op *op, struct twi_claim *claim,
		      const void *data, uint64_t bytes)
{
	struct twi_engine *engine = peer->engine;
	enum twi_need need = TWI_NEED_NOTHING;
	bool payload = twi_space_counts(op->space);

	if (claim->kind != TWI_CLAIM_UNREGISTERED && claim->kind != TWI_CLAIM_OUTSIDE)
		return TOW_OK;
	if (claim->kind == TWI_CLAIM_UNREGISTERED)
		claim->region = twi_pool_region_acquire(engine->pool, data, bytes);
	if (claim->region != NULL) {
		claim->kind = TWI_CLAIM_REGISTERED;
		return TOW_OK;
	}
	if (peer->lane->ops->need != NULL)
		need = peer->lane->ops->need(peer, op);
	/* The library's own messages are no payload that the user could register. */
	if (need != TWI_NEED_NOTHING && engine->knobs.require_zero_copy && payload)
		return refuse_claim(engine, op, data, bytes);
	if (need != TWI_NEED_NOTHING && claim->kind == TWI_CLAIM_UNREGISTERED && payload &&
	    register_late(engine, op->site, claim, data, bytes)) {
		claim->kind = TWI_CLAIM_REGISTERED;
		return TOW_OK;
	}
	claim->staged = need == TWI_NEED_REGISTERED;
	if (claim->staged && engine->staging.chunks == 0)
		return twi_error(TOW_EEXHAUSTED,
				 "%s of %llu bytes of unregistered memory needs staging, and "
				 "staging_bytes is 0",
				 op->kind == TWI_OP_SEND ? "send" : "receive",
				 (unsigned long long)bytes);
	return TOW_OK;
}

int twi_claim_need(struct tow_peer *peer, struct tow_op *op)
{
	twi_assert_held(peer->engine);
	if (op->claim.kind == TWI_CLAIM_PARTS)
		return twi_parts_need(peer, op);
	twi_claim_lease(peer, op);
	return need_piece(peer, op, &op->claim, op->data, op->bytes);
}

int twi_claim_recv(struct tow_peer *peer, struct tow_op *op, uint64_t above)
{
	if (!op->view)
		twi_claim_lease(peer, op);
	else if (twi_op_in_parts(op))
		twi_parts_lease(peer, op);
	if (op->bytes <= above || op->view == TWI_VIEW_WHOLE)
		return TOW_OK;
	return twi_claim_need(peer, op);
}

int twi_claim_need_piece(struct tow_peer *peer, struct tow_op *op, struct twi_claim *claim,
			 const void *data, uint64_t bytes)
{
	twi_assert_held(peer->engine);
	return need_piece(peer, op, claim, data, bytes);
}

void twi_claim_share(struct twi_claim *claim, const void *memory, uint64_t bytes,
		     struct twi_engine *engine, struct twi_claim *out)
{
	twi_assert_held(engine);
	if (claim->kind == TWI_CLAIM_PARTS) {
		twi_claim_init(out);
		return;
	}
	*out = *claim;
	out->memory = memory;
	out->bytes = bytes;
	out->peer = NULL;
	out->listed = false;
	if (claim->kind == TWI_CLAIM_POOL)
		twi_assert(twi_hold_lease_again(claim->block.hold) == TOW_OK);
	else if (claim->kind == TWI_CLAIM_OUTSIDE)
		twi_assert(twi_pool_lease_again(engine->pool, memory) == TOW_OK);
	else if (claim->kind == TWI_CLAIM_REGISTERED)
		twi_pool_region_hold(engine->pool, claim->region);
	if (claim->listed) {
		out->peer = claim->peer;
		twi_list_init(&out->link);
		twi_list_push_back(&claim->shares, &out->link);
	}
}

/* Takes the lease off its peer's list. Shares that are still in use take its place there. */
static inline __attribute__((always_inline)) void delist_claim(struct twi_claim *claim)
{
	struct tow_peer *peer = claim->peer;
	struct twi_list *entry;

	if (peer == NULL)
		return;
	twi_list_remove(&claim->link);
	if (!claim->listed)
		return;
	twi_assert_hot(peer->claims.bytes >= claim->bytes);
	peer->claims.bytes -= claim->bytes;
	while ((entry = twi_list_first(&claim->shares)) != NULL) {
		twi_list_remove(entry);
		enlist_claim(twi_container_of(entry, struct twi_claim, link), peer);
	}
}

/* Drops a claim that holds no lease of the pool. */
static __attribute__((noinline)) void drop_unleased(struct twi_engine *engine,
						    struct twi_claim *claim)
{
	if (claim->kind == TWI_CLAIM_REGISTERED)
		twi_pool_region_release(engine->pool, claim->region);
	else if (claim->kind == TWI_CLAIM_PARTS)
		twi_parts_drop(engine, claim->parts);
}

void twi_claim_drop(struct twi_engine *engine, struct twi_claim *claim)
{
	twi_assert_held(engine);
	delist_claim(claim);
	if (claim->kind == TWI_CLAIM_POOL)
		twi_shared_release(&engine->ops->leases, engine->pool, &claim->block);
	else if (claim->kind == TWI_CLAIM_OUTSIDE)
		twi_pool_release(engine->pool, claim->memory);
	else if (claim->kind != TWI_CLAIM_UNREGISTERED)
		drop_unleased(engine, claim);
	twi_claim_init(claim);
}

void twi_claim_list_piece(struct tow_peer *peer, struct twi_claim *claim)
{
	twi_assert_held(peer->engine);
	if (claim->kind == TWI_CLAIM_POOL && !claim->listed)
		enlist_claim(claim, peer);
}

void twi_claim_unlist_piece(struct twi_claim *claim)
{
	delist_claim(claim);
	claim->peer = NULL;
	claim->listed = false;
	claim->staged = false;
}

void twi_claim_list(struct tow_peer *peer, struct tow_op *op)
{
	twi_assert_held(peer->engine);
	if (op->claim.kind == TWI_CLAIM_PARTS)
		twi_parts_list(peer, op);
	else
		twi_claim_list_piece(peer, &op->claim);
}

void twi_claim_unlist(struct tow_op *op)
{
	twi_assert_held(op->engine);
	if (op->claim.kind == TWI_CLAIM_PARTS)
		twi_parts_unlist(op->claim.parts);
	twi_claim_unlist_piece(&op->claim);
}

enum twi_reason twi_claim_reason(const struct twi_claim *claim, bool send)
{
	if (claim->kind == TWI_CLAIM_PARTS)
		return send ? TWI_R_parts_send : TWI_R_parts_recv;
	if (claim->kind == TWI_CLAIM_OUTSIDE)
		return TWI_R_pool_exhausted;
	if (claim->kind == TWI_CLAIM_UNREGISTERED)
		return send ? TWI_R_unregistered_send : TWI_R_unregistered_recv;
	return TWI_R_pool_unpinned;
}

void twi_claims_describe(const struct tow_peer *peer, struct twi_emit *emit)
{
	twi_emit_u64(emit, "leased_bytes", peer->claims.bytes);
	twi_emit_u64(emit, "leased_peak_bytes", peer->claims.peak_bytes);
	twi_emit_u64(emit, "lease_refusals", peer->claims.refused);
}
