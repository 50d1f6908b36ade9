/*
 * coll_kind.c - the collectives: the meaning of `bytes`, the buffers, the call, and the result.
 *
 * `bytes` has the meaning of the baselines:
 *   allreduce, reduce, bcast, permute, sendrecv   the vector that each rank holds
 *   allgather, allgather_v, gather                the part that a rank contributes (_v: the mean)
 *   reduce_scatter, scatter                       the part that a rank receives
 *   alltoall, alltoall_v                          all that a rank sends
 *
 * Parts of the _v kinds alternate between 3/4 and 5/4 of the mean.
 */
#include <string.h>

#include "bench/coll/tow_coll.h"

const char *const coll_kind_names[COLL_KINDS] = {
#define COLL_KIND_TEXT(name, text) [COLL_##name] = text,
	COLL_KIND_MAP(COLL_KIND_TEXT)
#undef COLL_KIND_TEXT
};

#define ALIGN 4096u

/* Parts of the input and the output: none, one, or one for each rank. */
enum parts { NONE, ONE, EACH };

static const struct {
	enum parts in, out;
	bool reduces;
	bool in_place; /* it can work in place */
} rows[COLL_KINDS] = {
	[COLL_ALL_REDUCE] = { ONE, ONE, true, true },
	[COLL_ALL_GATHER] = { ONE, EACH, false, true },
	[COLL_REDUCE_SCATTER] = { EACH, ONE, true, true },
	[COLL_ALL_TO_ALL] = { EACH, EACH, false, true },
	[COLL_BROADCAST] = { NONE, ONE, false, true },
	[COLL_REDUCE] = { ONE, ONE, true, true },
	[COLL_GATHER] = { ONE, EACH, false, true },
	[COLL_SCATTER] = { EACH, ONE, false, true },
	[COLL_ALL_GATHER_V] = { ONE, EACH, false, false },
	[COLL_ALL_TO_ALL_V] = { EACH, EACH, false, false },
	[COLL_PERMUTE] = { ONE, ONE, false, false },
	[COLL_SEND_RECEIVE] = { ONE, ONE, false, false },
	[COLL_BARRIER] = { NONE, NONE, false, true },
};

bool coll_kind_in_place(enum coll_kind kind)
{
	return rows[kind].in_place;
}

bool coll_kind_reduces(enum coll_kind kind)
{
	return rows[kind].reduces;
}

uint64_t coll_part(const struct coll_case *what, uint32_t parity, uint32_t ranks)
{
	uint64_t swing = what->count / 4;

	/*
	 * With an odd number of ranks, the last part has the mean size, so that the sum stays the
	 * same.
	 */
	if (what->kind == COLL_ALL_GATHER_V && ranks % 2 == 1 && parity == ranks - 1)
		return what->count;
	return parity % 2 == 0 ? what->count + swing : what->count - swing;
}

static uint64_t parts_bytes(const struct coll_case *what, enum parts parts, uint32_t ranks)
{
	uint64_t part = what->count * what->width;

	/* All parts of the _v kinds may be the larger ones. */
	if (what->kind == COLL_ALL_GATHER_V || what->kind == COLL_ALL_TO_ALL_V)
		part += what->count / 4 * what->width;
	return parts == NONE ? 0 : parts == ONE ? part : part * ranks;
}

struct coll_case coll_case_make(const struct coll_options *options, enum coll_kind kind,
				uint64_t bytes, uint32_t ranks)
{
	struct coll_case what = { .kind = kind, .bytes = bytes, .in_place = options->in_place };
	bool split = kind == COLL_ALL_TO_ALL || kind == COLL_ALL_TO_ALL_V;

	if (kind == COLL_BARRIER)
		what.bytes = 0;
	what.width = tow_type_bytes(options->type);
	what.count = what.bytes / (split ? ranks : 1) / what.width;
	what.in_bytes = parts_bytes(&what, rows[kind].in, ranks);
	what.out_bytes = parts_bytes(&what, rows[kind].out, ranks);
	return what;
}

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

uint64_t coll_case_need(const struct coll_case *what)
{
	return round_up(what->in_bytes) + round_up(what->out_bytes) + ALIGN;
}

