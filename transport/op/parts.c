/*
 * parts.c - see parts.h.
 */
#include "transport/op/parts.h"
#include "transport/op/own_memory.h"

#include <stdlib.h>

#include <towline/match.h>

#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "memreg/pool/pool_regions.h"
#include "transport/engine/engine.h"
#include "transport/lanes/lane.h"
#include "transport/op/endpoint.h"
#include "transport/op/path.h"
#include "transport/op/reach.h"
#include "transport/wire/frame.h"

/* --- joining --- */

/* Whether one lease holds both: they are in one allocation of the pool. */
static bool in_one_block(struct twi_pool *pool, const struct twi_extent *extent,
			 const struct twi_parts_run *part, const void *next)
{
	struct twi_block a, b;
	bool same;

	if (twi_pool_lease_block(pool, extent, part->data, &a) < 0)
		return false;
	if (twi_pool_lease_block(pool, extent, next, &b) < 0) {
		twi_pool_release_block(pool, &a);
		return false;
	}
	same = a.hold == b.hold;
	twi_pool_release_block(pool, &a);
	twi_pool_release_block(pool, &b);
	return same;
}

static bool has_region(struct twi_pool *pool, const void *data, uint64_t bytes)
{
	const struct twi_region *region = twi_pool_region_acquire(pool, data, bytes);

	if (region != NULL)
		twi_pool_region_release(pool, region);
	return region != NULL;
}

/* Whether the pieces are adjacent, and one lease serves for both. */
static bool may_join(struct twi_pool *pool, const struct twi_parts_run *part, const void *next,
		     uint64_t bytes)
{
	const uint64_t sum = part->bytes + bytes;
	const struct twi_extent *extent = twi_pool_find(pool, part->data, sum);

	if (part->data + part->bytes != next)
		return false;
	if (extent != NULL)
		return in_one_block(pool, extent, part, next);
	if (twi_pool_find(pool, part->data, part->bytes) != NULL ||
	    twi_pool_find(pool, next, bytes) != NULL)
		return false;
	if (twi_pool_overflow(pool, part->data, part->bytes) ||
	    twi_pool_overflow(pool, next, bytes))
		return twi_pool_overflow(pool, part->data, sum);
	return has_region(pool, part->data, sum) ||
	       (!has_region(pool, part->data, part->bytes) && !has_region(pool, next, bytes));
}

static int check_parts(const char *call, const struct tow_part *given, uint32_t count)
{
	uint64_t sum = 0;

	if (count > 0 && given == NULL)
		return twi_error(TOW_EINVAL, "%s: parts is NULL", call);
	if (count > TOW_PARTS_MAX)
		return twi_error(TOW_EINVAL, "%s: part_count is %u, the most is TOW_PARTS_MAX, %u",
				 call, count, TOW_PARTS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		if (given[i].bytes > TWI_WIRE_U63_MAX - sum)
			return twi_error(TOW_EINVAL,
					 "%s: with part %u of %llu bytes the message is longer "
					 "than 2^63-1",
					 call, i, (unsigned long long)given[i].bytes);
		if (given[i].bytes > 0 && given[i].data == NULL)
			return twi_error(TOW_EINVAL, "%s: the data of part %u is NULL", call, i);
		sum += given[i].bytes;
	}
	return TOW_OK;
}

/* Joins the parts that are not empty. The record has room for all that are given. */
static void join_parts(struct twi_parts *parts, struct twi_pool *pool, const struct tow_part *given,
		       uint32_t count)
{
	struct twi_parts_run *last = NULL;

	for (uint32_t i = 0; i < count; i++) {
		if (given[i].bytes == 0)
			continue;
		if (last != NULL && may_join(pool, last, given[i].data, given[i].bytes)) {
			last->bytes += given[i].bytes;
		} else {
			last = &parts->runs[parts->count++];
			*last = (struct twi_parts_run){ .data = given[i].data,
							.bytes = given[i].bytes,
							.from = parts->bytes };
		}
		parts->bytes += given[i].bytes;
	}
}

