/* xspace_off.c - a build without protobuf-c neither writes nor reads XSpace, and says so. */
#include "diag/base/error.h"
#include "diag/trace/export/export.h"

const char *twi_xspace_off(void)
{
	return TWI_XSPACE_OFF;
}

int twi_export_xspace(const struct twi_trace *trace, char **bytes_out, size_t *count_out)
{
	(void)trace;
	*bytes_out = NULL;
	*count_out = 0;
	return twi_error(TOW_ENOTSUP, "no XSpace: " TWI_XSPACE_OFF);
}

int twi_import_xspace(const void *bytes, size_t count, struct twi_trace *out)
{
	(void)bytes, (void)count;
	*out = (struct twi_trace){ 0 };
	return twi_error(TOW_ENOTSUP, "no XSpace: " TWI_XSPACE_OFF);
}
