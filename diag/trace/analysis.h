/*
 * analysis.h - analyses as documents: of a trace, and of what the rings of this rank hold now.
 *
 *	/v1/timeline, /v1/slack    one rank, its last TWI_ANALYSIS_NS
 *	twi_analysis_json          {"timeline": {...}, "slack": {...}} of any trace
 *
 * A ring holds its thread's last TWI_SPAN_ROWS spans. Where that is less than the window, the
 * window begins where the ring does, so that nothing in it looks emptier than it was.
 */
#ifndef TWI_ANALYSIS_H
#define TWI_ANALYSIS_H

#include <stddef.h>
#include <stdint.h>

#include "diag/trace/trace.h"

struct twi_diag;
struct twi_emit;

#define TWI_ANALYSIS_NS 10000000000u

/* Members of the present object, as of a twi_report. */
void twi_analysis_timeline(struct twi_diag *diag, struct twi_emit *e);
void twi_analysis_slack(struct twi_diag *diag, struct twi_emit *e);

/* Bytes go to free(), with a NUL behind them that is not counted. TOW_OK or TOW_ENOMEM. */
int twi_analysis_json(const struct twi_trace *trace, char **bytes_out, size_t *count_out);

#endif
