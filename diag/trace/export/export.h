/*
 * export.h - a trace as bytes: what the library itself writes, for captures and for /v1/trace.
 *
 * All of it is pure: a trace goes in, bytes come out, bounded by the trace. XSpace keeps everything
 * and needs protobuf-c. It is read back by the tools alone (tools/trace), which make of it what
 * other tools open.
 */
#ifndef TWI_EXPORT_H
#define TWI_EXPORT_H

#include <stddef.h>

#include <towline/trace.h>

#include "diag/trace/trace.h"

struct tow_trace {
	struct twi_trace trace;
};

/* The bytes are malloc's, with a NUL behind them that *count_out does not count. */
int twi_export_xspace(const struct twi_trace *trace, char **bytes_out, size_t *count_out);

/* Whichever format: TOW_ENOTSUP, with the reason, for one that this build cannot write. */
int twi_trace_encode(const struct twi_trace *trace, enum tow_trace_format format, char **bytes_out,
		     size_t *count_out);

/* TOW_OK where XSpace can be written; else TOW_ENOTSUP, and why not. */
int twi_xspace_ready(void);

#endif
