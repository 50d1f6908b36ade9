/*
 * replay_groups.h - who has what of a program's memory: by tag, by calling place, over time.
 *
 *   twi_replay_groups     what is live at the peak
 *   twi_replay_leaks      what stays, and what grows from step to step
 *   twi_replay_timeline   what is live at each time, of the largest tags
 *
 * All of it is for programs in the order of their log.
 */
#ifndef TWI_REPLAY_GROUPS_H
#define TWI_REPLAY_GROUPS_H

#include "memreg/sizing/replay.h"

#define TWI_REPLAY_REST   UINT64_MAX /* the caller of what is not listed by itself; its tag is 0 */
#define TWI_REPLAY_SERIES 8

enum twi_replay_by {
	TWI_REPLAY_BY_TAG,    /* and by caller what has no tag */
	TWI_REPLAY_BY_CALLER, /* whatever its tag is */
	TWI_REPLAY_BY_BOTH,
};

struct twi_replay_group {
	uint64_t caller; /* 0 where it is by tag */
	uint64_t bytes, allocations;
	uint32_t tag; /* 0 where it is by caller */
};

/*
 * What is live at the peak, the largest first. Up to max - 1 groups, and in the last one what is
 * left (TWI_REPLAY_REST). *count_out says how many. TOW_OK; TOW_ENOMEM.
 */
int twi_replay_groups(const struct twi_replay *replay, enum twi_replay_by by,
		      struct twi_replay_group *group, uint32_t max, uint32_t *count_out);

struct twi_replay_leaks {
	/* The most of what is never freed: of the second half of the log, where there is such. */
	struct twi_replay_group left;
	/* What was live more at the last step than at the middle one: the most of it. */
	struct twi_replay_group grown;
};

/* By both; a group without bytes: there is none. TOW_OK; TOW_ENOMEM. */
int twi_replay_leaks(const struct twi_replay *replay, struct twi_replay_leaks *out);

struct twi_replay_timeline {
	struct twi_replay_group
		series[TWI_REPLAY_SERIES]; /* bytes: the most that is live at once */
	uint32_t count;
	uint32_t bins;
	uint64_t begin_ns, end_ns, peak_ns;
	/* Of each bin, where the most is live in it: what each series has then, and behind these
	 * what all others have. */
	uint64_t *bytes;
};

/* `bins` equal parts of the log's time. TOW_OK; TOW_ENOMEM. */
int twi_replay_timeline_init(struct twi_replay_timeline *line, const struct twi_replay *replay,
			     uint32_t bins);
void twi_replay_timeline_fini(struct twi_replay_timeline *line);

static inline const uint64_t *twi_replay_timeline_bin(const struct twi_replay_timeline *line,
						      uint32_t bin)
{
	return line->bytes + (uint64_t)bin * (line->count + 1);
}

#endif
