/*
 * plan_tree.c - binomial trees. Rank v, counted from the root, has children at the distances 1, 2,
 * 4, ... below the lowest set bit of v. A child's subtree is the ranks from the child up to the
 * next child.
 *
 * Broadcasts and reductions are cut into runs, which follow each other through the tree. Gathered
 * and scattered parts travel whole, since the parts of a subtree are one message. They go through
 * SCRATCH of the ranks in between, so this is for small parts.
 */
#include "transport/coll/plan/plan_list.h"

/* One rank's place in the tree, in numbers that count from the root. */
struct place {
	uint32_t ranks, root, self;
	uint32_t span; /* ranks self ... self + span - 1 are its subtree */
	uint32_t top;  /* children are self + top, self + top / 2, ..., self + 1; 0: none */
};

static struct place place_of(const struct twi_plan_list *list, uint32_t root)
{
	uint32_t ranks = list->what->ranks;
	struct place at = { .ranks = ranks, .root = root };
	uint32_t low = 1;

	at.self = (list->what->rank + ranks - root) % ranks;
	while (low < ranks && !(at.self & low))
		low <<= 1;
	at.span = ranks - at.self < low ? ranks - at.self : low;
	for (at.top = low >> 1; at.top > 0 && at.top >= at.span; at.top >>= 1)
		;
	return at;
}

static uint32_t real_rank(const struct place *at, uint32_t number)
{
	return (uint32_t)(((uint64_t)number + at->root) % at->ranks);
}

static uint32_t parent_of(const struct place *at)
{
	return real_rank(at, at->self & (at->self - 1));
}

static void run_broadcast(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct place at = place_of(list, list->what->root);
	struct twi_plan_ref data =
		twi_plan_own(list, at.self ? TWI_PLAN_OUT : TWI_PLAN_IN, run.first);

	if (at.self)
		twi_plan_recv(list, data, run.count, parent_of(&at), 0);
	twi_plan_stage(list);
	/* The largest subtree first: it has the longest path. */
	for (uint32_t child = at.top; child > 0; child >>= 1)
		twi_plan_send(list, data, run.count, real_rank(&at, at.self + child), 0);
}

static void run_reduce(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct place at = place_of(list, list->what->root);
	uint64_t area = twi_plan_slice_max(list, run.count, 1);
	struct twi_plan_ref in = twi_plan_own(list, TWI_PLAN_IN, run.first);
	struct twi_plan_ref sum = at.self ? twi_plan_own(list, TWI_PLAN_SCRATCH, 0)
					  : twi_plan_own(list, TWI_PLAN_OUT, run.first);
	uint32_t index = 0;

	for (uint32_t child = 1; child <= at.top; child <<= 1)
		twi_plan_recv(list, twi_plan_own(list, TWI_PLAN_SCRATCH, area * index++), run.count,
			      real_rank(&at, at.self + child), 0);
	twi_plan_stage(list);
	if (index > 0) {
		twi_plan_reduce(list, run.count, at.self == 0);
		twi_plan_result(list, sum);
		twi_plan_source(list, in);
		for (uint32_t i = 0; i < index; i++)
			twi_plan_source(list, twi_plan_own(list, TWI_PLAN_SCRATCH, area * i));
		twi_plan_stage(list);
	}
	if (at.self)
		twi_plan_send(list, index ? sum : in, run.count, parent_of(&at), 0);
}

/*
 * Moves the parts of a subtree between this rank and `peer`. At this rank they lie from `here` on,
 * one after another, in the order of the tree. At the root they lie in the order of ranks. So the
 * parts past the last rank are a second message, on both sides.
 */
static void move_parts(struct twi_plan_list *list, const struct place *at, bool send, uint32_t peer,
		       uint32_t first, uint32_t span, struct twi_plan_ref here)
{
	uint64_t count = list->what->count;
	uint32_t start = real_rank(at, first);
	uint32_t head = at->ranks - start < span ? at->ranks - start : span;
	bool ordered = at->self == 0;

	for (uint32_t part = 0; part < 2; part++) {
		uint64_t from = part ? head : 0, parts = part ? span - head : head;
		struct twi_plan_ref ref = here;

		ref.offset = ordered ? (part ? 0 : start) * count * list->unit
				     : ref.offset + from * count * list->unit;
		if (send)
			twi_plan_send(list, ref, parts * count, peer, part);
		else
			twi_plan_recv(list, ref, parts * count, peer, part);
	}
}

