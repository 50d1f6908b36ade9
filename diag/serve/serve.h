/*
 * serve.h - opens and closes the servers of a runtime's documents: the stats socket, and TCP.
 */
#ifndef TWI_SERVE_H
#define TWI_SERVE_H

#include "diag/knob/knob.h"

struct twi_diag;
struct twi_socket;

struct twi_serve {
	struct twi_diag *diag;
	struct twi_socket *socket; /* NULL: stats is 0, or the socket could not be opened */
};

/* Opens the servers that the knobs stats and stats_listen ask for: all of them, or none. */
int twi_serve_open(struct twi_diag *diag, const struct twi_knobs *knobs, struct twi_serve *out);

/* All zero is legal. */
void twi_serve_close(struct twi_serve *serve);

#endif
