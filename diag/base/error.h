/*
 * error.h - a failure is born in one place: with its status, and a message of the thread.
 *
 * The message says what failed, with which value, and what mends it; the status is forwarded
 * unchanged. tow_error_message (status.h) reads the message.
 */
#ifndef TWI_ERROR_H
#define TWI_ERROR_H

#include <stdbool.h>

#include <towline/status.h>

#define TWI_ERROR_BYTES 512

/*
 * The thread's message and its status, and whether they were set since the flag was cleared:
 * whoever drives clears it with each poll, to tell what has just happened from what happened once.
 */
struct twi_error_thread {
	struct twi_error_said *said; /* NULL: nothing yet */
	int status;
	bool since_poll;
};

extern __thread struct twi_error_thread twi_error_thread __attribute__((tls_model("initial-exec")));

/* The message is again what it was before the first failure since the flag was cleared. */
void twi_error_undo(void);

/*
 * A public call that succeeds leaves the message alone, though something within it may have failed
 * that it could do without: it keeps what was said before, and settles with its status.
 */
struct twi_error_kept {
	int status;
	char text[TWI_ERROR_BYTES];
};

void twi_error_keep(struct twi_error_kept *out);
int twi_error_settle(const struct twi_error_kept *kept, int status);

/*
 * Sets the calling thread's message and returns `status`. A longer message is cut, and what is not
 * printable ASCII is escaped (twi_words_clean): names and keys in it may come from strangers.
 */
int twi_error(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same, with ": <what errno value `err` means> (<name>)" behind it. */
int twi_error_errno(int status, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
