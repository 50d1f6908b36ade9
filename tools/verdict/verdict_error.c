/*
 * verdict_error.c - twi_error without a message, for the library's code that a tool compiles
 * itself. The linked library has the texts for tow_error_message. Here a status is enough.
 */
#include "diag/base/error.h"

int twi_error(int status, const char *fmt, ...)
{
	(void)fmt;
	return status;
}
