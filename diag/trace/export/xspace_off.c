/* xspace_off.c - a build without protobuf-c writes no XSpace, and says so. */
#include "diag/base/error.h"
#include "diag/trace/export/export.h"

int twi_xspace_ready(void)
{
	return twi_error(TOW_ENOTSUP, TWI_XSPACE_OFF);
}

int twi_export_xspace(const struct twi_trace *trace, char **bytes_out, size_t *count_out)
{
	(void)trace;
	*bytes_out = NULL;
	*count_out = 0;
	return twi_error(TOW_ENOTSUP, "no XSpace: " TWI_XSPACE_OFF);
}
