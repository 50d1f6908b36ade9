/*
 * export.h - a trace as bytes, in the formats of other tools, and back from one.
 *
 * All of it is pure: a trace goes in, bytes come out. What is written is bounded by the trace, what
 * is read by the bytes. XSpace alone keeps everything and is read back; it needs protobuf-c.
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
int twi_export_perfetto(const struct twi_trace *trace, char **bytes_out, size_t *count_out);
int twi_export_chrome(const struct twi_trace *trace, char **bytes_out, size_t *count_out);

/* Whichever format: TOW_ENOTSUP, with the reason, for one that this build cannot write. */
int twi_trace_encode(const struct twi_trace *trace, enum tow_trace_format format, char **bytes_out,
		     size_t *count_out);

/* The MIME type of a format, for the stats socket. */
const char *twi_trace_mime(enum tow_trace_format format);

/*
 * An XSpace that twi_export_xspace wrote; of a stranger's nothing is believed. TOW_OK; TOW_EINVAL
 * says what is wrong with it; TOW_ENOMEM; TOW_ENOTSUP without protobuf-c. *out is empty after a
 * failure.
 */
int twi_import_xspace(const void *bytes, size_t count, struct twi_trace *out);

/* NULL where XSpace can be written; else why this build cannot. */
const char *twi_xspace_off(void);

#endif
