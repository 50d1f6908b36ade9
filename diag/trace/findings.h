/*
 * findings.h - says in sentences what a trace shows: how much, why, and what a user can change. A
 * pure function of the analyses. The dearest comes first; costs below 1 % of the time are left out.
 */
#ifndef TWI_FINDINGS_H
#define TWI_FINDINGS_H

#include <stddef.h>
#include <stdint.h>

#include "diag/trace/slack.h"
#include "diag/trace/timeline.h"

#define TWI_FINDINGS_MAX   16
#define TWI_FINDING_BYTES  256
#define TWI_FINDINGS_SHARE 100 /* one part in so many of the trace's time */

struct twi_finding {
	/* "exposed", "link", "straggler", "last", "others", "pair", "receiver", "copies",
	 * "registrations", "unfinished", "failed", "lost", "clocks" */
	const char *kind;
	uint64_t cost_ns; /* of one rank's time; 0: no cost, but other findings depend on it */
	char what[TWI_FINDING_BYTES], cause[TWI_FINDING_BYTES], cure[TWI_FINDING_BYTES];
};

struct twi_findings {
	size_t count;
	struct twi_finding rows[TWI_FINDINGS_MAX];
};

void twi_findings_make(const struct twi_trace *trace, const struct twi_timeline *timeline,
		       const struct twi_slack *slack, struct twi_findings *out);

/* Writes the array "findings". */
void twi_findings_emit(const struct twi_findings *findings, struct twi_emit *e);

/* Writes `all-reduce "gradients"`, or only the kind where there is no name. */
void twi_findings_collective(const struct twi_slack_group *group, char *out, size_t bytes);

/* Writes "0 -> 3", with an arrow in UTF-8. An unknown rank has the name of its peer instead. */
void twi_findings_pair(const struct twi_timeline_pair *pair, char *out, size_t bytes);

/* Writes what twi_words_ns does, but with a micro sign in UTF-8. */
void twi_findings_ns(uint64_t ns, char *out, size_t bytes);

#define TWI_RATE_BYTES 32
/* Writes a rate such as "9.8 Gb/s". */
void twi_findings_rate(uint64_t bps, char out[TWI_RATE_BYTES]);

#endif
