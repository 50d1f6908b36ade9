/*
 * coll_cut.c - how a payload is cut into pieces. See coll_cut.h.
 */
#include "transport/coll/coll_cut.h"

#include "transport/coll/plan/plan.h"
#include "transport/engine/engine.h"

#define STEPS_MAX 60000u /* a step is a number of 16 bits */
/* Bound of ranks for an all-reduce: each rank reads all inputs, which slices avoid. */
#define REDUCE_RANKS 4u

/* Calls of less are staged. */
#define SMALL_MIN (128u << 10)
/* To stage a message of fewer such pairs of pieces was 1.1 to 1.25 times faster. */
#define PAIR_PIECES 4u

/* Bytes of one place of the ring: 256 KiB, unless a knob changes it. */
static uint64_t piece_bytes(const struct twi_coll_group *coll)
{
	return coll->engine->knobs.coll_segment_bytes / 4;
}

/*
 * Whether it goes in two pieces, as it has less than two whole ones. Kinds by which one rank's
 * lines go to another, with little else to do, gain from that. More than two ranks do not: they
 * meet too often.
 */
static bool is_small(const struct twi_coll_group *coll, const struct twi_coll_call *call)
{
	uint64_t bytes = call->count * tow_type_bytes(call->type);

	switch (call->kind) {
	case TWI_COLL_ALL_REDUCE:
	case TWI_COLL_REDUCE:
	case TWI_COLL_BROADCAST:
	case TWI_COLL_GATHER:
		return coll->pipelines_all && coll->size == 2 && bytes >= SMALL_MIN &&
		       bytes < 2 * piece_bytes(coll);
	default:
		return false;
	}
}

static uint64_t piece_of_call(const struct twi_coll_group *coll, const struct twi_coll_call *call)
{
	if (is_small(coll, call))
		return twi_align_up(call->count * tow_type_bytes(call->type) / 2, 64);
	return piece_bytes(coll);
}

/* An input has a part for each rank. */
static bool has_parts(enum twi_coll_kind kind)
{
	return kind == TWI_COLL_REDUCE_SCATTER || kind == TWI_COLL_ALL_TO_ALL ||
	       kind == TWI_COLL_SCATTER;
}

static uint64_t longest_part(const struct twi_coll_call *call, uint32_t ranks)
{
	uint64_t longest = 0;

	if (call->kind != TWI_COLL_ALL_GATHER_V)
		return call->count;
	for (uint32_t rank = 0; rank < ranks; rank++)
		longest = twi_max(longest, call->recv_counts[rank]);
	return longest;
}

struct twi_coll_cut twi_coll_cut_of(const struct twi_coll_run *run)
{
	const struct twi_coll_call *call = &run->entry->call;
	struct twi_coll_cut out = { .parts = has_parts(call->kind) ? run->coll->size : 1 };
	uint64_t least;

	out.part = longest_part(call, run->coll->size) * tow_type_bytes(call->type);
	least = twi_align_up(out.part / STEPS_MAX + 1, 64);
	out.column = twi_max(
		twi_align_up((piece_of_call(run->coll, call) >> run->halved) / out.parts, 64),
		least);
	out.column = twi_min(out.column, twi_max(twi_align_up(out.part, 64), 64));
	out.steps = (out.part + out.column - 1) / out.column;
	return out;
}

uint64_t twi_coll_cut_bytes(const struct twi_coll_run *run, const struct twi_coll_cut *cut,
			    uint32_t rank, uint64_t k)
{
	const struct twi_coll_call *call = &run->entry->call;
	uint64_t part = cut->part;

	if (call->kind == TWI_COLL_ALL_GATHER_V)
		part = call->recv_counts[rank] * tow_type_bytes(call->type);
	return part > k * cut->column ? twi_min(cut->column, part - k * cut->column) : 0;
}

uint64_t twi_coll_cut_ring(const struct twi_coll_cut *cut)
{
	return (cut->steps > 1 ? 2 : 1) * cut->parts * cut->column;
}

bool twi_coll_cut_may(const struct twi_coll_group *coll, const struct twi_coll_call *call,
		      const struct twi_plan_row *row)
{
	if (!row->local || row == twi_plan_find("local-cell"))
		return false; /* no rank reads others' buffers */
	switch (call->kind) {
	case TWI_COLL_ALL_REDUCE:
	case TWI_COLL_REDUCE_SCATTER:
	case TWI_COLL_ALL_TO_ALL:
	case TWI_COLL_ALL_GATHER:
	case TWI_COLL_BROADCAST:
		return coll->pipelines;
	case TWI_COLL_REDUCE:
	case TWI_COLL_GATHER:
	case TWI_COLL_SCATTER:
	case TWI_COLL_ALL_GATHER_V:
	case TWI_COLL_PERMUTE:
	case TWI_COLL_SEND_RECEIVE:
		return coll->pipelines_all;
	default:
		return false;
	}
}

bool twi_coll_cut_pays(const struct twi_coll_group *coll, const struct twi_coll_call *call)
{
	uint64_t bytes = longest_part(call, coll->size) * tow_type_bytes(call->type);

	switch (call->kind) {
	case TWI_COLL_ALL_REDUCE:
	case TWI_COLL_REDUCE:
		if (coll->size > REDUCE_RANKS)
			return false;
		break;
	case TWI_COLL_REDUCE_SCATTER:
	case TWI_COLL_ALL_TO_ALL:
	case TWI_COLL_ALL_GATHER:
	case TWI_COLL_ALL_GATHER_V:
	case TWI_COLL_GATHER:
	case TWI_COLL_SCATTER:
		bytes *= coll->size;
		break;
	case TWI_COLL_PERMUTE:
	case TWI_COLL_SEND_RECEIVE:
		bytes /= PAIR_PIECES;
		break;
	default:
		break;
	}
	/* With fewer pieces all stays in the caches, and plan_local.c needs only two meetings. */
	return is_small(coll, call) || bytes >= 2 * piece_bytes(coll);
}
