/*
 * profile_xla_off.c - without protobuf-c, a build writes no profile for XLA, and returns the
 * reason.
 */
#include "diag/base/error.h"
#include "tools/trace/profile_make.h"

static int refuse_xla(char **bytes_out, size_t *count_out, size_t *left_out)
{
	*bytes_out = NULL;
	*count_out = *left_out = 0;
	return twi_error(TOW_ENOTSUP, "no profile for XLA: " TWI_XSPACE_OFF);
}

int profile_xla_table(const struct tool_profile *profile, const char *device, char **bytes_out,
		      size_t *count_out, size_t *left_out)
{
	(void)profile, (void)device;
	return refuse_xla(bytes_out, count_out, left_out);
}

int profile_xla_costs(const struct tool_profile *profile, char **bytes_out, size_t *count_out,
		      size_t *left_out)
{
	(void)profile;
	return refuse_xla(bytes_out, count_out, left_out);
}
