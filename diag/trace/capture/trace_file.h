/*
 * trace_file.h - writes a capture to a file where TensorBoard and XProf look for it:
 *
 *	<dir>/plugins/profile/<session>/<host>-<rank>.xplane.pb
 *
 * They show all files of one session together. A file has another name until it is complete, and
 * never replaces an existing one.
 */
#ifndef TWI_TRACE_FILE_H
#define TWI_TRACE_FILE_H

#include <stddef.h>
#include <stdint.h>

#define TWI_TRACE_PATH    700u
#define TWI_TRACE_SESSION 48u

struct twi_trace;

/* Names a session by a second of UTC: `prefix`, then 2026_11_27_09_30_00. */
void twi_trace_session_at(const char *prefix, uint64_t unix_s, char out[TWI_TRACE_SESSION]);

/*
 * Writes the trace of its first rank. `dir` "" is the working directory. *bytes_out: the size.
 * path_out has the file's path in any case. TOW_OK; TOW_EBUSY: the file exists already; TOW_ENOMEM;
 * TOW_ENOTSUP: no protobuf-c; TOW_ESYSTEM.
 */
int twi_trace_file_write(const struct twi_trace *trace, const char *dir, const char *session,
			 char path_out[TWI_TRACE_PATH], size_t *bytes_out);

#endif
