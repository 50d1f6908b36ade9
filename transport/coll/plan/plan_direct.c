/*
 * plan_direct.c - each rank exchanges with every other one itself.
 *
 * Ranks meet in rounds. In round d rank r meets rank d - r, so both sides of a pair meet in the
 * same round. TWI_PLAN_PEERS rounds make a stage. Reductions take the operands of all ranks in one
 * REDUCE, in the order of ranks, so they are canonical.
 *
 * For two ranks, `exchange` sends as many bytes as `direct`, in one step instead of two, but
 * reduces twice as much. It is faster until reducing costs more than a step; measurements show
 * where.
 */
#include "transport/coll/plan/plan_list.h"

/* The peer of a round. */
static uint32_t peer_of_round(const struct twi_plan_list *list, uint32_t round)
{
	return (round + list->what->ranks - list->what->rank) % list->what->ranks;
}

/* Goes through all other ranks, by stages. */
typedef void (*peer_fn)(struct twi_plan_list *list, struct twi_plan_range run, uint32_t peer);

static void each_peer(struct twi_plan_list *list, struct twi_plan_range run, peer_fn act,
		      peer_fn after)
{
	uint32_t ranks = list->what->ranks;

	for (uint32_t first = 0; first < ranks; first += TWI_PLAN_PEERS) {
		uint32_t end = ranks - first < TWI_PLAN_PEERS ? ranks : first + TWI_PLAN_PEERS;

		for (uint32_t round = first; round < end; round++)
			if (peer_of_round(list, round) != list->what->rank)
				act(list, run, peer_of_round(list, round));
		twi_plan_stage(list);
		for (uint32_t round = first; after != NULL && round < end; round++)
			if (peer_of_round(list, round) != list->what->rank)
				after(list, run, peer_of_round(list, round));
		twi_plan_stage(list);
	}
}

static bool is_root(const struct twi_plan_list *list)
{
	return list->what->rank == list->what->root;
}

/* The area of SCRATCH that receives the part of a peer. */
static struct twi_plan_ref area_of(const struct twi_plan_list *list, uint64_t area, uint32_t peer)
{
	return twi_plan_own(list, TWI_PLAN_SCRATCH, area * (peer - (peer > list->what->rank)));
}

/* The one REDUCE, of the areas of the other ranks and of `range` of the own IN. */
static void reduce_all(struct twi_plan_list *list, struct twi_plan_ref result,
		       struct twi_plan_range range, uint64_t area)
{
	twi_plan_reduce(list, range.count, true);
	twi_plan_result(list, result);
	for (uint32_t rank = 0; rank < list->what->ranks; rank++)
		twi_plan_source(list, rank == list->what->rank
					      ? twi_plan_own(list, TWI_PLAN_IN, range.first)
					      : area_of(list, area, rank));
	twi_plan_stage(list);
}

static void trade_slices(struct twi_plan_list *list, struct twi_plan_range run, uint32_t peer)
{
	struct twi_plan_range theirs = twi_plan_block(list, run, peer);
	struct twi_plan_range own = twi_plan_block(list, run, list->what->rank);

	twi_plan_send(list, twi_plan_own(list, TWI_PLAN_IN, theirs.first), theirs.count, peer, 0);
	twi_plan_recv(list, area_of(list, twi_plan_block_max(list, run), peer), own.count, peer, 0);
}

static void spread_slice(struct twi_plan_list *list, struct twi_plan_range run, uint32_t peer)
{
	struct twi_plan_range theirs = twi_plan_block(list, run, peer);
	struct twi_plan_range own = twi_plan_block(list, run, list->what->rank);

	twi_plan_send(list, twi_plan_own(list, TWI_PLAN_OUT, own.first), own.count, peer, 1);
	twi_plan_recv(list, twi_plan_own(list, TWI_PLAN_OUT, theirs.first), theirs.count, peer, 1);
}

static void run_all_reduce(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct twi_plan_range own = twi_plan_block(list, run, list->what->rank);

	each_peer(list, run, trade_slices, NULL);
	reduce_all(list, twi_plan_own(list, TWI_PLAN_OUT, own.first), own,
		   twi_plan_block_max(list, run));
	each_peer(list, run, spread_slice, NULL);
}

static void run_reduce_scatter(struct twi_plan_list *list, struct twi_plan_range run)
{
	each_peer(list, run, trade_slices, NULL);
	reduce_all(list, twi_plan_own(list, TWI_PLAN_OUT, run.first),
		   twi_plan_block(list, run, list->what->rank), twi_plan_block_max(list, run));
}

static void fetch_block(struct twi_plan_list *list, struct twi_plan_range run, uint32_t peer)
{
	struct twi_plan_range theirs = twi_plan_block(list, run, peer);

	twi_plan_recv(list, twi_plan_own(list, TWI_PLAN_OUT, theirs.first), theirs.count, peer, 1);
}