int twi_parts_create(const char *call, struct twi_pool *pool, const struct tow_part *given,
		     uint32_t count, struct tow_part *whole_out, struct twi_parts **parts_out)
{
	int status = check_parts(call, given, count);
	struct twi_parts *parts;

	*parts_out = NULL;
	*whole_out = (struct tow_part){ NULL, 0 };
	if (status < 0)
		return status;
	if (count <= 1) {
		*whole_out = count == 1 ? given[0] : *whole_out;
		return TOW_OK;
	}
	parts = malloc(sizeof(*parts) +
		       count * (sizeof(struct twi_parts_run) + sizeof(struct twi_claim)));
	if (parts == NULL)
		return twi_error(TOW_ENOMEM, "%s: no memory for a message of %u parts", call,
				 count);
	parts->count = parts->near = 0;
	parts->bytes = 0;
	join_parts(parts, pool, given, count);
	parts->claims = (struct twi_claim *)(void *)&parts->runs[parts->count];
	for (uint32_t i = 0; i < parts->count; i++)
		twi_claim_init(&parts->claims[i]);
	if (parts->count > 1) {
		*parts_out = parts;
		return TOW_OK;
	}
	if (parts->count == 1)
		*whole_out = (struct tow_part){ parts->runs[0].data, parts->bytes };
	free(parts);
	return TOW_OK;
}

void twi_parts_destroy(struct twi_parts *parts)
{
	free(parts);
}

int twi_parts_gather(struct twi_engine *engine, struct twi_site site, struct twi_parts **parts_io,
		     void **data_out)
{
	struct twi_parts *parts = *parts_io, *whole = malloc(sizeof(*whole) + parts->bytes);

	twi_assert_held(engine);
	if (whole == NULL)
		return twi_error(TOW_ENOMEM, "no memory to gather a message of %llu bytes",
				 (unsigned long long)parts->bytes);
	*whole = (struct twi_parts){ .bytes = parts->bytes };
	*data_out = whole->runs;
	twi_path_gather(engine, TWI_R_parts_small, whole->runs, parts, 0, parts->bytes, site);
	free(parts);
	*parts_io = whole;
	return TOW_OK;
}

void twi_parts_attach(struct tow_op *op, struct twi_parts *parts)
{
	twi_assert_held(op->engine);
	twi_assert_hot(op->claim.kind == TWI_CLAIM_NONE);
	op->claim.kind = TWI_CLAIM_PARTS;
	op->claim.parts = parts;
	if (parts->count > 0) {
		op->view = TWI_VIEW_PARTS;
		op->data = NULL; /* so that no code takes it for one piece */
	}
}

/* --- leases --- */

/*
 * Sets `staged`, as the lane is known now. A small receive needs it too: the message that it meets
 * may be large, and be truncated.
 */
static void choose_staging(const struct tow_peer *peer, struct tow_op *op)
{
	const struct twi_lane_ops *lane = peer->lane->ops;

	op->claim.staged = op->kind == TWI_OP_SEND ? !lane->gathers : !lane->scatters;
}

void twi_parts_lease(struct tow_peer *peer, struct tow_op *op)
{
	struct twi_parts *parts = op->claim.parts;

	twi_assert_held(op->engine);
	if (peer != NULL)
		choose_staging(peer, op);
	for (uint32_t i = 0; i < parts->count; i++)
		twi_claim_lease_piece(peer, op, &parts->claims[i], parts->runs[i].data,
				      parts->runs[i].bytes);
}

/* The lane moves only one piece of memory, so it would copy this message. */
static int refuse_parts(struct tow_peer *peer, const struct tow_op *op)
{
	bool send = op->kind == TWI_OP_SEND;

	twi_count(peer->engine->diag, TWI_C_zero_copy_refusals, 1);
	return twi_error(TOW_EZEROCOPY,
			 "require_zero_copy: %s of %llu bytes in %u parts, which the %s lane "
			 "copies; %s one piece of memory, or connect by tcp",
			 send ? "send" : "receive", (unsigned long long)op->bytes,
			 op->claim.parts->count, twi_lane_name(peer->lane->ops->id),
			 send ? "send from" : "receive into");
}