static void run_gather(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct place at = place_of(list, list->what->root);
	struct twi_plan_ref in = twi_plan_own(list, TWI_PLAN_IN, 0);
	enum twi_plan_space space = at.self ? TWI_PLAN_SCRATCH : TWI_PLAN_OUT;

	if (at.self == 0 && !list->what->in_place)
		twi_plan_copy(list, twi_plan_own(list, space, at.root * run.count), in, run.count);
	else if (at.self && at.top)
		twi_plan_copy(list, twi_plan_own(list, space, 0), in, run.count);
	for (uint32_t child = 1; child <= at.top; child <<= 1) {
		uint32_t span = at.span - child < child ? at.span - child : child;

		move_parts(list, &at, false, real_rank(&at, at.self + child), at.self + child, span,
			   twi_plan_own(list, space, child * run.count));
	}
	twi_plan_stage(list);
	if (at.self)
		move_parts(list, &at, true, parent_of(&at), at.self, at.span,
			   at.top ? twi_plan_own(list, space, 0) : in);
}

static void run_scatter(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct place at = place_of(list, list->what->root);
	struct twi_plan_ref out = twi_plan_own(list, TWI_PLAN_OUT, 0);
	enum twi_plan_space space = at.self ? TWI_PLAN_SCRATCH : TWI_PLAN_IN;

	if (at.self)
		move_parts(list, &at, false, parent_of(&at), at.self, at.span,
			   at.top ? twi_plan_own(list, space, 0) : out);
	twi_plan_stage(list);
	for (uint32_t child = at.top; child > 0; child >>= 1) {
		uint32_t span = at.span - child < child ? at.span - child : child;

		move_parts(list, &at, true, real_rank(&at, at.self + child), at.self + child, span,
			   twi_plan_own(list, space, child * run.count));
	}
	if (at.self == 0 && !list->what->in_place)
		twi_plan_copy(list, out, twi_plan_own(list, space, at.root * run.count), run.count);
	else if (at.self && at.top)
		twi_plan_copy(list, out, twi_plan_own(list, space, 0), run.count);
}

static void run_barrier(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct place at = place_of(list, 0);

	(void)run;
	for (uint32_t child = 1; child <= at.top; child <<= 1)
		twi_plan_signal(list, TWI_PLAN_RECV, real_rank(&at, at.self + child), 0);
	twi_plan_stage(list);
	if (at.self) {
		twi_plan_signal(list, TWI_PLAN_SEND, parent_of(&at), 0);
		twi_plan_stage(list);
		twi_plan_signal(list, TWI_PLAN_RECV, parent_of(&at), 0);
	}
	twi_plan_stage(list);
	for (uint32_t child = at.top; child > 0; child >>= 1)
		twi_plan_signal(list, TWI_PLAN_SEND, real_rank(&at, at.self + child), 0);
}

bool twi_plan_fits_binomial(const struct twi_plan_case *what)
{
	return (what->kind != TWI_COLL_GATHER && what->kind != TWI_COLL_SCATTER) ||
	       twi_plan_is_small(what);
}

void twi_plan_build_binomial(struct twi_plan_list *list)
{
	switch (list->what->kind) {
	case TWI_COLL_BROADCAST:
		twi_plan_segments(list, 1, 1, false, run_broadcast);
		break;
	case TWI_COLL_REDUCE:
		twi_plan_segments(list, 1, 1, false, run_reduce);
		break;
	case TWI_COLL_GATHER:
		twi_plan_whole(list, false, run_gather);
		break;
	case TWI_COLL_SCATTER:
		twi_plan_whole(list, false, run_scatter);
		break;
	default:
		twi_plan_whole(list, false, run_barrier);
	}
}
