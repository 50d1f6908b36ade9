/*
 * plan_local.c - all ranks share one host's memory, and read each other's buffers in place.
 *
 * After the first SYNC all ranks have come, and IN is there. After the last one no rank needs
 * another's buffers any more. In between each rank does its share:
 *
 *	local      a slice of the work: reduces it out of all IN, and writes the result into OUT
 *	           of all ranks; or, where those cannot be written, into its own, from where the
 *	           others copy it after one more SYNC
 *	local-all  everything, for itself: reads more, has one SYNC less than that, and writes
 *	           nothing that others' caches hold
 *
 * Slices are cut at cache lines, so that no two ranks write to the same line.
 */
#include "transport/coll/plan/plan_list.h"

/*
 * give_part() serves an all-gather of parts that no cache keeps until the last rank has read them.
 * GIVE_SEGMENTS: a part has at least so many segments. GIVE_SHARE: a segment is cut into so many
 * pieces, so that the cache of a core keeps one.
 */
#define GIVE_SEGMENTS 4u
#define GIVE_SHARE    8u
#define GIVE_PIECES   256u /* bound for a whole part */

static bool is_root(const struct twi_plan_list *list)
{
	return list->what->rank == list->what->root;
}

static struct twi_plan_range slice_of(const struct twi_plan_list *list, uint32_t rank)
{
	struct twi_plan_range all = { 0, list->what->count };

	return twi_plan_slice(list, all, list->what->ranks, rank);
}

/* Adds sources: the same elements of IN of all ranks, in the order of the ranks. */
static void add_all(struct twi_plan_list *list, uint64_t first)
{
	for (uint32_t rank = 0; rank < list->what->ranks; rank++)
		twi_plan_source(list, twi_plan_of(list, rank, TWI_PLAN_IN, first));
}

static void all_reduce_slices(struct twi_plan_list *list)
{
	const struct twi_plan_case *what = list->what;
	struct twi_plan_range own = slice_of(list, what->rank);

	twi_plan_reduce(list, own.count, true);
	for (uint32_t rank = 0; rank < what->ranks; rank++)
		if (what->peers_write || rank == what->rank)
			twi_plan_result(list, twi_plan_of(list, rank, TWI_PLAN_OUT, own.first));
	add_all(list, own.first);
	if (what->peers_write)
		return;
	twi_plan_sync(list);
	/* Each rank begins with its neighbour's slice, so that not all read from one. */
	for (uint32_t i = 1; i < what->ranks; i++) {
		uint32_t rank = (what->rank + i) % what->ranks;
		struct twi_plan_range theirs = slice_of(list, rank);

		twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_OUT, theirs.first),
			      twi_plan_of(list, rank, TWI_PLAN_OUT, theirs.first), theirs.count);
	}
}

/* Writes OUT of the root: each rank a slice, or the root all of it. */
static void local_reduce(struct twi_plan_list *list)
{
	const struct twi_plan_case *what = list->what;
	struct twi_plan_range share = { 0, is_root(list) ? what->count : 0 };

	if (what->peers_write)
		share = slice_of(list, what->rank);
	twi_plan_reduce(list, share.count, true);
	twi_plan_result(list, twi_plan_of(list, what->root, TWI_PLAN_OUT, share.first));
	add_all(list, share.first);
}

static void reduce_scatter(struct twi_plan_list *list)
{
	twi_plan_reduce(list, list->what->count, true);
	twi_plan_result(list, twi_plan_own(list, TWI_PLAN_OUT, 0));
	add_all(list, list->what->rank * list->what->count);
}

/* Copies the part of a rank into OUT of this one. */
static void take_part(struct twi_plan_list *list, uint32_t rank)
{
	struct twi_plan_range columns = { 0, list->what->count };
	struct twi_plan_range theirs = twi_plan_block(list, columns, rank);

	if (rank != list->what->rank || !list->what->in_place)
		twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_OUT, theirs.first),
			      twi_plan_of(list, rank, TWI_PLAN_IN, 0), theirs.count);
}

/*
 * Copies this rank's part into OUT of all ranks, a piece at a time. Memory is read only for the
 * first of them; for the others the caches have the piece. All ranks together read each input once.
 */
