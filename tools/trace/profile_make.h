/*
 * profile_make.h - makes a profile of collectives from a trace, and writes XLA's formats for it.
 *
 * XLA has two formats (docs/scheduler-profile.md). One is a table of collectives by kind, type,
 * size and group. The other is the costs of a module's instructions by name. A row that a format
 * cannot hold is left out and counted. Statuses are those of <towline/status.h>; tow_error_message
 * has the reason.
 */
#ifndef TWI_PROFILE_MAKE_H
#define TWI_PROFILE_MAKE_H

#include <stddef.h>

#include "tools/profile/profile.h"

struct trace_document;

/* Adds the collectives of the trace. TOW_EINVAL: more than a profile holds; TOW_ENOMEM. */
int trace_document_profile(const struct trace_document *document, struct tool_profile *out);

/*
 * Writes XLA's table. `device` is its key, such as "sm_90". The caller frees *bytes_out with
 * free(). *left_out: number of rows that are not in the table. TOW_EINVAL: no row is left, or XLA
 * cannot tell two rows apart; TOW_ENOTSUP: a build without protobuf-c; TOW_ENOMEM.
 */
int profile_xla_table(const struct tool_profile *profile, const char *device, char **bytes_out,
		      size_t *count_out, size_t *left_out);
/* Writes XLA's costs. The names must be sorted, as tool_profile_merge leaves them. */
int profile_xla_costs(const struct tool_profile *profile, char **bytes_out, size_t *count_out,
		      size_t *left_out);

#endif
