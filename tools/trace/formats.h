/*
 * formats.h - the formats of traces that a runtime neither reads nor writes.
 *
 *	an XSpace --- twi_import_xspace ---> struct twi_trace ---> perfetto, chrome, a page
 *	                                       ^  twi_trace_merge
 *
 * All of it is pure: bytes or a trace go in, bytes or a trace come out. What is written is bounded
 * by the trace, what is read by the bytes. Bytes are malloc's, with a NUL behind them that
 * *count_out does not count.
 */
#ifndef TWI_FORMATS_H
#define TWI_FORMATS_H

#include <stddef.h>

#include "diag/trace/trace.h"

/*
 * An XSpace that twi_export_xspace wrote; of a stranger's nothing is believed. TOW_OK; TOW_EINVAL
 * says what is wrong with it; TOW_ENOMEM; TOW_ENOTSUP without protobuf-c. *out is empty after a
 * failure.
 */
int twi_import_xspace(const void *bytes, size_t count, struct twi_trace *out);

/* Moves the ranks of `from` to `into`. TOW_EINVAL: a rank is in both; TOW_ENOMEM. */
int twi_trace_merge(struct twi_trace *into, struct twi_trace *from);

/* Each returns TOW_OK or TOW_ENOMEM; the first TOW_ENOTSUP without protobuf-c. */
int twi_export_perfetto(const struct twi_trace *trace, char **bytes_out, size_t *count_out);
int twi_export_chrome(const struct twi_trace *trace, char **bytes_out, size_t *count_out);

/*
 * One page of HTML (docs/analysis.md): no script, nothing loaded from anywhere, and every text of
 * the trace escaped. TOW_OK or TOW_ENOMEM.
 */
int twi_report_html(const struct twi_trace *trace, char **bytes_out, size_t *count_out);

#endif
