/*
 * slack.h - computes the slack of each collective, what it cost the program, and the bandwidth that
 * would have hidden it. A pure function of a trace.
 *
 *	rank's thread  --[start call]----- computes -----[wait]---
 *	                 send                             recv-done
 *	                 |<------------- observed -------------->|
 *	                              slack: between the two, less
 *	                              what the network took of it
 *
 * The definitions are those of XProf's Megascale Stats (docs/analysis.md), applied to our spans.
 * `send` is the start call (queue_ns of the COLL span). `recv-done` is the last WAIT for the
 * collective. Earlier waits, which a deadline has ended, count as stall and not as slack.
 *
 *	observed = end of recv-done - start of send
 *	stall    = duration of send + of all waits for it
 *	slack    = start of recv-done - start of send - time between them that this rank's
 *	           threads spent in start calls of collectives or in waits for the network, for
 *	           any operation
 *	required = bytes on the network * 8 / slack; without slack no bandwidth suffices
 *
 * If no thread waited for a collective, its recv-done is at its end and takes no time. Its true
 * slack is then at least the one given here.
 */
#ifndef TWI_SLACK_H
#define TWI_SLACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/trace/trace.h"

struct twi_emit;

#define TWI_SLACK_UNBOUNDED UINT64_MAX /* a required bandwidth without slack */
#define TWI_SLACK_GROUPS    64u        /* in JSON, the dearest; the document counts the others */
#define TWI_SLACK_WORST     16u

/* One collective at one rank. Its texts belong to the trace. */
struct twi_slack_row {
	size_t rank; /* index in the trace */
	uint64_t id; /* of the span: group << 32 | sequence */
	const char *name;
	uint32_t ranks; /* of the group */
	uint8_t kind;   /* enum twi_coll_kind; a file from outside may have another number */
	bool sized;     /* there is a formula for its bytes on the network */
	bool waited;
	uint64_t bytes;      /* of the result, or of the rank's input if that is larger */
	uint64_t wire_bytes; /* by the formula; 0 without one */
	uint64_t start_ns;   /* by the rank's clock */
	uint64_t observed_ns, slack_ns, send_ns, wait_ns;
	uint64_t required_bps; /* bits per second, or TWI_SLACK_UNBOUNDED */
};

struct twi_slack_stat {
	uint64_t p50, p99, max; /* the value at rank ceil(share * count) of those seen */
	uint64_t mean;          /* rounded down; TWI_SLACK_UNBOUNDED if any value is */
};

/* All rows of one group of ranks, kind and name. */
struct twi_slack_group {
	uint32_t context; /* of the group of ranks */
	uint8_t kind;
	bool sized;
	const char *name;
	uint32_t ranks;     /* of the group, the largest seen */
	size_t seen_ranks;  /* ranks that have rows here */
	size_t occurrences; /* rows */
	size_t waited;
	uint64_t bytes, wire_bytes; /* mean */
	uint64_t stall_total_ns;
	struct twi_slack_stat slack, stall, observed, send, wait, required;
	uint64_t required_bps; /* from the means, as in XProf's table */
};

struct twi_slack {
	size_t row_count, group_count;
	struct twi_slack_row *rows;     /* by rank, then start */
	struct twi_slack_group *groups; /* by total stall, the dearest first */
};

/* TOW_OK, or TOW_ENOMEM with `out` empty. The trace must outlive `out`. */
int twi_slack_make(const struct twi_trace *trace, struct twi_slack *out);
void twi_slack_fini(struct twi_slack *slack);

/*
 * The bytes on the network, for a result of `bytes` or for a rank's input if that is larger. False,
 * with 0: there is no formula.
 */
bool twi_slack_wire_bytes(unsigned kind, uint64_t ranks, uint64_t bytes, uint64_t *out);

/* Returns bytes * 8 / ns in bits per second, rounded down. */
uint64_t twi_slack_required(uint64_t bytes, uint64_t ns);

/* Write members of the open object. After a failure, the emitter's status has it. */
void twi_slack_emit(const struct twi_slack *slack, const struct twi_trace *trace,
		    struct twi_emit *e);
void twi_slack_json(const struct twi_trace *trace, struct twi_emit *e);

#endif
