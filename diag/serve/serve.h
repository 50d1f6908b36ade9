/*
 * serve.h - all that serves a runtime's documents: the stats socket, and TCP.
 */
#ifndef TWI_SERVE_H
#define TWI_SERVE_H

#include "diag/knob/knob.h"

struct twi_diag;
struct twi_socket;

struct twi_serve {
	struct twi_diag *diag;
	struct twi_socket *socket; /* NULL: stats is 0, or no default directory is of use */
};

/* Opens what the knobs stats and stats_listen want; all of it, or none. */
int twi_serve_open(struct twi_diag *diag, const struct twi_knobs *knobs, struct twi_serve *out);

/* All zero is legal. */
void twi_serve_close(struct twi_serve *serve);

#endif
