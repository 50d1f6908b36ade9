/*
 * replay_search.c - finds the smallest pool that holds a program; replay.h has the concept.
 */
#include "diag/base/error.h"
#include "memreg/sizing/replay.h"
#include <internal/base.h>

#define PAGE    4096u
#define ABOVE   4 /* at most TWI_REPLAY_LANES_MAX */
#define KNOWN   64
#define GALLOPS 2 /* sizes at once: more would try pools that are far too large */

uint64_t twi_replay_step(uint64_t bytes)
{
	uint64_t step = TWI_REPLAY_STEP_MAX;

	/* A step above a thirty-second of the size would blur the test of 90 %. */
	while (step > 16 * PAGE && bytes / 32 < step)
		step /= 2;
	return step;
}

/* The request and the state of one search. */
struct search {
	const struct twi_replay *replay;
	const struct twi_replay_search *wanted;
	struct twi_replay_found *found;
	int status; /* the first failure */
	/* The latest sizes that were tried, as mapped, so that none is tried twice. */
	uint64_t known_bytes[KNOWN];
	bool known_fits[KNOWN];
	uint32_t known;
};

static bool search_knows(const struct search *search, uint64_t bytes, bool *fits_out)
{
	for (uint32_t i = 0; i < KNOWN; i++) {
		if (search->known_bytes[i] != bytes)
			continue;
		*fits_out = search->known_fits[i];
		return true;
	}
	return false;
}

static void search_learns(struct search *search, uint64_t bytes, bool fits)
{
	search->known_bytes[search->known] = bytes;
	search->known_fits[search->known] = fits;
	search->known = (search->known + 1) % KNOWN;
	search->found->tried++;
	if (search->wanted->progress != NULL)
		search->wanted->progress(search->wanted->arg, bytes, fits);
}

/* Tries `count` sizes at once. fits[] tells which of them fit. */
static void search_each(struct search *search, const uint64_t *bytes, uint32_t count, bool *fits)
{
	uint64_t page = twi_max(search->wanted->page_bytes, (uint64_t)PAGE);
	struct twi_replay_pool pool[TWI_REPLAY_LANES_MAX];
	struct twi_replay_result result[TWI_REPLAY_LANES_MAX];
	uint32_t which[TWI_REPLAY_LANES_MAX], some = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t mapped = twi_align_up(bytes[i], page);

		fits[i] = false;
		if (search_knows(search, mapped, &fits[i]))
			continue;
		which[some] = i;
		pool[some++] = (struct twi_replay_pool){ search->wanted->ops, mapped,
							 search->wanted->reserve_bytes, 0 };
	}
	if (search->status == TOW_OK)
		search->status =
			twi_replay_run_each(search->replay, pool, some, TWI_REPLAY_FITS, result);
	for (uint32_t i = 0; search->status == TOW_OK && i < some; i++) {
		fits[which[i]] = twi_replay_clean(&result[i]);
		search_learns(search, pool[i].bytes, fits[which[i]]);
	}
}

static bool search_fits(struct search *search, uint64_t bytes)
{
	bool fits;

	search_each(search, &bytes, 1, &fits);
	return fits;
}

/* Halves (low, high] until it is one step wide: high fits, low does not. Returns high. */
static uint64_t search_bisect(struct search *search, uint64_t low, uint64_t high)
{
	uint64_t step = search->found->step_bytes;

	while (high - low > step && search->status == TOW_OK) {
		uint64_t middle = low + twi_align_up((high - low) / 2, step);

		if (middle >= high)
			middle = high - step;
		if (search_fits(search, middle))
			high = middle;
		else
			low = middle;
	}
	return high;
}

/* Tries several sizes at once from `low` upwards, in doubling strides, and then bisects. */
static uint64_t search_gallop(struct search *search, uint64_t low)
{
	uint64_t step = search->found->step_bytes, below = low - step, stride = step;
	uint32_t lanes = twi_min(twi_replay_lanes(search->replay), (uint32_t)GALLOPS);

	while (search->status == TOW_OK) {
		uint64_t at[GALLOPS];
		bool fits[GALLOPS];

		for (uint32_t i = 0; i < lanes; i++, stride *= 2) {
			at[i] = low;
			low += stride;
		}
		search_each(search, at, lanes, fits);
		for (uint32_t i = 0; i < lanes; i++) {
			if (fits[i])
				return search_bisect(search, below, at[i]);
			below = at[i];
		}
	}
	return low;
}

/*
 * A size below `bytes` that fits, so that `bytes` is not the answer; 0: none was found. Small pools
 * differ by pages. So 90 % is tried in both forms that users compute: exactly, up to a page, and in
 * whole MiB. The sizes a step around it are tried too, because an island of fitting sizes is often
 * wider.
 */
static uint64_t fits_below(struct search *search, uint64_t bytes)
{
	uint64_t step = search->found->step_bytes, least = search->found->lower_bytes;
	uint64_t tenth = bytes / 10 * 9, whole = tenth & ~(((uint64_t)1 << 20) - 1);
	const uint64_t below[] = {
		bytes - twi_min(bytes, step),
		bytes - twi_min(bytes, 2 * step),
		bytes - twi_min(bytes, 3 * step),
		bytes - twi_min(bytes, 4 * step),
		tenth,
		tenth + step,
		tenth - twi_min(tenth, step),
		whole,
		whole + ((uint64_t)1 << 20),
	};

	uint64_t size[twi_array_count(below)];
	bool fits[TWI_REPLAY_LANES_MAX];
	uint32_t count = 0, lanes = twi_replay_lanes(search->replay);

	for (size_t i = 0; i < twi_array_count(below); i++) {
		size[count] = twi_align_up(below[i], PAGE);
		count += size[count] >= least && size[count] < bytes;
	}
	for (uint32_t i = 0; i < count; i += lanes) {
		uint32_t some = twi_min(lanes, count - i);

		search_each(search, &size[i], some, fits);
		for (uint32_t k = 0; k < some; k++)
			if (fits[k])
				return size[i + k];
	}
	return 0;
}

/* The number of the next four sizes that do not fit. */
static uint64_t misses_above(struct search *search, uint64_t bytes)
{
	uint64_t missed = 0, size[ABOVE];
	bool fits[ABOVE];

	for (uint32_t k = 0; k < ABOVE; k++)
		size[k] = bytes + (k + 1) * search->found->step_bytes;
	search_each(search, size, ABOVE, fits);
	for (uint32_t k = 0; k < ABOVE; k++)
		missed += !fits[k];
	return missed;
}

int twi_replay_find(const struct twi_replay *replay, const struct twi_replay_search *wanted,
		    struct twi_replay_found *out)
{
	struct search search = { .replay = replay, .wanted = wanted, .found = out };
	uint64_t least = replay->peak_rounded + twi_align_up(wanted->reserve_bytes, PAGE);
	uint64_t step = wanted->step_bytes ? wanted->step_bytes : twi_replay_step(least), lower;

	*out = (struct twi_replay_found){ .step_bytes = step };
	least = twi_max(twi_max(least, wanted->least_bytes), TWI_REPLAY_POOL_MIN);
	out->lower_bytes = twi_align_up(least, PAGE);
	out->bytes = search_gallop(&search, twi_align_up(least, step));
	while ((lower = fits_below(&search, out->bytes)) != 0 && search.status == TOW_OK)
		out->bytes = search_bisect(
			&search, out->lower_bytes - twi_min(out->lower_bytes, step), lower);
	out->above_missed = misses_above(&search, out->bytes);
	return search.status;
}