struct coll_slot coll_slot_make(const struct coll_rank *rank, const struct coll_case *what,
				uint32_t i)
{
	uint8_t *base = rank->area + i * coll_case_need(what);
	struct coll_slot slot = { base, base + round_up(what->in_bytes), NULL };
	uint64_t own = rank->rank * what->count * what->width;

	if (what->kind == COLL_BROADCAST)
		slot.in = slot.out;
	if (!what->in_place)
		return slot;
	switch (what->kind) {
	case COLL_ALL_GATHER:
		slot.in = slot.out + own;
		break;
	case COLL_GATHER:
		slot.in = rank->rank == COLL_ROOT ? slot.out + own : slot.in;
		break;
	case COLL_REDUCE_SCATTER:
		slot.out = slot.in + own;
		break;
	case COLL_SCATTER:
		slot.out = rank->rank == COLL_ROOT ? slot.in + own : slot.out;
		break;
	default:
		slot.in = slot.out;
	}
	return slot;
}

static int start_parts(const struct coll_rank *rank, const struct coll_case *what,
		       struct coll_slot *slot, const struct tow_coll_options *options)
{
	uint64_t counts[COLL_RANKS_MAX];
	struct tow_coll_parts parts = { counts, NULL };
	uint32_t shift = what->kind == COLL_ALL_TO_ALL_V ? rank->rank : 0;

	for (uint32_t r = 0; r < rank->ranks; r++)
		counts[r] = coll_part(what, r + shift, rank->ranks);
	if (what->kind == COLL_ALL_GATHER_V)
		return tow_coll_all_gather_v_start(rank->group, slot->in, slot->out, counts, NULL,
						   rank->options->type, options, &slot->op);
	return tow_coll_all_to_all_v_start(rank->group, slot->in, &parts, slot->out, &parts,
					   rank->options->type, options, &slot->op);
}

/* Every rank sends to the next one, and the last rank to the first. */
static int start_ring(const struct coll_rank *rank, const struct coll_case *what,
		      struct coll_slot *slot, const struct tow_coll_options *options)
{
	struct tow_coll_pair pairs[COLL_RANKS_MAX];
	uint32_t n = rank->ranks;

	if (what->kind == COLL_SEND_RECEIVE)
		return tow_coll_send_receive_start(rank->group, slot->in, (rank->rank + 1) % n,
						   slot->out, (rank->rank + n - 1) % n, what->count,
						   rank->options->type, options, &slot->op);
	for (uint32_t r = 0; r < n; r++)
		pairs[r] = (struct tow_coll_pair){ r, (r + 1) % n };
	return tow_coll_permute_start(rank->group, slot->in, slot->out, what->count,
				      rank->options->type, pairs, n, options, &slot->op);
}

static int start_rooted(const struct coll_rank *rank, const struct coll_case *what,
			struct coll_slot *s, const struct tow_coll_options *options)
{
	enum tow_type type = rank->options->type;

	switch (what->kind) {
	case COLL_BROADCAST:
		return tow_coll_broadcast_start(rank->group, s->out, what->count, type, COLL_ROOT,
						options, &s->op);
	case COLL_REDUCE:
		return tow_coll_reduce_start(rank->group, s->in, s->out, what->count, type,
					     rank->options->reduce, COLL_ROOT, options, &s->op);
	case COLL_GATHER:
		return tow_coll_gather_start(rank->group, s->in, s->out, what->count, type,
					     COLL_ROOT, options, &s->op);
	default:
		return tow_coll_scatter_start(rank->group, s->in, s->out, what->count, type,
					      COLL_ROOT, options, &s->op);
	}
}

int coll_start(const struct coll_rank *rank, const struct coll_case *what, struct coll_slot *s)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	enum tow_type type = rank->options->type;
	enum tow_reduce reduce = rank->options->reduce;

	options.plan = rank->options->plan;
	options.timeout_ns = rank->options->timeout_ns;
	options.name = coll_kind_names[what->kind];
	switch (what->kind) {
	case COLL_ALL_REDUCE:
		return tow_coll_all_reduce_start(rank->group, s->in, s->out, what->count, type,
						 reduce, &options, &s->op);
	case COLL_REDUCE_SCATTER:
		return tow_coll_reduce_scatter_start(rank->group, s->in, s->out, what->count, type,
						     reduce, &options, &s->op);
	case COLL_ALL_GATHER:
		return tow_coll_all_gather_start(rank->group, s->in, s->out, what->count, type,
						 &options, &s->op);
	case COLL_ALL_TO_ALL:
		return tow_coll_all_to_all_start(rank->group, s->in, s->out, what->count, type,
						 &options, &s->op);
	case COLL_ALL_GATHER_V:
	case COLL_ALL_TO_ALL_V:
		return start_parts(rank, what, s, &options);
	case COLL_PERMUTE:
	case COLL_SEND_RECEIVE:
		return start_ring(rank, what, s, &options);
	case COLL_BARRIER:
		return tow_coll_barrier_start(rank->group, &options, &s->op);
	default:
		return start_rooted(rank, what, s, &options);
	}
}

