/* error.c - stand-in until the diag layer is merged. */
#include <towline/status.h>
#include <towline/version.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "diag/error.h"
#include <internal/base.h>

static __thread char text[1024];

TOW_PUBLIC const char *tow_version(void);
TOW_PUBLIC const char *tow_version(void)
{
	return TOW_VERSION;
}

int twi_error(int status, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return status;
}

int twi_error_errno(int status, int err, const char *fmt, ...)
{
	va_list args;
	size_t n;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	n = strlen(text);
	snprintf(text + n, sizeof(text) - n, ": %s (%s)", strerror(err), strerrorname_np(err));
	return status;
}

TOW_PUBLIC const char *tow_error_message(void)
{
	return text;
}

TOW_PUBLIC const char *tow_status_name(int status)
{
	switch (status) {
#define X(name, value, help)                                                                       \
	case name:                                                                                 \
		return #name;
		TOW_STATUS_MAP(X)
#undef X
	}
	return "TOW_UNKNOWN";
}
