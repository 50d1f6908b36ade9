/*
 * explain_rows.h - one list of what verdict, copies, late registrations, pool, counters and host
 * checks say of a job, the worst first.
 *
 * Pure: documents go in, rows come out. No document makes a function fail. Costs that are too small
 * to notice have no row; `towstat why` shows all of them.
 */
#ifndef TOWSTAT_EXPLAIN_ROWS_H
#define TOWSTAT_EXPLAIN_ROWS_H

#include <jansson.h>
#include <stddef.h>

/* All members are borrowed. NULL: not known. */
struct explain_input {
	json_t *verdict; /* a result of find_verdict */
	/*
	 * An array with an object for each rank: rank, before, after and why. before and after are
	 * its /v1/counters at the two ends of the window. why, a result of fetch_why, may be
	 * missing.
	 */
	json_t *ranks;
	json_t *checks; /* the checks of towdoctor */
	double seconds; /* length of the window */
};

/*
 * X(tier, severity): the source of a row and how grave it is, in the order of the answer. RUNNING:
 * the cost went on during the window. BEFORE: all of the cost is older.
 */
#define EXPLAIN_TIERS(X)                                                                           \
	X(VERDICT, "error")                                                                        \
	X(HOST_ERROR, "error")                                                                     \
	X(RUNNING, "warning")                                                                      \
	X(HOST_WARNING, "warning")                                                                 \
	X(BEFORE, "note")

/*
 * The rows. Each is an object with from ("verdict", "copies", "registrations", "pool", "counters"
 * or "host"), severity, running, ranks, text, cure, cost_ns and evidence. A verdict's row has
 * `finding` too. The caller owns the array. NULL: no memory.
 */
json_t *explain_rows(const struct explain_input *input);

/* Writes why a pool was too small. Returns 0 when it was large enough. */
int say_pool(const json_t *pool, char *out, size_t size);
/* The n-th kind of registrar that could not register the pool. NULL: there is none. */
json_t *unregistered_of(const json_t *pool, size_t n);

#endif
