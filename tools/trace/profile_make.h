/*
 * profile_make.h - what a trace says of how long collectives take, and XLA's formats for that.
 *
 * XLA has two (docs/scheduler-profile.md): a table of collectives by kind, type, size and group,
 * and the costs of a module's instructions by their names. What a format cannot hold is left out,
 * and counted. Statuses are those of <towline/status.h>; tow_error_message says what was wrong.
 */
#ifndef TWI_PROFILE_MAKE_H
#define TWI_PROFILE_MAKE_H

#include <stddef.h>

#include "tools/profile/profile.h"

struct trace_document;

/* Adds what the trace has; TOW_EINVAL: more than a profile holds; TOW_ENOMEM. */
int trace_document_profile(const struct trace_document *document, struct tool_profile *out);

/*
 * `device` is the key of XLA's table, "sm_90". Bytes are malloc's; *left_out counts rows that are
 * not in them. TOW_EINVAL: nothing is left, or two rows are one to XLA; TOW_ENOTSUP without
 * protobuf-c; TOW_ENOMEM.
 */
int profile_xla_table(const struct tool_profile *profile, const char *device, char **bytes_out,
		      size_t *count_out, size_t *left_out);
/* Of names in order, as tool_profile_merge leaves them. */
int profile_xla_costs(const struct tool_profile *profile, char **bytes_out, size_t *count_out,
		      size_t *left_out);

#endif
