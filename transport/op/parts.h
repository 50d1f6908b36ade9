/*
 * parts.h - a message of several pieces of memory: where each byte of it lies, and the claims on
 * all of them.
 *
 *	tow_part[]  ->  joined  ->  one is left: an ordinary message, of which nothing here knows
 *	                        ->  small send: gathered once, then as ordinary (count 0)
 *	                        ->  else a record; op->data is NULL, op->view is TWI_VIEW_PARTS
 *
 * The record stands in the operation's claim, whose kind is TWI_CLAIM_PARTS from the start on, so
 * the end of an operation, which drops its claim, drops the claims of the parts and the record as
 * well. An operation without parts touches none of this.
 *
 * Parts that lie one behind the other are one, unless that would lose something: two allocations of
 * the pool, or two registered regions, which happen to touch are leased and held each for itself.
 *
 * How a large message of parts travels is the lane's: where it `gathers` and `scatters` (lane.h) it
 * moves one run after the other where they lie; else its claim is `staged`, and the lane takes its
 * way for memory that it cannot use, which copies pieces.
 *
 * Budget of a start: one allocation, a step for each part, and a lease for each that is of the
 * pool. Finding a byte is a binary search, but that the run behind the last one found is tried
 * first.
 */
#ifndef TWI_PARTS_H
#define TWI_PARTS_H

#include <internal/base.h>

#include "transport/op/op.h"

struct tow_part;
struct twi_pool;

/* A run of bytes that lie together, none of them empty. */
struct twi_parts_run {
	uint8_t *data;
	uint64_t bytes;
	uint64_t from; /* in the message */
};

struct twi_parts {
	uint32_t count;           /* 0: gathered, and what follows is the message */
	uint32_t near;            /* the part that was found last */
	uint64_t bytes;           /* of all */
	struct twi_claim *claims; /* one for each part, in this allocation as well */
	struct twi_parts_run runs[];
};

/*
 * Joins what can be joined. *parts_out NULL: one run is left, or none, which *whole_out has.
 * TOW_OK; TOW_EINVAL, naming call and part; TOW_ENOMEM. Any thread; the engine need not be held.
 */
int twi_parts_create(const char *call, struct twi_pool *pool, const struct tow_part *given,
		     uint32_t count, struct tow_part *whole_out, struct twi_parts **parts_out);

/* Of a record whose claims were not taken, or NULL. */
void twi_parts_destroy(struct twi_parts *parts);

/*
 * The small message of these parts in one piece, copied: *parts_io is another record then, and
 * *data_out its bytes. TOW_OK or TOW_ENOMEM. The engine is held.
 */
int twi_parts_gather(struct twi_engine *engine, struct twi_site site, struct twi_parts **parts_io,
		     void **data_out);

/* The operation is one of these parts; gathered: op->data has them. */
void twi_parts_attach(struct tow_op *op, struct twi_parts *parts);

/* --- claims, for claim.c and who starts receives: claim.h of each part. The engine is held. --- */

/* peer NULL: on nobody's list. Parts that have a claim keep it. */
void twi_parts_lease(struct tow_peer *peer, struct tow_op *op);
/* The same, and the second step: as twi_claim_need. */
int twi_parts_need(struct tow_peer *peer, struct tow_op *op);
void twi_parts_list(struct tow_peer *peer, struct tow_op *op);
void twi_parts_unlist(struct twi_parts *parts);
/* How many of the first `bytes` lie in unregistered memory. */
uint64_t twi_parts_unregistered(const struct twi_parts *parts, uint64_t bytes);
/* Drops the claims, and frees the record. */
void twi_parts_drop(struct twi_engine *engine, struct twi_parts *parts);

/* --- where the bytes of a message lie --- */

/* The part that holds byte `at` of the message, which is below parts->bytes. */
struct twi_parts_run *twi_parts_find(struct twi_parts *parts, uint64_t at);

/* Where byte `at` lies; *bytes_io is cut to what lies behind it in one piece. */
void *twi_parts_at(struct twi_parts *parts, uint64_t at, uint64_t *bytes_io);

static inline bool twi_op_in_parts(const struct tow_op *op)
{
	return twi_unlikely(op->view == TWI_VIEW_PARTS);
}

/* The same of any operation with payload in memory: that of one piece is cut by nothing. */
static inline void *twi_op_at(const struct tow_op *op, uint64_t at, uint64_t *bytes_io)
{
	if (twi_op_in_parts(op))
		return twi_parts_at(op->claim.parts, at, bytes_io);
	return (uint8_t *)op->data + at;
}

/* The claim on byte `at` of its payload. */
struct twi_claim *twi_op_claim_at(struct tow_op *op, uint64_t at);

/* The same by the address of a byte of it. */
const struct twi_claim *twi_op_claim_of(const struct tow_op *op, const void *address);

/* Where the memory of its payload around `address` ends. */
const void *twi_op_end_of(const struct tow_op *op, const void *address);

/* How many of `bytes` from byte `at` on can be read, or written: twi_reach, of what is not pool. */
uint64_t twi_op_reach(const struct tow_op *op, uint64_t at, uint64_t bytes, bool write);

/* The same of the first and last page of each part of the first `bytes` alone: twi_reach_ends. */
uint64_t twi_op_reach_ends(const struct tow_op *op, uint64_t bytes, bool write);

/*
 * Fallback copies of `bytes` from byte `at` on, for the reason that the claim gives: out of payload
 * that is sent, into payload that is received.
 */
void twi_op_copy_out(const struct tow_op *op, uint64_t at, void *to, uint64_t bytes);
void twi_op_copy_in(const struct tow_op *op, uint64_t at, const void *from, uint64_t bytes);

/* The checksum of `bytes` from byte `at` on, behind those of `sum`. */
uint32_t twi_op_checksum(const struct tow_op *op, uint32_t sum, uint64_t at, uint64_t bytes);

#endif
