/*
 * cell_judge.h - runs cells (cell.h), some beside each other, and judges what came of each: whether
 * its transcript is the one that is written down (conform.h).
 */
#ifndef TWT_CELL_JUDGE_H
#define TWT_CELL_JUDGE_H

#include "cell_cover.h"
#include "cell_run.h"

#include <signal.h>
#include <sys/wait.h>

#define TWT_AT_ONCE 2

struct twt_suite {
	enum twt_case which;
	void (*play[2])(struct twt_end *end); /* [1]: with unreadable memory; NULL: no meaning */
	char *wanted[2];                      /* transcripts */
	unsigned char fates[TWT_LANES][TWT_MEMORIES][TWT_DRIVINGS];
	struct twt_cell_shared *shared[TWT_AT_ONCE];
	struct twt_place places[TWT_AT_ONCE];
	pid_t pids[TWT_AT_ONCE]; /* 0: none */
	uint64_t began_ns[TWT_AT_ONCE];
	unsigned counts[sizeof(twt_marks_of)];
};

/* --- running them --- */

void twt_place_name(const struct twt_place *at, char out[96]);

void twt_start_cell(struct twt_suite *suite, unsigned slot, const struct twt_place *at);

/* Waits for one of those that run, and judges it. False: none runs. */
bool twt_end_one(struct twt_suite *suite);

void twt_run_cell(struct twt_suite *suite, const struct twt_place *at);

#endif
