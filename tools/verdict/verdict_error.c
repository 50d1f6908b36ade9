/*
 * verdict_error.c - what the library's texts are made with keeps the message of a failure for
 * tow_error_message. The library that is linked beside it has that; here a status is enough.
 */
#include "diag/base/error.h"

int twi_error(int status, const char *fmt, ...)
{
	(void)fmt;
	return status;
}
