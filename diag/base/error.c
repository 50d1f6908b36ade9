/*
 * error.c - the thread's error message, the list of statuses, and the version. See error.h.
 */
#include "diag/base/error.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>
#include <towline/version.h>

#include "diag/base/words.h"

/*
 * Lives from the thread's first failure to its end. Static TLS is scarce for libraries that are
 * loaded by dlopen, as all of them share what the loader has kept free. So no text is there.
 */
struct twi_error_said {
	char text[TWI_ERROR_BYTES];
	char before[TWI_ERROR_BYTES]; /* the one before since_poll was set */
	int status_before;
};

__thread struct twi_error_thread twi_error_thread __attribute__((tls_model("initial-exec")));

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end;
static bool has_end; /* the key exists */

static void free_said(void *memory)
{
	twi_error_thread.said = NULL;
	free(memory);
}

static void init_once(void)
{
	has_end = pthread_key_create(&thread_end, free_said) == 0;
}

/* NULL: there is no memory or no key to free it by. The message is then the status' own text. */
static struct twi_error_said *message_room(void)
{
	struct twi_error_said *said = twi_error_thread.said;

	if (twi_likely(said != NULL))
		return said;
	pthread_once(&once, init_once);
	said = has_end ? calloc(1, sizeof(*said)) : NULL;
	if (said != NULL && pthread_setspecific(thread_end, said) != 0) {
		free(said);
		said = NULL;
	}
	twi_error_thread.said = said;
	return said;
}

static void set_message(int status, const char text[TWI_ERROR_BYTES])
{
	struct twi_error_said *said = message_room();

	if (said != NULL && !twi_error_thread.since_poll) {
		memcpy(said->before, said->text, TWI_ERROR_BYTES);
		said->status_before = twi_error_thread.status;
	}
	if (said != NULL)
		memcpy(said->text, text, TWI_ERROR_BYTES);
	twi_error_thread.status = status;
	twi_error_thread.since_poll = true;
}

void twi_error_undo(void)
{
	struct twi_error_said *said = twi_error_thread.said;

	twi_error_thread.status = said != NULL ? said->status_before : 0;
	if (said != NULL)
		memcpy(said->text, said->before, TWI_ERROR_BYTES);
	twi_error_thread.since_poll = false;
}

void twi_error_keep(struct twi_error_kept *out)
{
	out->status = twi_error_thread.status;
	snprintf(out->text, sizeof(out->text), "%s", tow_error_message());
}

int twi_error_settle(const struct twi_error_kept *kept, int status)
{
	if (status < 0)
		return status;
	twi_error_thread.status = kept->status;
	if (twi_error_thread.said != NULL)
		memcpy(twi_error_thread.said->text, kept->text, TWI_ERROR_BYTES);
	return status;
}

int twi_error(int status, const char *fmt, ...)
{
	char text[TWI_ERROR_BYTES]; /* the old message may be among the arguments */
	char clean[TWI_ERROR_BYTES];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	twi_words_clean(clean, sizeof(clean), text);
	set_message(status, clean);
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
	if (twi_error_thread.said != NULL)
		return twi_error_thread.said->text;
	return twi_error_thread.status < 0 ? tow_status_text(twi_error_thread.status) : "";
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
