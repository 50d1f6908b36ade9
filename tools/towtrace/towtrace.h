/*
 * towtrace.h - the parts of towtrace: files, the capture of many ranks at once, and profiles.
 */
#ifndef TOWTRACE_H
#define TOWTRACE_H

#include <stddef.h>

#include "tools/trace/document.h"

#define SOCKETS_MAX 1024

/* --- files; each prints its failure on stderr --- */

/* Reads a whole file of at most 1 GiB. The caller frees it with free(). NULL: it failed. */
void *read_file(const char *path, size_t *count_out);
/* Writes a file atomically, as save_file does. "-": standard output. Returns 0 or -1. */
int write_file(const char *path, const void *bytes, size_t count);
/* Makes <logdir>/plugins/profile/<run>/<host>.xplane.pb, and its directories. 0 or -1. */
int profile_path(const char *logdir, const char *run, const char *host, char *out, size_t out_size);

/* --- capture --- */

struct capture_options {
	const char *job;                  /* NULL: the only job */
	const char *sockets[SOCKETS_MAX]; /* none: those found on this host */
	size_t socket_count;
	long seconds;
};

/* Captures all ranks as one trace. *missed_out: ranks without an answer. NULL: no rank answered. */
struct trace_document *capture(const struct capture_options *options, size_t *missed_out);

/* --- profile --- */

enum profile_format { PROFILE_JSON, PROFILE_XLA_TABLE, PROFILE_XLA_COSTS };

struct profile_options {
	enum profile_format format;
	const char *lane;   /* NULL: all */
	const char *type;   /* type of rows without one; NULL: none */
	const char *device; /* XLA's name of the device, for its table */
	const char *output;
};

/* Names: "json", "xla-table", "xla-costs". Returns -1 for another name. */
int profile_format_from_name(const char *name, enum profile_format *out);
int profile_type_known(const char *type);
/* Writes the profile of `count` files together. Returns 0, or 1 after a message. */
int write_profile(const struct profile_options *options, const char *const *files, size_t count);

#endif
