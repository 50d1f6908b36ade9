/*
 * cell_cover.h - which cells there are, what is known of them before they run, and a selection in
 * which every two values of two dimensions meet (conform.h).
 */
#ifndef TWT_CELL_COVER_H
#define TWT_CELL_COVER_H

#include "cell.h"

enum twt_case {
	TWT_MESSAGES,
	TWT_VIEWS,
	TWT_MATCHES,
	TWT_CHANNELS,
	TWT_PARTS,
	TWT_CALLS,
	TWT_STREAMS,
	TWT_GROUPS,
	TWT_COLLECTIVES,
	TWT_CASES
};
extern const char *const twt_cases[TWT_CASES];

/* Its two ends are the ranks of a job, and the group connects them. */
bool twt_is_grouped(unsigned which);

enum twt_fate {
	TWT_UNSELECTED,
	TWT_PASSED,
	TWT_FAILED,
	TWT_KNOWN,
	TWT_SENSELESS,
	TWT_ABSENT,
	TWT_FATES
};
extern const char twt_marks_of[TWT_FATES + 1];

struct twt_place {
	unsigned lane, memory, driving, which;
};

/* --- what is known of cells before they run --- */

#define TWT_ANY UINT32_MAX

struct twt_known {
	const char *lane;                /* NULL: each */
	unsigned memory, driving, which; /* TWT_ANY: each */
	const char *why;
};

#define TWT_KNOWN_FAULTS 1

extern const struct twt_known twt_faults[TWT_KNOWN_FAULTS];

const char *twt_fault_of(const struct twt_place *at);

const char *twt_nonsense_of(const struct twt_place *at);

/* --- which cells are run --- */

#define TWT_VALUES (TWT_LANES + TWT_MEMORIES + TWT_DRIVINGS + TWT_CASES)

/* Which values have met in what is selected. */
struct twt_cover {
	bool met[TWT_VALUES][TWT_VALUES];
};

struct twt_place twt_place_of(size_t number);

/*
 * Greedy: always a cell in which most pairs meet that have not, from a random one on. All programs
 * of the suite make the same selection, and each runs what is of its own case.
 */
void twt_select_cover(enum twt_case which, uint64_t *random,
		      bool selected[TWT_LANES][TWT_MEMORIES][TWT_DRIVINGS]);

#endif
