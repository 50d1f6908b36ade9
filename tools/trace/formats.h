/*
 * formats.h - the formats of traces that a runtime neither reads nor writes.
 *
 *	an XSpace --- twi_import_xspace ---> struct twi_trace ---> perfetto, chrome, a page
 *	                                       ^  twi_trace_merge
 *
 * The functions are pure: bytes or a trace go in, bytes or a trace come out. The trace bounds the
 * size of the output, and the bytes bound that of the input. Output bytes are malloc's. A NUL
 * follows them, which *count_out does not count.
 */
#ifndef TWI_FORMATS_H
#define TWI_FORMATS_H

#include <stddef.h>

#include "diag/trace/trace.h"

/*
 * Reads an XSpace that twi_export_xspace wrote. The bytes are untrusted, and all of them are
 * checked. TOW_OK; TOW_EINVAL with the reason; TOW_ENOMEM; TOW_ENOTSUP without protobuf-c. *out is
 * empty after a failure.
 */
int twi_import_xspace(const void *bytes, size_t count, struct twi_trace *out);

/* Moves the ranks of `from` to `into`. TOW_EINVAL: a rank is in both; TOW_ENOMEM. */
int twi_trace_merge(struct twi_trace *into, struct twi_trace *from);

/* Each returns TOW_OK or TOW_ENOMEM; the first one also TOW_ENOTSUP without protobuf-c. */
int twi_export_perfetto(const struct twi_trace *trace, char **bytes_out, size_t *count_out);
int twi_export_chrome(const struct twi_trace *trace, char **bytes_out, size_t *count_out);

/*
 * Writes one page of HTML (docs/analysis.md). It has no script, loads nothing, and escapes each
 * text of the trace. TOW_OK or TOW_ENOMEM.
 */
int twi_report_html(const struct twi_trace *trace, char **bytes_out, size_t *count_out);

#endif
