/*
 * findings.h - what a trace says in sentences: how much, why, and what a user can change. A pure
 * function of its analyses; the dearest first, and none for what is below 1 % of the time.
 */
#ifndef TWI_FINDINGS_H
#define TWI_FINDINGS_H

#include <stddef.h>
#include <stdint.h>

#include "diag/trace/slack.h"
#include "diag/trace/timeline.h"

#define TWI_FINDINGS_MAX   16
#define TWI_FINDING_BYTES  256
#define TWI_FINDINGS_SHARE 100 /* of the time of the trace, 1 in so many */

struct twi_finding {
	/* "exposed", "link", "straggler", "last", "others", "pair", "receiver", "copies",
	 * "registrations", "unfinished", "failed", "lost", "clocks", "steps" */
	const char *kind;
	uint64_t cost_ns; /* of one rank's time; 0: it costs none, but what is said depends on it */
	char what[TWI_FINDING_BYTES], cause[TWI_FINDING_BYTES], cure[TWI_FINDING_BYTES];
};

struct twi_findings {
	size_t count;
	struct twi_finding rows[TWI_FINDINGS_MAX];
};

void twi_findings_make(const struct twi_trace *trace, const struct twi_timeline *timeline,
		       const struct twi_slack *slack, struct twi_findings *out);

/* The array "findings". */
void twi_findings_emit(const struct twi_findings *findings, struct twi_emit *e);

/* "all-reduce \"gradients\"", or without a name. */
void twi_findings_collective(const struct twi_slack_group *group, char *out, size_t bytes);

/* "0 -> 3"; a rank that is not known by the name of its peer. */
void twi_findings_pair(const struct twi_timeline_pair *pair, char *out, size_t bytes);

/* As twi_words_ns, with a micro sign: for what is read in UTF-8. */
void twi_findings_ns(uint64_t ns, char *out, size_t bytes);

#define TWI_RATE_BYTES 32
/* "9.8 Gb/s". */
void twi_findings_rate(uint64_t bps, char out[TWI_RATE_BYTES]);

#endif
