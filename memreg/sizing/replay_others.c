/*
 * replay_others.c - finds a size that holds the program in its next runs, too: in other orders of
 * its threads, and on other CPUs. replay.h has the concept.
 *
 *   round the runs: one that does not fit --searches on--> the size is larger, and the round anew
 *                   all of them fit in turn             -> the size
 *
 * A size that holds costs a replay of each run. A size that does not hold mostly costs one replay.
 * Each size is tested itself, because a larger one may not hold. For a long log, only one order is
 * in memory at a time.
 */
#include "memreg/sizing/replay.h"
#include <internal/base.h>
#include <towline/status.h>

#define PAGE       4096u
#define KEPT_MOST  ((uint64_t)4 << 20) /* limit of the events of all runs kept in memory */
#define OTHERS_MAX 128u

struct others {
	const struct twi_replay *replay;
	const struct twi_replay_search *wanted;
	const struct twi_replay_others *how;
	struct twi_replay *run[OTHERS_MAX + 1]; /* NULL: not made yet, or not kept */
	uint32_t count;
	int status;
};

static bool has_orders(const struct others *others)
{
	return others->how->permille > 0 && others->replay->threads > 1;
}

/* Run 0 is the program as recorded. *made: the caller destroys it after use; NULL: nothing. */
static const struct twi_replay *others_make(struct others *others, uint32_t index,
					    struct twi_replay **made)
{
	*made = NULL;
	if (index == 0 || !has_orders(others))
		return others->replay;
	if (others->run[index] != NULL)
		return others->run[index];
	others->status = twi_replay_vary(others->replay, index, others->how->permille, made);
	if (others->status < 0)
		return NULL;
	if (others->replay->count * others->count > KEPT_MOST)
		return *made;
	others->run[index] = *made;
	*made = NULL;
	return others->run[index];
}

static void tell_try(const struct others *others, uint64_t bytes, bool fits)
{
	if (others->wanted->progress != NULL)
		others->wanted->progress(others->wanted->arg, bytes, fits);
}

/* Of `count` runs of one order from `index` on, the number that fit before one that does not. */
static uint32_t runs_that_fit(struct others *others, const struct twi_replay *run, uint32_t index,
			      uint32_t count, uint64_t bytes)
{
	uint64_t page = twi_max(others->wanted->page_bytes, (uint64_t)PAGE);
	struct twi_replay_pool pool[TWI_REPLAY_LANES_MAX] = { { 0 } };
	struct twi_replay_result result[TWI_REPLAY_LANES_MAX];
	uint32_t fit = 0;

	for (uint32_t i = 0; i < count; i++)
		pool[i] = (struct twi_replay_pool){ others->wanted->ops, twi_align_up(bytes, page),
						    others->wanted->reserve_bytes, index + i };
	others->status = twi_replay_run_each(run, pool, count, TWI_REPLAY_FITS, result);
	while (others->status == TOW_OK && fit < count && twi_replay_clean(&result[fit]))
		fit++;
	tell_try(others, bytes, fit == count);
	return fit;
}

/*
 * Searches from `low`, in which the run does not fit, for a size in which it does: upwards in
 * doubling strides, then back by halves. If none fits, the result is the largest size tried.
 */
static uint64_t search_run(struct others *others, const struct twi_replay *run, uint32_t index,
			   uint64_t low, bool *fits_out)
{
	uint64_t step = others->wanted->step_bytes, most = others->how->most_bytes;
	uint64_t stride = step, below = low, at = low;

	*fits_out = false;
	while (!*fits_out && others->status == TOW_OK && at + step <= most) {
		below = at;
		at = twi_min(at + stride, below + (most - below) / step * step);
		stride *= 2;
		*fits_out = runs_that_fit(others, run, index, 1, at) == 1;
	}
	while (*fits_out && at - below > step && others->status == TOW_OK) {
		uint64_t middle = below + (at - below) / step / 2 * step;

		if (runs_that_fit(others, run, index, 1, middle) == 1)
			at = middle;
		else
			below = middle;
	}
	return at;
}

/*
 * Tries some runs from `index` on: one for each CPU if all have the same order, else one. If the
 * first does not fit, *bytes grows to the size that it needs. Returns the number that fit;
 * *fits_out tells whether *bytes is enough for these.
 */
static uint32_t try_some(struct others *others, uint32_t index, uint64_t *bytes, bool *fits_out)
{
	uint32_t some = has_orders(others) ? 1 : twi_replay_lanes(others->replay), fit = 0;
	struct twi_replay *made;
	const struct twi_replay *run = others_make(others, index, &made);

	if (run != NULL)
		fit = runs_that_fit(others, run, index, twi_min(some, others->count - index),
				    *bytes);
	*fits_out = fit > 0;
	if (run != NULL && fit == 0 && others->status == TOW_OK)
		*bytes = search_run(others, run, index, *bytes, fits_out);
	twi_replay_destroy(made);
	return fit;
}

/* Grows the size with each new round, up to the most that may be tried, so that it ends. */
static bool search_all(struct others *others, uint64_t *bytes)
{
	uint32_t index = 0, in_turn = 0;
	bool fits = true;

	while (fits && others->status == TOW_OK && in_turn < others->count) {
		uint32_t fit = try_some(others, index, bytes, &fits);

		in_turn = fit > 0 ? in_turn + fit : 1;
		index = (index + twi_max(fit, 1u)) % others->count;
	}
	return fits;
}

int twi_replay_find_others(const struct twi_replay *replay, const struct twi_replay_search *wanted,
			   const struct twi_replay_others *how, uint64_t *bytes_out, bool *fits_out)
{
	struct others others = { .replay = replay, .wanted = wanted, .how = how };

	others.count = twi_min(how->count, OTHERS_MAX) + 1;
	*bytes_out = wanted->least_bytes;
	*fits_out = search_all(&others, bytes_out);
	for (uint32_t i = 0; i <= OTHERS_MAX; i++)
		twi_replay_destroy(others.run[i]);
	return others.status;
}
