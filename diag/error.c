/*
 * error.c - the thread's error message, the list of statuses, and the version. See error.h.
 */
#include "diag/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <internal/base.h>
#include <towline/version.h>

#include "diag/words.h"

static __thread char message[TWI_ERROR_BYTES];
__thread int twi_error_status;
__thread bool twi_error_since_poll;

int twi_error(int status, const char *fmt, ...)
{
	char text[TWI_ERROR_BYTES]; /* the old message may be among the arguments */
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	twi_words_clean(message, sizeof(message), text);
	twi_error_status = status;
	twi_error_since_poll = true;
	return status;
}

int twi_error_errno(int status, int err, const char *fmt, ...)
{
	char text[TWI_ERROR_BYTES];
	const char *name = strerrorname_np(err), *what = strerrordesc_np(err);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return twi_error(status, "%.400s: %s (%s)", text, what != NULL ? what : "unknown error",
			 name != NULL ? name : "?");
}

TOW_PUBLIC const char *tow_error_message(void)
{
	return message;
}

TOW_PUBLIC const char *tow_status_name(int status)
{
	switch (status) {
#define STATUS_NAME(name, value, text)                                                             \
	case value:                                                                                \
		return #name;
		TOW_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
	default:
		return "TOW_UNKNOWN";
	}
}

TOW_PUBLIC const char *tow_status_text(int status)
{
	switch (status) {
#define STATUS_TEXT(name, value, text)                                                             \
	case value:                                                                                \
		return text;
		TOW_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
	default:
		return "no status of Towline";
	}
}

TOW_PUBLIC const char *tow_version(void)
{
	return TOW_VERSION;
}
