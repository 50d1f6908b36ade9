/*
 * plan_double.c - two binary trees at once, each for half of the payload (Sanders, Speck and Traeff
 * 2009). An inner rank of one tree is a leaf of the other. So every rank sends and receives about
 * as much as any other, and uses both directions of its link all the time.
 *
 * Numbers count from the root. The root is 0, and its only child is the top of the tree. Among 1 to
 * n - 1 the first tree is in order: a number's lowest set bit is its height, odd numbers are
 * leaves. The second tree has the numbers mirrored. With an even number of ranks this would leave
 * the same ranks leaves, so there the numbers are shifted by one instead.
 *
 * Up and down are both cut into runs, which follow each other through the trees. On the way down an
 * inner rank sends its half on before it waits for the half that it is a leaf for. If it waited for
 * both first, ranks could wait for each other in a circle.
 */
#include "transport/coll/plan/plan_list.h"

#define NOBODY UINT32_MAX

struct node {
	uint32_t parent;
	uint32_t children[2]; /* the first entries are used; NOBODY: none */
	bool inner;
};

/* A number's node in the in-order tree over 1 ... n - 1, with 0 above it. */
static struct node in_order(uint32_t n, uint32_t self)
{
	struct node node = { NOBODY, { NOBODY, NOBODY }, false };
	uint32_t low = self & (0 - self);

	if (self == 0) {
		for (low = 1; low <= (n - 1) / 2; low *= 2)
			;
		node.children[0] = low;
		node.inner = true;
		return node;
	}
	node.parent = (self ^ low) | low << 1;
	if (node.parent >= n)
		node.parent = self ^ low;
	if (low > 1) {
		node.children[0] = self - low / 2;
		node.inner = true;
	}
	for (uint32_t down = low / 2; down > 0 && node.children[1] == NOBODY; down /= 2)
		if (self + down < n)
			node.children[1] = self + down;
	return node;
}

/* Converts a number to the order of the second tree; from_second() converts it back. */
static uint32_t to_second(uint32_t n, uint32_t number)
{
	if (number == 0 || number == NOBODY)
		return number;
	if (n % 2)
		return n - number;
	return number == 1 ? n - 1 : number - 1;
}

static uint32_t from_second(uint32_t n, uint32_t number)
{
	if (number == 0 || number == NOBODY)
		return number;
	if (n % 2)
		return n - number;
	return number == n - 1 ? 1 : number + 1;
}

static uint32_t real_rank(const struct twi_plan_list *list, uint32_t root, uint32_t number)
{
	return number == NOBODY ? NOBODY
				: (uint32_t)(((uint64_t)number + root) % list->what->ranks);
}

static uint32_t root_of(const struct twi_plan_list *list)
{
	return list->what->kind == TWI_COLL_ALL_REDUCE ? 0 : list->what->root;
}

/* This rank's node in tree 0 or 1, as ranks instead of numbers. */
static struct node place_in_tree(const struct twi_plan_list *list, uint32_t tree)
{
	uint32_t n = list->what->ranks, root = root_of(list);
	uint32_t self = (list->what->rank + n - root) % n;
	struct node node = in_order(n, tree ? to_second(n, self) : self);

	if (tree) {
		node.parent = from_second(n, node.parent);
		node.children[0] = from_second(n, node.children[0]);
		node.children[1] = from_second(n, node.children[1]);
	}
	node.parent = real_rank(list, root, node.parent);
	node.children[0] = real_rank(list, root, node.children[0]);
	node.children[1] = real_rank(list, root, node.children[1]);
	return node;
}

/* One tree's half of the run. */
struct half {
	struct node node;
	struct twi_plan_range range;
	uint32_t tag;  /* up; down is tag + 2 */
	uint64_t area; /* in SCRATCH, for two children */
};

static void halves_of(const struct twi_plan_list *list, struct twi_plan_range run,
		      struct half halves[2])
{
	uint64_t area = twi_plan_slice_max(list, run.count, 2);

