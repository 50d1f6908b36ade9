/* error.h - stand-in until the diag layer is merged. */
#ifndef TWI_ERROR_H
#define TWI_ERROR_H

#include <towline/status.h>

int twi_error(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int twi_error_errno(int status, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
