/*
 * xspace_read_off.c - without protobuf-c, a build reads no XSpace, and returns the reason.
 */
#include "diag/base/error.h"
#include "tools/trace/formats.h"

int twi_import_xspace(const void *bytes, size_t count, struct twi_trace *out)
{
	(void)bytes, (void)count;
	*out = (struct twi_trace){ 0 };
	return twi_error(TOW_ENOTSUP, "no XSpace: " TWI_XSPACE_OFF);
}
