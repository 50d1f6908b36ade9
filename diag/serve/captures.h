/*
 * captures.h - the captures that are under way: who waits for them, until when, and what came.
 *
 *	begin     the capture starts; a place is taken, or TOW_EBUSY
 *	wait      from here on the thread of this file has it: at its time it finishes it, or ends
 *	          it without when the client has hung up or all are ended; then it calls
 *	          `wake`, once
 *	take      what came of it
 *	end       the place is free
 *
 * begin, wait, take and end are for one thread, the server's. The thread of this file begins with
 * the first capture; it does the work of finishing too, so that the server goes on serving.
 */
#ifndef TWI_CAPTURES_H
#define TWI_CAPTURES_H

#include <stddef.h>
#include <stdint.h>

#include "diag/record/registry.h"
#include "diag/serve/http.h"

#define TWI_CAPTURES_MAX 4

struct twi_captures;
struct twi_capture_run;

/* wake is called with `who` of the capture, from any thread. TOW_ENOMEM; TOW_ESYSTEM. */
int twi_captures_create(void (*wake)(void *who), struct twi_captures **out);

/* Ends all that wait, and the thread. What comes to wait later is ended and woken at once. */
void twi_captures_stop(struct twi_captures *captures);

/* After stop, when every place is free. NULL is legal. */
void twi_captures_destroy(struct twi_captures *captures);

/*
 * Starts. `fd` is the client's: it is only polled. TOW_EBUSY when TWI_CAPTURES_MAX are under way,
 * TOW_ESYSTEM when there can be no thread, or what the capture's start says.
 */
int twi_captures_begin(struct twi_captures *captures, const struct twi_capture *capture,
		       const struct twi_http_wish *wish, int fd, void *who,
		       struct twi_capture_run **out);

void twi_captures_wait(struct twi_captures *captures, struct twi_capture_run *run);

/* The status of its finish and its bytes, which go to free(); TOW_ECANCELED: it was ended. */
int twi_captures_take(struct twi_capture_run *run, char **bytes_out, size_t *count_out);

/* What its finish has said of a failure. */
const char *twi_captures_why(const struct twi_capture_run *run);

/* The type of what it answers. */
const char *twi_captures_type(const struct twi_capture_run *run);

void twi_captures_end(struct twi_captures *captures, struct twi_capture_run *run);

#endif
