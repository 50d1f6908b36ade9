/*
 * render.h - renders documents from registered sources (diag/record/registry.h) and from the
 * reports that every runtime has (report.h).
 */
#ifndef TWI_RENDER_H
#define TWI_RENDER_H

#include "diag/record/registry.h"

struct twi_emit;

/* Writes the document at `path` into e. TOW_EINVAL: there is no such document; TOW_ENOMEM. */
int twi_registry_render(struct twi_diag *diag, const char *path, struct twi_emit *e);

/* Writes the member "paths": every path once, with its help. Captures also have "capture": true. */
void twi_registry_paths(struct twi_diag *diag, struct twi_emit *e);

#endif
