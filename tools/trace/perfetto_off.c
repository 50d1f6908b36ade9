/*
 * perfetto_off.c - without protobuf-c, a build writes nothing for Perfetto, and returns the reason.
 */
#include "diag/base/error.h"
#include "tools/trace/formats.h"

int twi_export_perfetto(const struct twi_trace *trace, char **bytes_out, size_t *count_out)
{
	(void)trace;
	*bytes_out = NULL;
	*count_out = 0;
	return twi_error(TOW_ENOTSUP, "no trace for Perfetto: " TWI_XSPACE_OFF);
}