static void run_reduce(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct twi_plan_range own = twi_plan_block(list, run, list->what->rank);
	uint64_t area = twi_plan_block_max(list, run);
	/* Only the root may write to its OUT. */
	struct twi_plan_ref result = is_root(list) ? twi_plan_own(list, TWI_PLAN_OUT, own.first)
						   : area_of(list, area, list->what->ranks);

	each_peer(list, run, trade_slices, NULL);
	reduce_all(list, result, own, area);
	if (is_root(list))
		each_peer(list, run, fetch_block, NULL);
	else
		twi_plan_send(list, result, own.count, list->what->root, 1);
}

/* The own part in IN, which has one part; OUT has all parts. */
static struct twi_plan_ref own_part(const struct twi_plan_list *list, struct twi_plan_range run)
{
	return twi_plan_own(list, TWI_PLAN_IN,
			    list->what->kind == TWI_COLL_ALL_GATHER_V ? 0 : run.first);
}

static void keep_part(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct twi_plan_range own = twi_plan_block(list, run, list->what->rank);

	if (!list->what->in_place)
		twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_OUT, own.first),
			      own_part(list, run), own.count);
}

static void trade_parts(struct twi_plan_list *list, struct twi_plan_range run, uint32_t peer)
{
	twi_plan_send(list, own_part(list, run), twi_plan_block(list, run, list->what->rank).count,
		      peer, 1);
	fetch_block(list, run, peer);
}

static void run_all_gather(struct twi_plan_list *list, struct twi_plan_range run)
{
	keep_part(list, run);
	each_peer(list, run, trade_parts, NULL);
}

static void run_gather(struct twi_plan_list *list, struct twi_plan_range run)
{
	if (is_root(list)) {
		keep_part(list, run);
		each_peer(list, run, fetch_block, NULL);
	} else {
		twi_plan_send(list, own_part(list, run), run.count, list->what->root, 1);
	}
}

static void give_all(struct twi_plan_list *list, struct twi_plan_range run, uint32_t peer)
{
	twi_plan_send(list, twi_plan_own(list, TWI_PLAN_IN, run.first), run.count, peer, 0);
}

static void run_broadcast(struct twi_plan_list *list, struct twi_plan_range run)
{
	if (is_root(list))
		each_peer(list, run, give_all, NULL);
	else
		twi_plan_recv(list, twi_plan_own(list, TWI_PLAN_OUT, run.first), run.count,
			      list->what->root, 0);
}

static void give_block(struct twi_plan_list *list, struct twi_plan_range run, uint32_t peer)
{
	struct twi_plan_range theirs = twi_plan_block(list, run, peer);

	twi_plan_send(list, twi_plan_own(list, TWI_PLAN_IN, theirs.first), theirs.count, peer, 0);
}

static void run_scatter(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct twi_plan_range own = twi_plan_block(list, run, list->what->rank);
	struct twi_plan_ref out = twi_plan_own(list, TWI_PLAN_OUT, run.first);

	if (!is_root(list)) {
		twi_plan_recv(list, out, run.count, list->what->root, 0);
		return;
	}
	if (!list->what->in_place)
		twi_plan_copy(list, out, twi_plan_own(list, TWI_PLAN_IN, own.first), own.count);
	each_peer(list, run, give_block, NULL);
}

/* In place, a received block waits in SCRATCH until the block in its place is sent. */
static uint32_t slot_of(const struct twi_plan_list *list, uint32_t peer)
{
	return (peer + list->what->rank) % list->what->ranks % TWI_PLAN_PEERS;
}

static struct twi_plan_ref swap_area(const struct twi_plan_list *list, struct twi_plan_range run,
				     uint32_t peer)
{
	return twi_plan_own(list, TWI_PLAN_SCRATCH,
			    slot_of(list, peer) * twi_plan_block_max(list, run));
}

static void swap_blocks(struct twi_plan_list *list, struct twi_plan_range run, uint32_t peer)
{
	struct twi_plan_range theirs = twi_plan_block(list, run, peer);
	struct twi_plan_ref to = list->what->in_place
					 ? swap_area(list, run, peer)
					 : twi_plan_own(list, TWI_PLAN_OUT, theirs.first);

	twi_plan_send(list, twi_plan_own(list, TWI_PLAN_IN, theirs.first), theirs.count, peer, 0);
	twi_plan_recv(list, to, theirs.count, peer, 0);
}

static void put_block(struct twi_plan_list *list, struct twi_plan_range run, uint32_t peer)
{
	struct twi_plan_range theirs = twi_plan_block(list, run, peer);

	twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_OUT, theirs.first),
		      swap_area(list, run, peer), theirs.count);
}

static void run_all_to_all(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct twi_plan_range own = twi_plan_block(list, run, list->what->rank);

	if (!list->what->in_place)
		twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_OUT, own.first),
			      twi_plan_own(list, TWI_PLAN_IN, own.first), own.count);
	each_peer(list, run, swap_blocks, list->what->in_place ? put_block : NULL);
}