/*
 * The part of each rank p, one after another. In an all-to-all it is this rank's part of p's input.
 */
static uint32_t pieces_of_each(const struct coll_rank *rank, const struct coll_case *what,
			       struct coll_piece *pieces)
{
	uint64_t offset = 0;

	for (uint32_t p = 0; p < rank->ranks; p++) {
		struct coll_piece piece = { offset, what->count, 0, p };

		if (what->kind == COLL_ALL_TO_ALL)
			piece.first = rank->rank * what->count;
		if (what->kind == COLL_ALL_GATHER_V)
			piece.count = coll_part(what, p, rank->ranks);
		if (what->kind == COLL_ALL_TO_ALL_V) {
			piece.count = coll_part(what, p + rank->rank, rank->ranks);
			for (uint32_t q = 0; q < rank->rank; q++)
				piece.first += coll_part(what, p + q, rank->ranks);
		}
		pieces[p] = piece;
		offset += piece.count;
	}
	return rank->ranks;
}

uint32_t coll_pieces(const struct coll_rank *rank, const struct coll_case *what,
		     struct coll_piece pieces[COLL_RANKS_MAX])
{
	struct coll_piece one = { 0, what->count, 0, COLL_ROOT };
	bool root = rank->rank == COLL_ROOT;

	if (rows[what->kind].out == NONE)
		return 0;
	if ((what->kind == COLL_REDUCE || what->kind == COLL_GATHER) && !root)
		return 0;
	if (rows[what->kind].out == EACH)
		return pieces_of_each(rank, what, pieces);
	if (what->kind == COLL_SCATTER || what->kind == COLL_REDUCE_SCATTER)
		one.first = rank->rank * what->count;
	if (what->kind == COLL_PERMUTE || what->kind == COLL_SEND_RECEIVE)
		one.source = (rank->rank + rank->ranks - 1) % rank->ranks;
	pieces[0] = one;
	return 1;
}

double coll_payload_bytes(const struct coll_case *what, uint32_t ranks)
{
	switch (what->kind) {
	case COLL_ALL_GATHER:
	case COLL_ALL_GATHER_V:
	case COLL_GATHER:
	case COLL_REDUCE_SCATTER:
	case COLL_SCATTER:
		return (double)what->bytes * ranks;
	default:
		return (double)what->bytes;
	}
}

double coll_bus_bytes(const struct coll_case *what, uint32_t ranks)
{
	double payload = coll_payload_bytes(what, ranks), others = (ranks - 1.0) / ranks;

	switch (what->kind) {
	case COLL_ALL_REDUCE:
		return payload * 2 * others;
	case COLL_BROADCAST:
	case COLL_REDUCE:
	case COLL_PERMUTE:
	case COLL_SEND_RECEIVE:
		return payload;
	default:
		return payload * others;
	}
}

/*
 * The bytes that must move in one memory: every input is read once and every result written once. A
 * rank that writes a value to all ranks that need it moves that much. In place, bytes that are
 * already there do not move.
 */
double coll_must_move(const struct coll_case *what, uint32_t ranks)
{
	double s = (double)what->bytes, n = ranks, kept = what->in_place ? 1 : 0;

	switch (what->kind) {
	case COLL_ALL_GATHER:
	case COLL_ALL_GATHER_V:
		return n * s + n * (n - kept) * s;
	case COLL_REDUCE_SCATTER:
		return n * n * s + n * s;
	case COLL_ALL_TO_ALL:
	case COLL_ALL_TO_ALL_V:
		return 2 * (n - kept) * s;
	case COLL_BROADCAST:
		return s + (n - 1) * s;
	case COLL_REDUCE:
		return n * s + s;
	case COLL_GATHER:
	case COLL_SCATTER:
		return 2 * (n - kept) * s;
	default:
		return 2 * n * s;
	}
}
