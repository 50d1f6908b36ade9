/*
 * verdict_history.h - past verdicts on a job, oldest to newest. Looks that say the same share one
 * row, so a job whose state does not change does not fill the history.
 *
 *	looks   h h h L L L h h S S S ...
 *	rows    |--h--|--L--|-h-|--S--->       from, to, how many; the newest evidence of each
 *
 * It is a pure store of bounded size. The caller serializes access from several threads.
 */
#ifndef TWI_VERDICT_HISTORY_H
#define TWI_VERDICT_HISTORY_H

#include "diag/judge/verdict.h"

#define TWI_HISTORY_ROWS     64u
#define TWI_HISTORY_FINDINGS 3u
#define TWI_HISTORY_NAMED    4u /* culprits kept of a finding; the others are only counted */
#define TWI_HISTORY_TEXT     240u

struct twi_history_finding {
	enum twi_cause cause;
	double confidence; /* of the newest look */
	uint32_t rank_count, link_count;
	uint32_t ranks[TWI_HISTORY_NAMED];
	struct twi_verdict_link links[TWI_HISTORY_NAMED];
	char evidence[TWI_HISTORY_TEXT]; /* of the newest look */
};

struct twi_history_row {
	uint64_t from_ns, to_ns; /* first and last look, by the clock of the rank that looked */
	uint32_t looks;
	bool stuck;
	bool slow;                         /* ranks are blocked for a fifth of their time or more */
	double blocked;                    /* the share of that time at the newest look */
	uint32_t ranks, answered, unknown; /* of the newest look */
	uint32_t finding_count;
	struct twi_history_finding findings[TWI_HISTORY_FINDINGS];
};

/* A zeroed struct is an empty history. */
struct twi_history {
	uint64_t looks;
	uint32_t row_count, newest;
	struct twi_history_row rows[TWI_HISTORY_ROWS]; /* a ring */
};

/* Adds a look at `now_ns`, which never goes back. True: it differs from the look before. */
bool twi_history_add(struct twi_history *history, const struct twi_verdict *verdict,
		     uint64_t now_ns);

/* The surest finding that is news in the newest look: the look before did not name its cause, or
 * one of its culprits. So the job got worse. NULL: there is none. */
const struct twi_history_finding *twi_history_news(const struct twi_history *history);

/* The row that is `back` rows older than the newest; NULL: there is no such row. */
const struct twi_history_row *twi_history_row(const struct twi_history *history, uint32_t back);

/* Members of one JSON object, oldest row first. ahead_ns: UNIX time minus the clock of the rows. */
void twi_history_emit(const struct twi_history *history, uint64_t now_ns, uint64_t ahead_ns,
		      struct twi_emit *emit);

/* Families for /metrics: the number of looks, and, if `fresh`, what the newest look says. */
void twi_history_metrics(const struct twi_history *history, bool fresh, struct twi_emit *emit);

#endif
