/*
 * trace_files.h - what captures have written below a folder: DIR/plugins/profile/SESSION/NAME.
 */
#ifndef TWT_TRACE_FILES_H
#define TWT_TRACE_FILES_H

#include "diag/trace/trace.h"

#define TWT_TRACE_FILES 32

struct twt_trace_file {
	char session[64];
	char name[300];
	char path[1024];
};

/* How many there are, whole ones; files that are being written do not count. */
size_t twt_trace_files(const char *dir, struct twt_trace_file out[TWT_TRACE_FILES]);

/* Until there are `count` of them, 60 s at most; how many there are then. */
size_t twt_trace_files_await(const char *dir, size_t count,
			     struct twt_trace_file out[TWT_TRACE_FILES]);

/* Reads one; twi_trace_fini ends it. It must be good. */
void twt_trace_file_read(const struct twt_trace_file *file, struct twi_trace *out);

/* How many spans of that kind there are, of all threads; the first `room` of them are in `out`. */
size_t twt_trace_spans_of(const struct twi_trace *trace, enum twi_span_kind kind,
			  const struct twi_span **out, size_t room);

/* The folder, and all that is in it, is removed. */
void twt_trace_files_remove(const char *dir);

#endif
