/*
 * unfinished.h - finds what had been under way for long when the trace's window ended: collectives,
 * waits, and the ranks that had not come. A pure function of the trace.
 *
 * Something is always under way, so only unusual cases are reported. A case has lasted at least
 * TWI_STUCK_NS, or half of the window if that is less. It has also lasted three times as long as
 * any case of its kind that ended at its rank. A wait for a message or a call counts only if its
 * rank has ended nothing since, as a thread may well wait until the job ends.
 */
#ifndef TWI_UNFINISHED_H
#define TWI_UNFINISHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/trace/trace.h"

struct twi_emit;

#define TWI_STUCK_NS    1000000000u
#define TWI_STUCK_LEAST 50000000u /* no window makes it less */
#define TWI_STUCK_TEXT  240

/* One operation that ranks wait for: a collective, or a message or call of one rank. */
struct twi_stuck {
	size_t rank;                 /* the first of those that wait */
	const struct twi_span *span; /* the collective, or the wait, in its unfinished spans */
	uint64_t age_ns;             /* how long that rank has waited */
	size_t waiting;              /* ranks */
	/* Ranks of the trace that have not come. known: the trace has all of its ranks. */
	bool known;
	size_t missing, first_missing;
};

/* Writes up to `room` of them, the longest first, and returns how many. */
size_t twi_unfinished_find(const struct twi_trace *trace, struct twi_stuck *out, size_t room);

/* Writes a sentence without its stop: Rank 0 waits in all-reduce 51 "bucket0" since 12 s */
void twi_unfinished_say(const struct twi_trace *trace, const struct twi_stuck *stuck,
			char out[TWI_STUCK_TEXT]);

/* Writes the array "unfinished": of each rank, the TWI_UNFINISHED_SHOWN that began first. */
#define TWI_UNFINISHED_SHOWN 32u
void twi_unfinished_emit(const struct twi_trace *trace, struct twi_emit *e);

#endif
