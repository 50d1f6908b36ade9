/*
 * export.h - writes a trace as bytes, for captures and for /v1/trace.
 *
 * All of it is pure: a trace goes in, bytes come out, and the trace bounds their size. XSpace keeps
 * everything and needs protobuf-c. Only the tools read it back (tools/trace), to convert it to the
 * formats of other tools.
 */
#ifndef TWI_EXPORT_H
#define TWI_EXPORT_H

#include <stddef.h>

#include <towline/trace.h>

#include "diag/trace/trace.h"

struct tow_trace {
	struct twi_trace trace;
};

/* The bytes are for free(). A NUL follows them, which *count_out does not count. */
int twi_export_xspace(const struct twi_trace *trace, char **bytes_out, size_t *count_out);

/* Writes any format. TOW_ENOTSUP: this build cannot write that format; the message says why. */
int twi_trace_encode(const struct twi_trace *trace, enum tow_trace_format format, char **bytes_out,
		     size_t *count_out);

/* TOW_OK: XSpace can be written. TOW_ENOTSUP: it cannot; the message says why. */
int twi_xspace_ready(void);

#endif