static void trade_v(struct twi_plan_list *list, struct twi_plan_range run, uint32_t peer)
{
	const struct twi_plan_case *what = list->what;

	(void)run;
	twi_plan_send(list, twi_plan_own(list, TWI_PLAN_IN, list->send_offsets[peer]),
		      what->send_counts[peer], peer, 0);
	twi_plan_recv(list, twi_plan_own(list, TWI_PLAN_OUT, list->recv_offsets[peer]),
		      what->recv_counts[peer], peer, 0);
}

static void run_all_to_all_v(struct twi_plan_list *list, struct twi_plan_range run)
{
	uint32_t rank = list->what->rank;

	twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_OUT, list->recv_offsets[rank]),
		      twi_plan_own(list, TWI_PLAN_IN, list->send_offsets[rank]),
		      list->what->send_counts[rank]);
	each_peer(list, run, trade_v, NULL);
}

/* Receives from `source` and sends to `target`, where they are ranks. */
static void run_pass(struct twi_plan_list *list, struct twi_plan_range run, int64_t source,
		     int64_t target)
{
	struct twi_plan_ref in = twi_plan_own(list, TWI_PLAN_IN, run.first);
	struct twi_plan_ref out = twi_plan_own(list, TWI_PLAN_OUT, run.first);

	if (source == list->what->rank) {
		twi_plan_copy(list, out, in, run.count);
		return;
	}
	if (target >= 0)
		twi_plan_send(list, in, run.count, (uint32_t)target, 0);
	if (source >= 0)
		twi_plan_recv(list, out, run.count, (uint32_t)source, 0);
	else if (list->what->kind == TWI_COLL_PERMUTE)
		twi_plan_zero(list, out, run.count);
}

static void run_permute(struct twi_plan_list *list, struct twi_plan_range run)
{
	run_pass(list, run, twi_plan_pair_source(list->what), twi_plan_pair_target(list->what));
}

static void run_send_receive(struct twi_plan_list *list, struct twi_plan_range run)
{
	run_pass(list, run, list->what->source, list->what->target);
}

void twi_plan_build_direct(struct twi_plan_list *list)
{
	static const struct {
		twi_plan_run_fn run;
		bool sliced, summed;
	} builders[TWI_COLL_KINDS] = {
		[TWI_COLL_ALL_REDUCE] = { run_all_reduce, true, false },
		[TWI_COLL_REDUCE] = { run_reduce, true, false },
		[TWI_COLL_REDUCE_SCATTER] = { run_reduce_scatter, false, true },
		[TWI_COLL_ALL_GATHER] = { run_all_gather, false, false },
		[TWI_COLL_ALL_GATHER_V] = { run_all_gather, false, false },
		[TWI_COLL_BROADCAST] = { run_broadcast, false, false },
		[TWI_COLL_GATHER] = { run_gather, false, false },
		[TWI_COLL_SCATTER] = { run_scatter, false, false },
		[TWI_COLL_ALL_TO_ALL] = { run_all_to_all, false, false },
		[TWI_COLL_ALL_TO_ALL_V] = { run_all_to_all_v, false, false },
		[TWI_COLL_PERMUTE] = { run_permute, false, false },
		[TWI_COLL_SEND_RECEIVE] = { run_send_receive, false, false },
	};
	enum twi_coll_kind kind = list->what->kind;
	uint32_t ranks = list->what->ranks;

	if (kind == TWI_COLL_ALL_GATHER_V || kind == TWI_COLL_ALL_TO_ALL_V)
		twi_plan_whole(list, false, builders[kind].run);
	else
		twi_plan_segments(list, builders[kind].summed ? ranks : 1,
				  builders[kind].sliced ? ranks : 1, false, builders[kind].run);
}

/* Area of SCRATCH for a whole vector, in elements. */
static uint64_t whole_area(const struct twi_plan_list *list, struct twi_plan_range run)
{
	return twi_plan_slice_max(list, run.count, 1);
}

static void fetch_all(struct twi_plan_list *list, struct twi_plan_range run, uint32_t peer)
{
	twi_plan_recv(list, area_of(list, whole_area(list, run), peer), run.count, peer, 0);
}

static void trade_all(struct twi_plan_list *list, struct twi_plan_range run, uint32_t peer)
{
	give_all(list, run, peer);
	fetch_all(list, run, peer);
}

static void run_exchange(struct twi_plan_list *list, struct twi_plan_range run)
{
	bool all = list->what->kind == TWI_COLL_ALL_REDUCE;

	if (!all && !is_root(list)) {
		give_all(list, run, list->what->root);
		return;
	}
	each_peer(list, run, all ? trade_all : fetch_all, NULL);
	reduce_all(list, twi_plan_own(list, TWI_PLAN_OUT, run.first), run, whole_area(list, run));
}

void twi_plan_build_exchange(struct twi_plan_list *list)
{
	twi_plan_segments(list, list->what->ranks, 1, false, run_exchange);
}
