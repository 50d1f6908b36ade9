/*
 * replay_groups.h - the owners of a program's memory: by tag, by call site, over time.
 *
 *   twi_replay_groups     what is live at the peak
 *   twi_replay_leaks      what stays, and what grows from step to step
 *   twi_replay_timeline   what is live at each time, for the largest tags
 *
 * All functions expect a program in the order of its log.
 */
#ifndef TWI_REPLAY_GROUPS_H
#define TWI_REPLAY_GROUPS_H

#include "memreg/sizing/replay.h"

#define TWI_REPLAY_REST   UINT64_MAX /* caller of all that is not listed by itself, with tag 0 */
#define TWI_REPLAY_SERIES 8

enum twi_replay_by {
	TWI_REPLAY_BY_TAG,    /* by caller where there is no tag */
	TWI_REPLAY_BY_CALLER, /* for any tag */
	TWI_REPLAY_BY_BOTH,
};

struct twi_replay_group {
	uint64_t caller; /* 0 in a group by tag */
	uint64_t bytes, allocations;
	uint32_t tag; /* 0 in a group by caller */
};

/*
 * Lists what is live at the peak, the largest group first, in *count_out groups. With more than max
 * groups, the last one is the sum of the rest (TWI_REPLAY_REST). TOW_OK; TOW_ENOMEM.
 */
int twi_replay_groups(const struct twi_replay *replay, enum twi_replay_by by,
		      struct twi_replay_group *group, uint32_t max, uint32_t *count_out);

struct twi_replay_leaks {
	/* Largest group that is never freed: in the second half of the log, if there is one. */
	struct twi_replay_group left;
	/* Largest growth of a group's live bytes from the middle step to the last one. */
	struct twi_replay_group grown;
};

/* Groups by tag and caller. A group of 0 bytes means: there is none. TOW_OK; TOW_ENOMEM. */
int twi_replay_leaks(const struct twi_replay *replay, struct twi_replay_leaks *out);

struct twi_replay_timeline {
	struct twi_replay_group
		series[TWI_REPLAY_SERIES]; /* bytes: the peak of the group's live bytes */
	uint32_t count;
	uint32_t bins;
	uint64_t begin_ns, end_ns, peak_ns;
	/* For each bin, at its peak: the live bytes of each series, and then those of all other
	 * groups. */
	uint64_t *bytes;
};

/* Divides the log's time into `bins` equal parts. TOW_OK; TOW_ENOMEM. */
int twi_replay_timeline_init(struct twi_replay_timeline *line, const struct twi_replay *replay,
			     uint32_t bins);
void twi_replay_timeline_fini(struct twi_replay_timeline *line);

static inline const uint64_t *twi_replay_timeline_bin(const struct twi_replay_timeline *line,
						      uint32_t bin)
{
	return line->bytes + (uint64_t)bin * (line->count + 1);
}

#endif