static void give_part(struct twi_plan_list *list)
{
	const struct twi_plan_case *what = list->what;
	struct twi_plan_range columns = { 0, what->count };
	struct twi_plan_range part = twi_plan_block(list, columns, what->rank);
	uint64_t least = part.count / GIVE_PIECES + 1;
	uint64_t length = what->segment_bytes / GIVE_SHARE / list->unit;

	if (length < least)
		length = least;
	for (uint64_t at = 0; at < part.count; at += length) {
		uint64_t count = part.count - at < length ? part.count - at : length;

		for (uint32_t i = 0; i < what->ranks; i++) {
			uint32_t rank = (what->rank + i) % what->ranks;

			if (rank != what->rank || !what->in_place)
				twi_plan_copy(
					list,
					twi_plan_of(list, rank, TWI_PLAN_OUT, part.first + at),
					twi_plan_own(list, TWI_PLAN_IN, at), count);
		}
	}
}

static void all_gather(struct twi_plan_list *list)
{
	uint32_t ranks = list->what->ranks;

	/* All ranks must choose alike, so this does not look at the part of one rank. */
	if (list->what->peers_write && list->what->kind == TWI_COLL_ALL_GATHER &&
	    list->what->count * list->unit / GIVE_SEGMENTS >= list->what->segment_bytes) {
		give_part(list);
		return;
	}
	for (uint32_t i = 0; i < ranks; i++)
		take_part(list, (list->what->rank + i) % ranks);
}

static void local_gather(struct twi_plan_list *list)
{
	const struct twi_plan_case *what = list->what;

	if (!what->peers_write && is_root(list))
		all_gather(list);
	else if (what->peers_write && !(is_root(list) && what->in_place))
		twi_plan_copy(list,
			      twi_plan_of(list, what->root, TWI_PLAN_OUT, what->rank * what->count),
			      twi_plan_own(list, TWI_PLAN_IN, 0), what->count);
}

/* Copies `count` elements of another rank's IN, from `first` on, to OUT. */
static void take_elements(struct twi_plan_list *list, uint32_t rank, uint64_t first)
{
	twi_plan_copy(list, twi_plan_own(list, TWI_PLAN_OUT, 0),
		      twi_plan_of(list, rank, TWI_PLAN_IN, first), list->what->count);
}

/* Copies the elements [first, end) of the root's data to `rank`. */
static void hand_elements(struct twi_plan_list *list, uint32_t rank, uint64_t first, uint64_t end)
{
	twi_plan_copy(list, twi_plan_of(list, rank, TWI_PLAN_OUT, first),
		      twi_plan_of(list, list->what->root, TWI_PLAN_IN, first), end - first);
}

/*
 * Each rank takes what it needs. If the root may write to others, it gives each of them one slice,
 * so that it does as much as they do.
 */
static void local_broadcast(struct twi_plan_list *list)
{
	const struct twi_plan_case *what = list->what;
	struct twi_plan_range slice = slice_of(list, what->rank);

	if (!what->peers_write) {
		if (!is_root(list))
			take_elements(list, what->root, 0);
		return;
	}
	if (!is_root(list)) {
		hand_elements(list, what->rank, 0, slice.first);
		hand_elements(list, what->rank, slice.first + slice.count, what->count);
		return;
	}
	for (uint32_t rank = 0; rank < what->ranks; rank++) {
		slice = slice_of(list, rank);
		if (rank != what->rank)
			hand_elements(list, rank, slice.first, slice.first + slice.count);
	}
}

static void local_scatter(struct twi_plan_list *list)
{
	if (!is_root(list) || !list->what->in_place)
		take_elements(list, list->what->root, list->what->rank * list->what->count);
}

static void local_permute(struct twi_plan_list *list)
{
	int64_t source = list->what->kind == TWI_COLL_PERMUTE ? twi_plan_pair_source(list->what)
							      : list->what->source;

	if (source >= 0)
		take_elements(list, (uint32_t)source, 0);
	else if (list->what->kind == TWI_COLL_PERMUTE)
		twi_plan_zero(list, twi_plan_own(list, TWI_PLAN_OUT, 0), list->what->count);
}

