/*
 * slack.h - for each collective: how much time the program left it, how much it took from the
 * program, and what bandwidth would have hidden it. A pure function of a trace.
 *
 *	rank's thread  --[start call]----- computes -----[wait]---
 *	                 send                             recv-done
 *	                 |<------------- observed -------------->|
 *	                              slack: between the two, less
 *	                              what the network took of it
 *
 * The definitions are those of XProf's Megascale Stats (docs/analysis.md), said of our spans:
 * `send` is the start call (queue_ns of the COLL span), `recv-done` the last WAIT for it. Waits
 * before that, which a deadline has ended, are stall as well, and no slack.
 *
 *	observed = end of recv-done - start of send
 *	stall    = duration of send + of all waits for it
 *	slack    = start of recv-done - start of send - time within it that this rank's threads
 *	           spent in start calls of collectives or waits for the network, for whatever
 *	           operation
 *	required = bytes on the network * 8 / slack; without slack no bandwidth suffices
 *
 * A collective that nobody waited for has a recv-done of no length at its end: what was left to it
 * is then at least what is said.
 */
#ifndef TWI_SLACK_H
#define TWI_SLACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/trace/trace.h"

struct twi_emit;

#define TWI_SLACK_UNBOUNDED UINT64_MAX /* a required bandwidth without slack */
#define TWI_SLACK_GROUPS    64u        /* in JSON, the dearest; how many were left out is told */
#define TWI_SLACK_WORST     16u

/* One collective at one rank. Texts are the trace's. */
struct twi_slack_row {
	size_t rank; /* index in the trace */
	uint64_t id; /* of the span: group << 32 | sequence */
	const char *name;
	uint32_t ranks; /* of the group */
	uint8_t kind;   /* enum twi_coll_kind, or another number from a stranger */
	bool sized;     /* there is a formula for its bytes */
	bool waited;
	uint64_t bytes;      /* of the result, or of what is given where that is more */
	uint64_t wire_bytes; /* by the formula; 0 without */
	uint64_t start_ns;   /* by the rank's clock */
	uint64_t observed_ns, slack_ns, send_ns, wait_ns;
	uint64_t required_bps; /* bits in a second; TWI_SLACK_UNBOUNDED */
};

struct twi_slack_stat {
	uint64_t p50, p99, max; /* of what was seen: the value at rank ceil(share * count) */
	uint64_t mean;          /* rounded down; TWI_SLACK_UNBOUNDED where a value is */
};

/* All rows of one group of ranks, kind and name. */
struct twi_slack_group {
	uint32_t context; /* of the group of ranks */
	uint8_t kind;
	bool sized;
	const char *name;
	uint32_t ranks;     /* of the group, the largest seen */
	size_t seen_ranks;  /* that have rows here */
	size_t occurrences; /* rows */
	size_t waited;
	uint64_t bytes, wire_bytes; /* mean */
	uint64_t stall_total_ns;
	struct twi_slack_stat slack, stall, observed, send, wait, required;
	uint64_t required_bps; /* of the means, as XProf's table has it */
};

struct twi_slack {
	size_t row_count, group_count;
	struct twi_slack_row *rows;     /* by rank, then start */
	struct twi_slack_group *groups; /* by total stall, the dearest first */
};

/* TOW_OK or TOW_ENOMEM; out is then empty. The trace must outlive it. */
int twi_slack_make(const struct twi_trace *trace, struct twi_slack *out);
void twi_slack_fini(struct twi_slack *slack);

/* Bytes on the network for a result of `bytes`, or for what a rank gives where that is more; false,
 * and 0: there is no formula. */
bool twi_slack_wire_bytes(unsigned kind, uint64_t ranks, uint64_t bytes, uint64_t *out);

/* bytes * 8 / ns in bits per second, rounded down. */
uint64_t twi_slack_required(uint64_t bytes, uint64_t ns);

/* Members of the present object; after a failure the emitter's status says so. */
void twi_slack_emit(const struct twi_slack *slack, const struct twi_trace *trace,
		    struct twi_emit *e);
void twi_slack_json(const struct twi_trace *trace, struct twi_emit *e);

#endif
