/*
 * trace_file.h - the file of a capture, where TensorBoard and XProf look for it:
 *
 *	<dir>/plugins/profile/<session>/<host>-<rank>.xplane.pb
 *
 * All files of one session are shown together. A file appears whole, under another name until it
 * is, and never takes the place of one that is there.
 */
#ifndef TWI_TRACE_FILE_H
#define TWI_TRACE_FILE_H

#include <stddef.h>
#include <stdint.h>

#define TWI_TRACE_PATH    700u
#define TWI_TRACE_SESSION 48u

struct twi_trace;

/* A session named by a second of UTC: `prefix` and 2026_11_27_09_30_00. */
void twi_trace_session_at(const char *prefix, uint64_t unix_s, char out[TWI_TRACE_SESSION]);

/*
 * Writes the trace of its first rank; `dir` "" is the working directory. *bytes_out: how many.
 * TOW_OK; TOW_EBUSY: there is such a file already; TOW_ENOMEM; TOW_ENOTSUP without protobuf-c;
 * TOW_ESYSTEM. path_out is the file's in any case.
 */
int twi_trace_file_write(const struct twi_trace *trace, const char *dir, const char *session,
			 char path_out[TWI_TRACE_PATH], size_t *bytes_out);

#endif