/* Copies columns of each rank's part for this rank to OUT, or in rank order to SCRATCH. */
static void take_columns(struct twi_plan_list *list, struct twi_plan_range columns, bool scratch)
{
	const struct twi_plan_case *what = list->what;

	for (uint32_t i = 0; i < what->ranks; i++) {
		uint32_t rank = (what->rank + i) % what->ranks;
		uint64_t to = scratch ? rank * columns.count : rank * what->count + columns.first;

		twi_plan_copy(list,
			      twi_plan_own(list, scratch ? TWI_PLAN_SCRATCH : TWI_PLAN_OUT, to),
			      twi_plan_of(list, rank, TWI_PLAN_IN,
					  what->rank * what->count + columns.first),
			      columns.count);
	}
}

/* In place, a part is overwritten only when its reader has it: columns go through SCRATCH. */
static void all_to_all(struct twi_plan_list *list)
{
	const struct twi_plan_case *what = list->what;
	uint64_t bytes = what->count * what->ranks * list->unit;
	uint64_t pieces = bytes / what->segment_bytes + 1;
	uint64_t length;

	if (!what->in_place) {
		take_columns(list, (struct twi_plan_range){ 0, what->count }, false);
		return;
	}
	length = what->count / (pieces < 64 ? pieces : 64) + 1;
	for (uint64_t first = 0; first < what->count; first += length) {
		struct twi_plan_range columns = { first, what->count - first < length
								 ? what->count - first
								 : length };

		take_columns(list, columns, true);
		twi_plan_sync(list);
		for (uint32_t rank = 0; rank < what->ranks; rank++)
			twi_plan_copy(list,
				      twi_plan_own(list, TWI_PLAN_OUT, rank * what->count + first),
				      twi_plan_own(list, TWI_PLAN_SCRATCH, rank * columns.count),
				      columns.count);
		twi_plan_stage(list);
	}
}

static bool all_to_all_in_place(const struct twi_plan_case *what)
{
	return what->kind == TWI_COLL_ALL_TO_ALL && what->in_place;
}

bool twi_plan_fits_local(const struct twi_plan_case *what)
{
	return twi_plan_few_sources(what);
}

void twi_plan_build_local(struct twi_plan_list *list)
{
	static void (*const shares[TWI_COLL_KINDS])(struct twi_plan_list * list) = {
		[TWI_COLL_ALL_REDUCE] = all_reduce_slices,
		[TWI_COLL_REDUCE_SCATTER] = reduce_scatter,
		[TWI_COLL_ALL_GATHER] = all_gather,
		[TWI_COLL_ALL_GATHER_V] = all_gather,
		[TWI_COLL_BROADCAST] = local_broadcast,
		[TWI_COLL_REDUCE] = local_reduce,
		[TWI_COLL_GATHER] = local_gather,
		[TWI_COLL_SCATTER] = local_scatter,
		[TWI_COLL_ALL_TO_ALL] = all_to_all,
		[TWI_COLL_PERMUTE] = local_permute,
		[TWI_COLL_SEND_RECEIVE] = local_permute,
	};
	const struct twi_plan_case *what = list->what;

	twi_plan_open(list, 1, true, 0);
	twi_plan_sync(list);
	if (shares[what->kind] != NULL) {
		shares[what->kind](list);
		if (!all_to_all_in_place(what)) /* its last steps touch only this rank's memory */
			twi_plan_sync(list);
	}
	twi_plan_close(list);
}

void twi_plan_build_local_all(struct twi_plan_list *list)
{
	const struct twi_plan_case *what = list->what;
	struct twi_plan_ref out = twi_plan_own(list, TWI_PLAN_OUT, 0);
	struct twi_plan_ref result = what->in_place ? twi_plan_own(list, TWI_PLAN_SCRATCH, 0) : out;

	twi_plan_open(list, 1, true, 0);
	twi_plan_sync(list);
	twi_plan_reduce(list, what->count, true);
	twi_plan_result(list, result);
	add_all(list, 0);
	twi_plan_sync(list);
	if (what->in_place)
		twi_plan_copy(list, out, result, what->count);
	twi_plan_close(list);
}
