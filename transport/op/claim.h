/*
 * claim.h - the memory of an operation's payload, and the lease on it while it is in flight.
 *
 *	pool          tow_alloc: leased, registered with everyone
 *	outside       tow_alloc of a full pool (exhaust=copy): leased, not registered
 *	registered    tow_mem_register, or registered late: the region is held
 *	unregistered  anything else: the caller keeps it, as the manual asks
 *
 * A claim is taken in two steps. twi_claim_lease, when the operation starts: from then on a free of
 * pool memory is deferred. twi_claim_need, for what is too large to go through the connection's
 * buffer: where the lane wants registered memory, unregistered memory is registered late or, where
 * that cannot be, staged (copied in chunks through the pool) or sent plainly, each with its reason;
 * with require_zero_copy it is refused.
 *
 * Each peer has a list of its claims on pool memory: what it holds now and held at most, and, of
 * memory that its owner has freed, at most peer_lease_bytes (twi_claim_room): a slow peer cannot
 * drain the pool.
 *
 * The engine is held in all calls. Budget: a lease and a list insertion for pool memory; a short
 * lock for memory elsewhere.
 */
#ifndef TWI_CLAIM_H
#define TWI_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include <internal/list.h>

#include "diag/record/counter.h"
#include "diag/record/site.h"
#include "memreg/pool/pool.h"
#include "memreg/region/region.h"
#include "transport/lanes/lane.h"

struct tow_op;
struct tow_peer;
struct twi_emit;
struct twi_engine;
struct twi_parts;

enum twi_claim_kind {
	TWI_CLAIM_NONE,
	TWI_CLAIM_POOL,
	TWI_CLAIM_OUTSIDE,
	TWI_CLAIM_REGISTERED,
	TWI_CLAIM_PARTS, /* of a message of parts, each of which has a claim of its own (parts.h) */
	TWI_CLAIM_UNREGISTERED,
};

struct twi_claim {
	uint8_t kind;
	bool listed; /* on peer->claims, and counted there */
	bool staged;
	const struct twi_region *region; /* that the memory lies in, or NULL */
	struct tow_peer *peer;
	union {
		const void *memory;      /* what was leased */
		struct twi_parts *parts; /* TWI_CLAIM_PARTS */
	};
	uint64_t bytes;
	struct twi_block block; /* TWI_CLAIM_POOL: the allocation that the memory lies in */
	struct twi_list link;   /* on peer->claims, or on the shares of the claim it is a part of */
	struct twi_list shares; /* of a claim on that list: parts that outlive it count then */
};

/* What a peer holds of the pool. */
struct twi_peer_claims {
	struct twi_list list;
	uint64_t bytes, peak_bytes;
	uint64_t refused; /* sends, for want of room */
};

static inline void twi_claim_init(struct twi_claim *claim)
{
	claim->kind = TWI_CLAIM_NONE;
	claim->staged = false;
	claim->listed = false;
	claim->region = NULL;
	claim->peer = NULL;
}

void twi_peer_claims_init(struct twi_peer_claims *claims);

/* The peer goes: claims that outlive it (notifications to come) are its no more. */
void twi_peer_claims_fini(struct twi_peer_claims *claims);

/* TOW_OK, or TOW_EBUSY when the peer holds back too much freed memory already. */
int twi_claim_room(struct tow_peer *peer, uint64_t bytes);

/*
 * Takes hold of the payload of op, which is not empty, on nobody's list. TOW_OK, also for memory
 * that tow_alloc has not given; TOW_EFREED; TOW_EBUSY. After a failure it is as unregistered.
 */
int twi_claim_memory(struct tow_op *op);

/* The same, on its peer's list. Nothing happens when op has a claim already. */
void twi_claim_lease(struct tow_peer *peer, struct tow_op *op);

/* A claim of twi_claim_memory goes onto the list of its peer, which is known now; and off again. */
void twi_claim_list(struct tow_peer *peer, struct tow_op *op);
void twi_claim_unlist(struct tow_op *op);

/* The second step: TOW_OK; TOW_EZEROCOPY; TOW_EEXHAUSTED without staging. */
int twi_claim_need(struct tow_peer *peer, struct tow_op *op);

/* Both steps of a receive; the second where it is longer than `above`, and no view. */
int twi_claim_recv(struct tow_peer *peer, struct tow_op *op, uint64_t above);

/*
 * All of the above for one part of a message of parts, of which `claim` is: what the call for an
 * operation does with its claim and memory. peer NULL: on nobody's list.
 */
void twi_claim_lease_piece(struct tow_peer *peer, struct tow_op *op, struct twi_claim *claim,
			   const void *data, uint64_t bytes);
int twi_claim_need_piece(struct tow_peer *peer, struct tow_op *op, struct twi_claim *claim,
			 const void *data, uint64_t bytes);
void twi_claim_list_piece(struct tow_peer *peer, struct twi_claim *claim);
void twi_claim_unlist_piece(struct twi_claim *claim);

/*
 * A large message of op is on its way, with `bytes` of payload: what op takes of them is counted if
 * it is unregistered.
 */
void twi_claim_count(const struct tow_op *op, uint64_t bytes);

/*
 * One hold more on the same memory, for `bytes` at `memory` inside it; not of a share. Of a message
 * of parts as a whole there is none: who moves it has the claims of its parts, or a copy.
 */
void twi_claim_share(struct twi_claim *claim, const void *memory, uint64_t bytes,
		     struct twi_engine *engine, struct twi_claim *out);

/* Lets go. A claim that was never taken is legal. */
void twi_claim_drop(struct twi_engine *engine, struct twi_claim *claim);

/* Why memory of this claim is copied where registered memory would not be. */
enum twi_reason twi_claim_reason(const struct twi_claim *claim, bool send);

/* Members of one object of /v1/peers. */
void twi_claims_describe(const struct tow_peer *peer, struct twi_emit *emit);

#endif
