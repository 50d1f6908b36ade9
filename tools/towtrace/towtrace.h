/*
 * towtrace.h - the parts of towtrace: files, and the capture of many ranks at once.
 */
#ifndef TOWTRACE_H
#define TOWTRACE_H

#include <stddef.h>

#include "tools/trace/document.h"

#define SOCKETS_MAX 1024

/* --- files; each says on stderr what went wrong --- */

/* All of a file, at most 1 GiB; NULL after a failure. To be given to free(). */
void *read_file(const char *path, size_t *count_out);
/* Whole or not at all: written beside its place, then renamed. "-": standard output. 0 or -1. */
int write_file(const char *path, const void *bytes, size_t count);
/* <logdir>/plugins/profile/<run>/<host>.xplane.pb, with the folders made. 0 or -1. */
int profile_path(const char *logdir, const char *run, const char *host, char *out, size_t out_size);

/* --- capture --- */

struct capture_options {
	const char *job;                  /* NULL: of the only one that there is */
	const char *sockets[SOCKETS_MAX]; /* none: those found on this host */
	size_t socket_count;
	long seconds;
};

/* All ranks in one trace; *missed_out counts those that did not answer. NULL: none did. */
struct trace_document *capture(const struct capture_options *options, size_t *missed_out);

/* --- profile --- */

enum profile_format { PROFILE_JSON, PROFILE_XLA_TABLE, PROFILE_XLA_COSTS };

struct profile_options {
	enum profile_format format;
	const char *lane;   /* NULL: all */
	const char *type;   /* of rows without one; NULL: they have none */
	const char *device; /* as XLA calls it, for its table */
	const char *output;
};

/* "json", "xla-table", "xla-costs"; -1 for another name. */
int profile_format_from_name(const char *name, enum profile_format *out);
int profile_type_known(const char *type);
/* What `count` files say together. 0, or 1 after having said why. */
int write_profile(const struct profile_options *options, const char *const *files, size_t count);

#endif
