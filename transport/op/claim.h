/*
 * claim.h - leases: the hold of an operation on the memory of its payload while it is in flight.
 *
 *	pool          tow_alloc: leased, and registered with every registrar
 *	outside       tow_alloc when the pool is full (exhaust=copy): leased, not registered
 *	registered    tow_mem_register, or registered late: the region is held
 *	unregistered  other memory: not held; the caller must keep it, as the manual asks
 *
 * An operation takes its lease in two steps. twi_claim_lease is the step at the start of the
 * operation: from then on a free of pool memory is deferred. twi_claim_need is the step for a
 * payload that is too large for the connection's buffer. Where the lane wants registered memory,
 * this step registers unregistered memory late. If that fails, the payload is staged (copied in
 * chunks through the pool) or sent plainly, and a reason is counted. With require_zero_copy the
 * payload is refused instead.
 *
 * Each peer has a list of its leases on pool memory. The list counts the bytes that the peer holds
 * now, and the most that it has held. Of memory that its owner has freed, a peer may hold at most
 * peer_lease_bytes (twi_claim_room): a slow peer cannot drain the pool.
 *
 * The engine is held in all calls. Budget: a lease and a list insertion for pool memory; a short
 * lock for other memory.
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
	TWI_CLAIM_PARTS, /* a message of parts; each part has a lease of its own (parts.h) */
	TWI_CLAIM_UNREGISTERED,
};

struct twi_claim {
	uint8_t kind;
	bool listed; /* it is on peer->claims, and counted there */
	bool staged;
	const struct twi_region *region; /* the region that the memory lies in, or NULL */
	struct tow_peer *peer;
	union {
		const void *memory;      /* the memory that is leased */
		struct twi_parts *parts; /* TWI_CLAIM_PARTS */
	};
	uint64_t bytes;
	struct twi_block block; /* TWI_CLAIM_POOL: the allocation that the memory lies in */
	struct twi_list link;   /* on peer->claims, or on the `shares` of another lease */
	struct twi_list shares; /* of a listed lease; a share that outlives it is listed */
};

/* The pool memory that a peer holds. */
struct twi_peer_claims {
	struct twi_list list;
	uint64_t bytes, peak_bytes;
	uint64_t refused; /* sends that were refused: the peer held too much freed memory */
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

/* The peer goes. Leases that outlive it (they await notifications) belong to no peer any more. */
void twi_peer_claims_fini(struct twi_peer_claims *claims);

/* TOW_OK, or TOW_EBUSY: the peer already holds too much freed memory. */
int twi_claim_room(struct tow_peer *peer, uint64_t bytes);

/*
 * Leases the payload of op, which is not empty, and puts the lease on no list. TOW_OK, also for
 * memory that is not of tow_alloc; TOW_EFREED; TOW_EBUSY. After a failure the lease is of the kind
 * unregistered.
 */
int twi_claim_memory(struct tow_op *op);

/* Leases the payload, and puts the lease on the peer's list. Does nothing if op has a lease. */
void twi_claim_lease(struct tow_peer *peer, struct tow_op *op);

/*
 * Puts a lease of twi_claim_memory onto the list of its peer, which is known now; takes it off
 * again.
 */
void twi_claim_list(struct tow_peer *peer, struct tow_op *op);
void twi_claim_unlist(struct tow_op *op);

/* The second step: TOW_OK; TOW_EZEROCOPY; TOW_EEXHAUSTED without staging. */
int twi_claim_need(struct tow_peer *peer, struct tow_op *op);

/* Both steps for a receive; the second only if it is longer than `above`, and no whole view. */
int twi_claim_recv(struct tow_peer *peer, struct tow_op *op, uint64_t above);

/*
 * The functions above for one part of a message of parts. `claim` is the lease of that part. With
 * peer NULL the lease is put on no list.
 */
void twi_claim_lease_piece(struct tow_peer *peer, struct tow_op *op, struct twi_claim *claim,
			   const void *data, uint64_t bytes);
int twi_claim_need_piece(struct tow_peer *peer, struct tow_op *op, struct twi_claim *claim,
			 const void *data, uint64_t bytes);
void twi_claim_list_piece(struct tow_peer *peer, struct twi_claim *claim);
void twi_claim_unlist_piece(struct twi_claim *claim);

/*
 * A large message of op is under way, with `bytes` of payload. Counts the part of them that op
 * takes, if that is unregistered.
 */
void twi_claim_count(const struct tow_op *op, uint64_t bytes);

/*
 * Takes one more hold on the same memory, for `bytes` at `memory` inside it. A share cannot be
 * shared again. A message of parts as a whole has no share: a lane that moves it uses the leases
 * of its parts, or a copy.
 */
void twi_claim_share(struct twi_claim *claim, const void *memory, uint64_t bytes,
		     struct twi_engine *engine, struct twi_claim *out);

/* Ends the lease. A lease that was never taken is legal. */
void twi_claim_drop(struct twi_engine *engine, struct twi_claim *claim);

/* The reason for which memory of this lease is copied, where registered memory would not be. */
enum twi_reason twi_claim_reason(const struct twi_claim *claim, bool send);

/* Writes the members on leases of one object of /v1/peers. */
void twi_claims_describe(const struct tow_peer *peer, struct twi_emit *emit);

#endif
