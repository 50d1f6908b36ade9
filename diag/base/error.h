/*
 * error.h - sets a failure's status and the thread's message, where the failure is found.
 *
 * The message says what failed, with which value, and how to mend it. Callers pass the status on
 * unchanged. tow_error_message (status.h) reads the message.
 */
#ifndef TWI_ERROR_H
#define TWI_ERROR_H

#include <stdbool.h>

#include <towline/status.h>

#define TWI_ERROR_BYTES 512

/*
 * The thread's message and its status, and whether both were set since the flag was cleared. The
 * thread that drives clears the flag with each poll, to tell new failures from old ones.
 */
struct twi_error_thread {
	struct twi_error_said *said; /* NULL: no failure yet */
	int status;
	bool since_poll;
};

extern __thread struct twi_error_thread twi_error_thread __attribute__((tls_model("initial-exec")));

/* Restores the message that was there before the first failure since the flag was cleared. */
void twi_error_undo(void);

/*
 * A public call that succeeds leaves the message alone, though an optional part of the call may
 * have failed. Such a call keeps the message first, and settles with its own status at its end.
 */
struct twi_error_kept {
	int status;
	char text[TWI_ERROR_BYTES];
};

void twi_error_keep(struct twi_error_kept *out);
int twi_error_settle(const struct twi_error_kept *kept, int status);

/*
 * Sets the calling thread's message and returns `status`. A message that is too long is cut.
 * Characters that are not printable ASCII are escaped (twi_words_clean), as names and keys in the
 * message may come from strangers.
 */
int twi_error(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same, with ": <text of errno value `err`> (<its name>)" appended. */
int twi_error_errno(int status, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