/*
 * Gathers the parts into one block of the pool, which is best for a lane that reads registered
 * memory itself. From then on the message is an ordinary one whose memory its owner has freed, and
 * the lease keeps the block. If the pool has no room, or the parts cannot be read, the lane copies
 * the message in pieces.
 */
static void gather_block(struct tow_peer *peer, struct tow_op *op)
{
	struct twi_engine *engine = peer->engine;
	struct twi_error_kept kept;
	void *block = NULL;

	if (twi_op_reach(op, 0, op->bytes, false) < op->bytes)
		return;
	twi_error_keep(&kept);
	(void)twi_own_try(engine, op->bytes, 64, &block);
	twi_error_settle(&kept, TOW_OK);
	if (block == NULL)
		return;
	twi_path_gather(engine, TWI_R_parts_send, block, op->claim.parts, 0, op->bytes, op->site);
	twi_claim_drop(engine, &op->claim);
	op->view = TWI_VIEW_NONE;
	op->data = block;
	twi_claim_lease(peer, op);
	twi_own_give(engine, block);
}

int twi_parts_need(struct tow_peer *peer, struct tow_op *op)
{
	struct twi_parts *parts = op->claim.parts;
	int status = TOW_OK;

	twi_parts_lease(peer, op);
	if (op->claim.staged && peer->engine->knobs.require_zero_copy)
		return refuse_parts(peer, op);
	if (op->claim.staged) {
		if (op->kind == TWI_OP_SEND && peer->lane->ops->need != NULL)
			gather_block(peer, op);
		return TOW_OK;
	}
	for (uint32_t i = 0; i < parts->count && status == TOW_OK; i++)
		status = twi_claim_need_piece(peer, op, &parts->claims[i], parts->runs[i].data,
					      parts->runs[i].bytes);
	return status;
}

void twi_parts_list(struct tow_peer *peer, struct tow_op *op)
{
	struct twi_parts *parts = op->claim.parts;

	choose_staging(peer, op);
	for (uint32_t i = 0; i < parts->count; i++)
		twi_claim_list_piece(peer, &parts->claims[i]);
}

void twi_parts_unlist(struct twi_parts *parts)
{
	for (uint32_t i = 0; i < parts->count; i++)
		twi_claim_unlist_piece(&parts->claims[i]);
}

uint64_t twi_parts_unregistered(const struct twi_parts *parts, uint64_t bytes)
{
	uint64_t found = 0;

	for (uint32_t i = 0; i < parts->count && parts->runs[i].from < bytes; i++) {
		if (parts->claims[i].kind == TWI_CLAIM_UNREGISTERED)
			found += twi_min(parts->runs[i].bytes, bytes - parts->runs[i].from);
	}
	return found;
}

void twi_parts_drop(struct twi_engine *engine, struct twi_parts *parts)
{
	twi_assert_held(engine);
	for (uint32_t i = 0; i < parts->count; i++)
		twi_claim_drop(engine, &parts->claims[i]);
	twi_parts_destroy(parts);
}

/* --- where the bytes of a message are --- */

static bool holds_byte(const struct twi_parts_run *part, uint64_t at)
{
	return at - part->from < part->bytes; /* an `at` below `from` wraps around */
}

struct twi_parts_run *twi_parts_find(struct twi_parts *parts, uint64_t at)
{
	uint32_t low = 0, high = parts->count;

	twi_assert_hot(at < parts->bytes);
	if (holds_byte(&parts->runs[parts->near], at))
		return &parts->runs[parts->near];
	if (parts->near + 1 < parts->count && holds_byte(&parts->runs[parts->near + 1], at))
		return &parts->runs[++parts->near];
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (parts->runs[middle].from <= at)
			low = middle;
		else
			high = middle;
	}
	parts->near = low;
	return &parts->runs[low];
}

void *twi_parts_at(struct twi_parts *parts, uint64_t at, uint64_t *bytes_io)
{
	const struct twi_parts_run *part;

	if (*bytes_io == 0)
		return NULL;
	part = twi_parts_find(parts, at);
	*bytes_io = twi_min(*bytes_io, part->bytes - (at - part->from));
	return part->data + (at - part->from);
}

