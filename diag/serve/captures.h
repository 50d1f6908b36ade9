/*
 * captures.h - runs the captures of the stats socket: their clients, their times, their results.
 *
 *	begin     starts the capture and takes a slot, or returns TOW_EBUSY
 *	wait      hands it to the thread of this file, which finishes it at its time. The thread
 *	          ends it without a result when the client has hung up or all captures end. Then
 *	          the thread calls `wake`, once
 *	take      gives the result
 *	end       frees the slot
 *
 * Only the server's thread calls begin, wait, take and end. The thread of this file starts with the
 * first capture. It also does the work of finishing, so that the server can go on serving.
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

/* wake is called with the `who` of the capture, from any thread. TOW_ENOMEM; TOW_ESYSTEM. */
int twi_captures_create(void (*wake)(void *who), struct twi_captures **out);

/* Ends all waiting captures, and the thread. Captures that come to wait later end at once. */
void twi_captures_stop(struct twi_captures *captures);

/* After stop, when every slot is free. NULL is legal. */
void twi_captures_destroy(struct twi_captures *captures);

/*
 * Starts a capture. `fd` is the client's and is only polled. TOW_EBUSY: TWI_CAPTURES_MAX are under
 * way. TOW_ESYSTEM: a thread cannot start. TOW_ECLOSED: after stop. Else the status of the
 * capture's own start.
 */
int twi_captures_begin(struct twi_captures *captures, const struct twi_capture *capture,
		       const struct twi_http_wish *wish, int fd, void *who,
		       struct twi_capture_run **out);

void twi_captures_wait(struct twi_captures *captures, struct twi_capture_run *run);

/* The status of its finish, and its bytes for free(). TOW_ECANCELED: it was ended without. */
int twi_captures_take(struct twi_capture_run *run, char **bytes_out, size_t *count_out);

/* The message of a finish that has failed. */
const char *twi_captures_why(const struct twi_capture_run *run);

/* The content type of its bytes. */
const char *twi_captures_type(const struct twi_capture_run *run);

void twi_captures_end(struct twi_captures *captures, struct twi_capture_run *run);

#endif
