/*
 * plan_halving.c - all-reduces among a power of two of ranks, in pairs at distances of powers of
 * two.
 *
 *	halving    the pair halves what both have, each takes a half of the other's and adds it;
 *	           when all is one slice a rank, the same steps backwards double it again: as few
 *	           bytes as a ring in 2 log2(n) steps (Rabenseifner; Thakur, Rabenseifner and
 *	           Gropp 2005)
 *	doubling   the pair swaps all it has and both add: log2(n) steps, log2(n) times the bytes
 *
 * Ranks beyond the largest power of two (`more` of them) are folded. Among the first `more` pairs
 * of ranks, each even rank sends its vector to the odd one behind it, and receives the result at
 * the end.
 *
 * The operand of the lower ranks always comes first. So both sides of a pair that add the same two
 * operands (doubling) get the same bits.
 */
#include "transport/coll/plan/plan_list.h"

struct fold {
	uint32_t size; /* the power of two */
	uint32_t more; /* ranks beyond it */
	uint32_t self; /* number among the ranks that take part; UINT32_MAX: it does not */
	bool summed;   /* this rank's data is in OUT; else it is still in IN */
	uint32_t tag;
};

/* The rank of a number. */
static uint32_t real_rank(const struct fold *fold, uint32_t number)
{
	return number < fold->more ? 2 * number + 1 : number + fold->more;
}

/* Adds the data received in SCRATCH to this rank's data of `range`. */
static void add_range(struct twi_plan_list *list, const struct fold *fold,
		      struct twi_plan_range range, bool lower_came, bool last)
{
	struct twi_plan_ref came = twi_plan_own(list, TWI_PLAN_SCRATCH, 0);
	struct twi_plan_ref have =
		twi_plan_own(list, fold->summed ? TWI_PLAN_OUT : TWI_PLAN_IN, range.first);

	twi_plan_stage(list);
	twi_plan_reduce(list, range.count, last);
	twi_plan_result(list, twi_plan_own(list, TWI_PLAN_OUT, range.first));
	twi_plan_source(list, lower_came ? came : have);
	twi_plan_source(list, lower_came ? have : came);
	twi_plan_stage(list);
}

static struct fold fold_in(struct twi_plan_list *list, struct twi_plan_range run)
{
	uint32_t rank = list->what->rank;
	struct fold fold = { .size = 1, .tag = 1 };

	while (fold.size <= list->what->ranks / 2)
		fold.size *= 2;
	fold.more = list->what->ranks - fold.size;
	if (rank >= 2 * fold.more) {
		fold.self = rank - fold.more;
	} else if (rank % 2 == 0) {
		fold.self = UINT32_MAX;
		twi_plan_send(list, twi_plan_own(list, TWI_PLAN_IN, run.first), run.count, rank + 1,
			      0);
		twi_plan_stage(list);
	} else {
		fold.self = rank / 2;
		twi_plan_recv(list, twi_plan_own(list, TWI_PLAN_SCRATCH, 0), run.count, rank - 1,
			      0);
		add_range(list, &fold, run, true, false);
		fold.summed = true;
	}
	return fold;
}

static void fold_out(struct twi_plan_list *list, const struct fold *fold, struct twi_plan_range run)
{
	uint32_t rank = list->what->rank;
	struct twi_plan_ref out = twi_plan_own(list, TWI_PLAN_OUT, run.first);

	if (rank >= 2 * fold->more)
		return;
	if (rank % 2 == 0)
		twi_plan_recv(list, out, run.count, rank + 1, 0);
	else
		twi_plan_send(list, out, run.count, rank - 1, 0);
}

/* The range of the slices [first, first + n) of the run. */
static struct twi_plan_range window_of(const struct twi_plan_list *list, const struct fold *fold,
				       struct twi_plan_range run, uint32_t first, uint32_t n)
{
	struct twi_plan_range low = twi_plan_slice(list, run, fold->size, first);
	struct twi_plan_range high = twi_plan_slice(list, run, fold->size, first + n - 1);

	return (struct twi_plan_range){ low.first, high.first + high.count - low.first };
}

static void halve_run(struct twi_plan_list *list, struct fold *fold, struct twi_plan_range run)
{
	for (uint32_t half = fold->size / 2; half > 0; half /= 2) {
		uint32_t first = fold->self & ~(2 * half - 1);
		bool upper = fold->self & half;
		uint32_t peer = real_rank(fold, fold->self ^ half);
		struct twi_plan_range keep =
			window_of(list, fold, run, first + (upper ? half : 0), half);
		struct twi_plan_range give =
			window_of(list, fold, run, first + (upper ? 0 : half), half);

		twi_plan_send(
			list,
			twi_plan_own(list, fold->summed ? TWI_PLAN_OUT : TWI_PLAN_IN, give.first),
			give.count, peer, fold->tag);
		twi_plan_recv(list, twi_plan_own(list, TWI_PLAN_SCRATCH, 0), keep.count, peer,
			      fold->tag++);
		add_range(list, fold, keep, upper, half == 1);
		fold->summed = true;
	}
}

static void spread_run(struct twi_plan_list *list, struct fold *fold, struct twi_plan_range run)
{
	for (uint32_t half = 1; half < fold->size; half *= 2) {
		uint32_t own = fold->self & ~(half - 1);
		uint32_t peer = real_rank(fold, fold->self ^ half);
		struct twi_plan_range have = window_of(list, fold, run, own, half);
		struct twi_plan_range get = window_of(list, fold, run, own ^ half, half);

		twi_plan_send(list, twi_plan_own(list, TWI_PLAN_OUT, have.first), have.count, peer,
			      fold->tag);
		twi_plan_recv(list, twi_plan_own(list, TWI_PLAN_OUT, get.first), get.count, peer,
			      fold->tag++);
		twi_plan_stage(list);
	}
}

static void run_halving(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct fold fold = fold_in(list, run);

	if (fold.self != UINT32_MAX) {
		halve_run(list, &fold, run);
		spread_run(list, &fold, run);
	}
	fold_out(list, &fold, run);
}

static void run_doubling(struct twi_plan_list *list, struct twi_plan_range run)
{
	struct fold fold = fold_in(list, run);

	for (uint32_t apart = 1; fold.self != UINT32_MAX && apart < fold.size; apart *= 2) {
		uint32_t peer = real_rank(&fold, fold.self ^ apart);

		twi_plan_send(
			list,
			twi_plan_own(list, fold.summed ? TWI_PLAN_OUT : TWI_PLAN_IN, run.first),
			run.count, peer, fold.tag);
		twi_plan_recv(list, twi_plan_own(list, TWI_PLAN_SCRATCH, 0), run.count, peer,
			      fold.tag++);
		add_range(list, &fold, run, fold.self & apart, 2 * apart == fold.size);
		fold.summed = true;
	}
	fold_out(list, &fold, run);
}

void twi_plan_build_halving(struct twi_plan_list *list)
{
	twi_plan_segments(list, 1, list->what->ranks, false, run_halving);
}

void twi_plan_build_doubling(struct twi_plan_list *list)
{
	twi_plan_segments(list, 1, 1, false, run_doubling);
}