struct twi_claim *twi_op_claim_at(struct tow_op *op, uint64_t at)
{
	struct twi_parts *parts = op->claim.parts;

	if (!twi_op_in_parts(op))
		return &op->claim;
	return &parts->claims[twi_parts_find(parts, at) - parts->runs];
}

/* The index of one run that contains the address: parts of a send may be the same memory. */
static uint32_t part_around(struct twi_parts *parts, const void *address)
{
	for (uint32_t i = 0; i < parts->count; i++) {
		uint32_t index = (parts->near + i) % parts->count;
		const struct twi_parts_run *part = &parts->runs[index];

		if ((uintptr_t)address - (uintptr_t)part->data < part->bytes)
			return index;
	}
	twi_assert(false);
	return 0;
}

const struct twi_claim *twi_op_claim_of(const struct tow_op *op, const void *address)
{
	if (!twi_op_in_parts(op))
		return &op->claim;
	return &op->claim.parts->claims[part_around(op->claim.parts, address)];
}

const void *twi_op_end_of(const struct tow_op *op, const void *address)
{
	const struct twi_parts_run *part;

	if (!twi_op_in_parts(op))
		return (const uint8_t *)op->data + op->bytes;
	part = &op->claim.parts->runs[part_around(op->claim.parts, address)];
	return part->data + part->bytes;
}

uint64_t twi_op_reach(const struct tow_op *op, uint64_t at, uint64_t bytes, bool write)
{
	const uint64_t end = at + bytes;
	uint64_t from = at;

	if (!twi_op_in_parts(op))
		return op->claim.kind == TWI_CLAIM_POOL
			       ? bytes
			       : twi_reach((const uint8_t *)op->data + at, bytes, write);
	while (at < end) {
		const struct twi_parts *parts = op->claim.parts;
		uint64_t run = end - at, good;
		void *data = twi_parts_at(op->claim.parts, at, &run);

		good = parts->claims[parts->near].kind == TWI_CLAIM_POOL
			       ? run
			       : twi_reach(data, run, write);
		at += good;
		if (good < run)
			break;
	}
	return at - from;
}

uint64_t twi_op_reach_ends(const struct tow_op *op, uint64_t bytes, bool write)
{
	const struct twi_parts *parts = op->claim.parts;

	if (!twi_op_in_parts(op))
		return twi_reach_ends(op->data, bytes, write);
	for (uint32_t i = 0; i < parts->count && parts->runs[i].from < bytes; i++) {
		const struct twi_parts_run *part = &parts->runs[i];
		uint64_t run = twi_min(part->bytes, bytes - part->from), good;

		if (parts->claims[i].kind == TWI_CLAIM_POOL)
			continue;
		good = twi_reach_ends(part->data, run, write);
		if (good < run)
			return part->from + good;
	}
	return bytes;
}

void twi_op_copy_out(const struct tow_op *op, uint64_t at, void *to, uint64_t bytes)
{
	enum twi_reason reason = twi_claim_reason(&op->claim, true);

	if (twi_op_in_parts(op))
		twi_path_gather(op->engine, reason, to, op->claim.parts, at, bytes, op->site);
	else
		twi_path_copy_fallback(op->engine, reason, to, (const uint8_t *)op->data + at,
				       bytes, op->site);
}

void twi_op_copy_in(const struct tow_op *op, uint64_t at, const void *from, uint64_t bytes)
{
	enum twi_reason reason = twi_claim_reason(&op->claim, false);

	if (twi_op_in_parts(op))
		twi_path_scatter(op->engine, reason, op->claim.parts, at, from, bytes, op->site);
	else
		twi_path_copy_fallback(op->engine, reason, (uint8_t *)op->data + at, from, bytes,
				       op->site);
}

uint32_t twi_op_checksum(const struct tow_op *op, uint32_t sum, uint64_t at, uint64_t bytes)
{
	while (bytes > 0) {
		uint64_t run = bytes;
		const void *data = twi_op_at(op, at, &run);

		sum = twi_checksum(sum, data, run);
		at += run;
		bytes -= run;
	}
	return sum;
}
