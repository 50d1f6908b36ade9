/*
 * unfinished.h - what of a trace was under way when its window ended and had been for long:
 * collectives, threads that wait, and who has not come. A pure function of the trace.
 *
 * Something is always under way, so only what stands out is told: what lasts for at least
 * TWI_STUCK_NS or half of the window, and three times as long as anything of its kind that has
 * ended there. Of what waits for a message or call only where its rank has ended nothing since: a
 * thread that waits for the job's end is no news.
 */
#ifndef TWI_UNFINISHED_H
#define TWI_UNFINISHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/trace/trace.h"

struct twi_emit;

#define TWI_STUCK_NS    1000000000u
#define TWI_STUCK_LEAST 50000000u /* where half of the window is less */
#define TWI_STUCK_TEXT  240

/* One thing that ranks wait for: a collective, or of one rank a message or a call. */
struct twi_stuck {
	size_t rank;                 /* the first of those that wait */
	const struct twi_span *span; /* of it, what is unfinished: the collective, or the wait */
	uint64_t age_ns;             /* for how long the first of them has waited */
	size_t waiting;              /* ranks */
	/* Ranks of the trace that have not come to the collective; known: it is of all of them. */
	bool known;
	size_t missing, first_missing;
};

/* The longest first, `room` at most. Returns how many are written. */
size_t twi_unfinished_find(const struct twi_trace *trace, struct twi_stuck *out, size_t room);

/* "Rank 0 waits in all-reduce 51 "bucket0" since 12 s", without a stop. */
void twi_unfinished_say(const struct twi_trace *trace, const struct twi_stuck *stuck,
			char out[TWI_STUCK_TEXT]);

/* The array "unfinished": the TWI_UNFINISHED_SHOWN that began first, of each rank. */
#define TWI_UNFINISHED_SHOWN 32u
void twi_unfinished_emit(const struct twi_trace *trace, struct twi_emit *e);

#endif
