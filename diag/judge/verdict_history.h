/*
 * verdict_history.h - what the verdicts on a job have been, one after the other: looks that say the
 * same become one row, so that a job that goes on as it does fills none.
 *
 *	looks   h h h L L L h h S S S ...
 *	rows    |--h--|--L--|-h-|--S--->       from, to, how many; the newest evidence of each
 *
 * A pure store of bounded size: who has it keeps threads away from each other.
 */
#ifndef TWI_VERDICT_HISTORY_H
#define TWI_VERDICT_HISTORY_H

#include "diag/judge/verdict.h"

#define TWI_HISTORY_ROWS     64u
#define TWI_HISTORY_FINDINGS 3u
#define TWI_HISTORY_NAMED    4u /* culprits of a finding that are kept; the others are counted */
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
	uint64_t from_ns, to_ns; /* the first look and the last, by the clock of who looked */
	uint32_t looks;
	bool stuck;
	bool slow;      /* ranks are blocked for a fifth of their time, and more */
	double blocked; /* for how much of it, by the newest look */
	uint32_t ranks, answered, unknown; /* of the newest look */
	uint32_t finding_count;
	struct twi_history_finding findings[TWI_HISTORY_FINDINGS];
};

/* All zero is an empty one. */
struct twi_history {
	uint64_t looks;
	uint32_t row_count, newest;
	struct twi_history_row rows[TWI_HISTORY_ROWS]; /* a ring */
};

/* A look at `now_ns`, which never goes back. True: it says something else than the one before. */
bool twi_history_add(struct twi_history *history, const struct twi_verdict *verdict,
		     uint64_t now_ns);

/* Of the newest look the surest finding whose cause, or one of whose culprits, the look before did
 * not name: the job got worse. NULL: there is none. */
const struct twi_history_finding *twi_history_news(const struct twi_history *history);

/* The row that is `back` rows older than the newest; NULL: there is none. */
const struct twi_history_row *twi_history_row(const struct twi_history *history, uint32_t back);

/* Members of one JSON object, oldest row first. ahead_ns: what the calendar has on this clock. */
void twi_history_emit(const struct twi_history *history, uint64_t now_ns, uint64_t ahead_ns,
		      struct twi_emit *emit);

/* Families for /metrics: how many looks there were, and, while fresh, what the newest says. */
void twi_history_metrics(const struct twi_history *history, bool fresh, struct twi_emit *emit);

#endif
