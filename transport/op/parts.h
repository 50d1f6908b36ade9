/*
 * parts.h - a message of several pieces of memory: where each byte of it is, and the leases on all
 * pieces.
 *
 *	tow_part[]  ->  joined  ->  one is left: an ordinary message, of which nothing here knows
 *	                        ->  small send: gathered once, then as ordinary (count 0)
 *	                        ->  else a record; op->data is NULL, op->view is TWI_VIEW_PARTS
 *
 * The record is in the operation's lease, whose kind is TWI_CLAIM_PARTS from the start on. When the
 * operation ends it drops its lease, and with that the leases of the parts and the record. An
 * operation without parts uses none of this.
 *
 * Adjacent parts are joined, unless that would lose something. Two allocations of the pool, or two
 * registered regions, which happen to touch are not joined: each is leased or held for itself.
 *
 * The lane decides how a large message of parts travels. A lane that `gathers` and `scatters`
 * (lane.h) moves one run after the other in place. For another lane the lease is `staged`, and the
 * lane copies pieces, as it does for memory that it cannot use.
 *
 * Budget of a start: one allocation, a step for each part, and a lease for each part of the pool. A
 * byte is found by a binary search, after a look at the last run found and the run behind it.
 */
#ifndef TWI_PARTS_H
#define TWI_PARTS_H

#include <internal/base.h>

#include "transport/op/op.h"

struct tow_part;
struct twi_pool;

/* A run of contiguous bytes; no run is empty. */
struct twi_parts_run {
	uint8_t *data;
	uint64_t bytes;
	uint64_t from; /* its offset in the message */
};

struct twi_parts {
	uint32_t count;           /* 0: gathered, and `runs` holds the message's bytes */
	uint32_t near;            /* the index of the run that was found last */
	uint64_t bytes;           /* of the whole message */
	struct twi_claim *claims; /* one for each run, in this allocation too */
	struct twi_parts_run runs[];
};

/*
 * Joins the parts that can be joined. *parts_out NULL: at most one run is left, and *whole_out has
 * it. TOW_OK; TOW_EINVAL, with a message that names call and part; TOW_ENOMEM. Any thread may call
 * this; the engine need not be held.
 */
int twi_parts_create(const char *call, struct twi_pool *pool, const struct tow_part *given,
		     uint32_t count, struct tow_part *whole_out, struct twi_parts **parts_out);

/* Frees a record whose leases were not taken, or NULL. */
void twi_parts_destroy(struct twi_parts *parts);

/*
 * Copies the small message of these parts into one piece. *parts_io becomes another record, and
 * *data_out points to its bytes. TOW_OK or TOW_ENOMEM. The engine is held.
 */
int twi_parts_gather(struct twi_engine *engine, struct twi_site site, struct twi_parts **parts_io,
		     void **data_out);

/* Gives the record to the operation. If the record is gathered, op->data has the bytes. */
void twi_parts_attach(struct tow_op *op, struct twi_parts *parts);

/* --- leases, for claim.c and the start of receives: claim.h for each part. Engine held. --- */

/* With peer NULL the leases are put on no list. Parts that have a lease keep it. */
void twi_parts_lease(struct tow_peer *peer, struct tow_op *op);
/* The same, and the second step, as in twi_claim_need. */
int twi_parts_need(struct tow_peer *peer, struct tow_op *op);
void twi_parts_list(struct tow_peer *peer, struct tow_op *op);
void twi_parts_unlist(struct twi_parts *parts);
/* How many of the first `bytes` are in unregistered memory. */
uint64_t twi_parts_unregistered(const struct twi_parts *parts, uint64_t bytes);
/* Drops the leases, and frees the record. */
void twi_parts_drop(struct twi_engine *engine, struct twi_parts *parts);

/* --- where the bytes of a message are --- */

/* The run with byte `at` of the message; `at` is below parts->bytes. */
struct twi_parts_run *twi_parts_find(struct twi_parts *parts, uint64_t at);

/* The address of byte `at`; cuts *bytes_io to the bytes that follow contiguously. */
void *twi_parts_at(struct twi_parts *parts, uint64_t at, uint64_t *bytes_io);

static inline bool twi_op_in_parts(const struct tow_op *op)
{
	return twi_unlikely(op->view == TWI_VIEW_PARTS);
}

/* The same for any operation with payload in memory; one piece of memory cuts nothing. */
static inline void *twi_op_at(const struct tow_op *op, uint64_t at, uint64_t *bytes_io)
{
	if (twi_op_in_parts(op))
		return twi_parts_at(op->claim.parts, at, bytes_io);
	return (uint8_t *)op->data + at;
}

/* The lease on byte `at` of the operation's payload. */
struct twi_claim *twi_op_claim_at(struct tow_op *op, uint64_t at);

/* The same, found by the address of the byte. */
const struct twi_claim *twi_op_claim_of(const struct tow_op *op, const void *address);

/* The end of the piece of payload memory that contains `address`. */
const void *twi_op_end_of(const struct tow_op *op, const void *address);

/* How many of `bytes` from byte `at` on can be read, or written: twi_reach on non-pool memory. */
uint64_t twi_op_reach(const struct tow_op *op, uint64_t at, uint64_t bytes, bool write);

/* The same for the ends of each part of the first `bytes` only: twi_reach_ends. */
uint64_t twi_op_reach_ends(const struct tow_op *op, uint64_t bytes, bool write);

/*
 * Fallback copies of `bytes` from byte `at` on, with the reason of the lease: out of payload that
 * is sent, or into payload that is received.
 */
void twi_op_copy_out(const struct tow_op *op, uint64_t at, void *to, uint64_t bytes);
void twi_op_copy_in(const struct tow_op *op, uint64_t at, const void *from, uint64_t bytes);

/* Continues the checksum `sum` with `bytes` from byte `at` on. */
uint32_t twi_op_checksum(const struct tow_op *op, uint32_t sum, uint64_t at, uint64_t bytes);

#endif
