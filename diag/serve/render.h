/*
 * render.h - documents out of what is registered (diag/record/registry.h) and what every runtime
 * has (report.h).
 */
#ifndef TWI_RENDER_H
#define TWI_RENDER_H

#include "diag/record/registry.h"

struct twi_emit;

/* Writes the document at `path` into e. TOW_EINVAL: there is none; TOW_ENOMEM. */
int twi_registry_render(struct twi_diag *diag, const char *path, struct twi_emit *e);

/* Each path of a JSON document, with its help, once. */
void twi_registry_documents(struct twi_diag *diag,
			    void (*one)(void *arg, const char *path, const char *help), void *arg);

/* Writes the member "paths": every path once, with its help. */
void twi_registry_paths(struct twi_diag *diag, struct twi_emit *e);

#endif
