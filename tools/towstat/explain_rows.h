/*
 * explain_rows.h - what verdict, copies, late registrations, pool, counters and the host's checks
 * say of one job, as one list, the worst first.
 *
 * Pure: documents go in, rows come out. Whatever a document holds, nothing here fails. What has
 * cost too little to be noticed has no row: `towstat why` has all of it.
 */
#ifndef TOWSTAT_EXPLAIN_ROWS_H
#define TOWSTAT_EXPLAIN_ROWS_H

#include <jansson.h>
#include <stddef.h>

/* All are borrowed; NULL: not known. */
struct explain_input {
	json_t *verdict; /* as find_verdict returns it */
	/*
	 * An array with an object for each rank: rank, before and after (its /v1/counters at both
	 * ends of the window), why (as fetch_why returns it), which may be missing.
	 */
	json_t *ranks;
	json_t *checks; /* towdoctor's */
	double seconds; /* of the window */
};

/*
 * X(order, name): where a row comes from and how grave it is; the order is that of the answer.
 * `running`: it went on during the window.
 */
#define EXPLAIN_TIERS(X)                                                                           \
	X(VERDICT, "error")                                                                        \
	X(HOST_ERROR, "error")                                                                     \
	X(RUNNING, "warning")                                                                      \
	X(HOST_WARNING, "warning")                                                                 \
	X(BEFORE, "note")

/*
 * The rows, each an object: from ("verdict", "copies", "registrations", "pool", "counters" or
 * "host"), severity, running, ranks, text, cure, cost_ns, evidence; of a verdict `finding` as well.
 * The caller's; NULL: no memory.
 */
json_t *explain_rows(const struct explain_input *input);

/* Whether a pool was too small, in words; 0: it was large enough. */
int say_pool(const json_t *pool, char *out, size_t size);
/* The n-th of those who could not be told of the pool: what went without; NULL: there is none. */
json_t *unregistered_of(const json_t *pool, size_t n);

#endif