	for (uint32_t tree = 0; tree < 2; tree++)
		halves[tree] =
			(struct half){ place_in_tree(list, tree),
				       twi_plan_slice(list, run, 2, tree), tree, 2 * tree * area };
}

static struct twi_plan_ref child_area(const struct twi_plan_list *list, const struct half *half,
				      uint32_t child)
{
	uint64_t line = TWI_PLAN_LINE / list->unit;

	return twi_plan_own(list, TWI_PLAN_SCRATCH,
			    half->area + child * ((half->range.count + line - 1) / line * line));
}

static void send_up(struct twi_plan_list *list, const struct half *half)
{
	struct twi_plan_ref from = half->node.inner
					   ? child_area(list, half, 0)
					   : twi_plan_own(list, TWI_PLAN_IN, half->range.first);

	twi_plan_send(list, from, half->range.count, half->node.parent, half->tag);
}

static void sum_up(struct twi_plan_list *list, const struct half *half)
{
	bool top = half->node.parent == NOBODY;

	twi_plan_reduce(list, half->range.count, top);
	twi_plan_result(list, top ? twi_plan_own(list, TWI_PLAN_OUT, half->range.first)
				  : child_area(list, half, 0));
	twi_plan_source(list, twi_plan_own(list, TWI_PLAN_IN, half->range.first));
	for (uint32_t child = 0; child < 2; child++)
		if (half->node.children[child] != NOBODY)
			twi_plan_source(list, child_area(list, half, child));
}

static void go_up(struct twi_plan_list *list, const struct half halves[2])
{
	for (const struct half *half = halves; half < halves + 2; half++) {
		for (uint32_t child = 0; child < 2; child++)
			if (half->node.children[child] != NOBODY)
				twi_plan_recv(list, child_area(list, half, child),
					      half->range.count, half->node.children[child],
					      half->tag);
		if (!half->node.inner)
			send_up(list, half);
	}
	twi_plan_stage(list);
	for (const struct half *half = halves; half < halves + 2; half++)
		if (half->node.inner)
			sum_up(list, half);
	twi_plan_stage(list);
	for (const struct half *half = halves; half < halves + 2; half++)
		if (half->node.inner && half->node.parent != NOBODY)
			send_up(list, half);
	twi_plan_stage(list);
}

/* `at_root`: the buffer that has the payload at the root. */
static void go_down(struct twi_plan_list *list, const struct half halves[2],
		    enum twi_plan_space at_root)
{
	bool top = halves[0].node.parent == NOBODY;
	enum twi_plan_space space = top ? at_root : TWI_PLAN_OUT;

	for (const struct half *half = halves; half < halves + 2; half++)
		if (half->node.inner && !top)
			twi_plan_recv(list, twi_plan_own(list, space, half->range.first),
				      half->range.count, half->node.parent, half->tag + 2);
	twi_plan_stage(list);
	for (const struct half *half = halves; half < halves + 2; half++) {
		struct twi_plan_ref ref = twi_plan_own(list, space, half->range.first);

		for (uint32_t child = 0; child < 2; child++)
			if (half->node.children[child] != NOBODY)
				twi_plan_send(list, ref, half->range.count,
					      half->node.children[child], half->tag + 2);
		if (!half->node.inner)
			twi_plan_recv(list, ref, half->range.count, half->node.parent,
				      half->tag + 2);
	}
	twi_plan_stage(list);
}

static void run_double(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct half halves[2];

	halves_of(list, run, halves);
	if (list->what->kind != TWI_COLL_BROADCAST)
		go_up(list, halves);
	if (list->what->kind != TWI_COLL_REDUCE)
		go_down(list, halves,
			list->what->kind == TWI_COLL_BROADCAST ? TWI_PLAN_IN : TWI_PLAN_OUT);
}

void twi_plan_build_double_tree(struct twi_plan_list *list)
{
	twi_plan_segments(list, 1, 2, false, run_double);
}
