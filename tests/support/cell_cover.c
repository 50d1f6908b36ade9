/* cell_cover.c - which cells a run has. */
#include "cell_cover.h"

const char *const twt_cases[] = { "messages", "views",   "matches", "channels",   "parts",
				  "calls",    "streams", "groups",  "collectives" };

bool twt_is_grouped(unsigned which)
{
	return which == TWT_GROUPS || which == TWT_COLLECTIVES;
}

const char twt_marks_of[] = " .Fk-o";

const struct twt_known twt_faults[] = {
	{ NULL, TWT_ANY, TWT_ANY, TWT_CASES, "none is known" },
};

/* Cells without a meaning, and why. */
static const struct twt_known twt_senseless[] = {
#ifdef TWT_TSAN
	{ "ofi-tcp", TWT_ANY, TWT_ANY, TWT_ANY, "TSan does not see into libfabric" },
	{ "ofi-tcp-epoll", TWT_ANY, TWT_ANY, TWT_ANY, "TSan does not see into libfabric" },
	{ "ofi-shm", TWT_ANY, TWT_ANY, TWT_ANY, "TSan does not see into libfabric" },
#endif
	{ "loop", TWT_ANY, TWT_ANY, TWT_GROUPS,
	  "a runtime is one rank of a job, and loop joins endpoints of one runtime" },
	{ "loop", TWT_ANY, TWT_ANY, TWT_COLLECTIVES,
	  "a runtime is one rank of a job, and loop joins endpoints of one runtime" },
	{ NULL, TWT_UNREADABLE, TWT_ANY, TWT_COLLECTIVES,
	  "the processor adds the elements up, and such memory ends the process" },
};

static const char *twt_look_up(const struct twt_known *list, size_t count,
			       const struct twt_place *at)
{
	for (size_t i = 0; i < count; i++) {
		const struct twt_known *row = &list[i];

		if ((row->lane == NULL || strcmp(row->lane, twt_lanes[at->lane].name) == 0) &&
		    (row->memory == TWT_ANY || row->memory == at->memory) &&
		    (row->driving == TWT_ANY || row->driving == at->driving) &&
		    (row->which == TWT_ANY || row->which == at->which))
			return row->why;
	}
	return NULL;
}

const char *twt_fault_of(const struct twt_place *at)
{
	return twt_look_up(twt_faults, TWT_KNOWN_FAULTS, at);
}

const char *twt_nonsense_of(const struct twt_place *at)
{
	return twt_look_up(twt_senseless, sizeof(twt_senseless) / sizeof(twt_senseless[0]), at);
}

static void twt_values_of(const struct twt_place *at, size_t out[4])
{
	out[0] = at->lane;
	out[1] = TWT_LANES + at->memory;
	out[2] = TWT_LANES + TWT_MEMORIES + at->driving;
	out[3] = TWT_LANES + TWT_MEMORIES + TWT_DRIVINGS + at->which;
}

/* How many pairs of values would meet here for the first time; with `take` they have. */
static unsigned twt_new_pairs(struct twt_cover *cover, const struct twt_place *at, bool take)
{
	unsigned count = 0;
	size_t values[4];

	twt_values_of(at, values);
	for (int i = 0; i < 4; i++) {
		for (int j = i + 1; j < 4; j++) {
			count += !cover->met[values[i]][values[j]];
			cover->met[values[i]][values[j]] |= take;
		}
	}
	return count;
}

struct twt_place twt_place_of(size_t number)
{
	struct twt_place at;

	at.which = (unsigned)(number % TWT_CASES);
	number /= TWT_CASES;
	at.driving = (unsigned)(number % TWT_DRIVINGS);
	number /= TWT_DRIVINGS;
	at.memory = (unsigned)(number % TWT_MEMORIES);
	at.lane = (unsigned)(number / TWT_MEMORIES);
	return at;
}

void twt_select_cover(enum twt_case which, uint64_t *random,
		      bool selected[TWT_LANES][TWT_MEMORIES][TWT_DRIVINGS])
{
	struct twt_cover cover = { { { false } } };
	const size_t all = TWT_LANES * TWT_MEMORIES * TWT_DRIVINGS * TWT_CASES;

	for (;;) {
		size_t from = twt_random_below(random, all), best = all;
		unsigned most = 0;
		struct twt_place at;

		for (size_t i = 0; i < all; i++) {
			unsigned count;

			at = twt_place_of((from + i) % all);
			count = twt_fault_of(&at) == NULL && twt_nonsense_of(&at) == NULL
					? twt_new_pairs(&cover, &at, false)
					: 0;
			if (count > most) {
				most = count;
				best = (from + i) % all;
			}
		}
		if (best == all)
			return;
		at = twt_place_of(best);
		twt_new_pairs(&cover, &at, true);
		if (at.which == which)
			selected[at.lane][at.memory][at.driving] = true;
	}
}
