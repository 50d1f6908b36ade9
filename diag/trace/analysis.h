/*
 * analysis.h - writes the analyses of a trace, or of this rank's rings now, as documents.
 *
 *	/v1/timeline, /v1/slack    one rank, its last TWI_ANALYSIS_NS
 *	twi_analysis_json          {"timeline": {...}, "slack": {...}} of any trace
 *
 * A ring holds its thread's last TWI_SPAN_ROWS spans. If a ring does not reach back so far, the
 * window begins where the ring does. Else the time before it would look empty.
 */
#ifndef TWI_ANALYSIS_H
#define TWI_ANALYSIS_H

#include <stddef.h>
#include <stdint.h>

#include "diag/trace/trace.h"

struct twi_diag;
struct twi_emit;

#define TWI_ANALYSIS_NS 10000000000u

/* Write members of the open object, as the render of a twi_report does. */
void twi_analysis_timeline(struct twi_diag *diag, struct twi_emit *e);
void twi_analysis_slack(struct twi_diag *diag, struct twi_emit *e);

/*
 * The caller passes the bytes to free(). A NUL that is not counted follows them. TOW_OK or
 * TOW_ENOMEM.
 */
int twi_analysis_json(const struct twi_trace *trace, char **bytes_out, size_t *count_out);

#endif
