/*
 * registry.h - who can tell what: the sources of the documents, by path, and the gauges.
 *
 *	/v1/pool  --- source of the pool
 *	/v1/info  --- built in (report.c) --- source of the runtime --- ...   one object, all
 *members /metrics  --- built in, with all gauges
 *
 * A source's functions run in whichever threads ask (the stats thread, tow_stats_get), perhaps in
 * several at once, with the registry's lock held for reading; they take their own locks, which who
 * asks may hold already, and do not call the registry. So once twi_registry_remove has returned, a
 * source does not run and will not run again.
 */
#ifndef TWI_REGISTRY_H
#define TWI_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

struct twi_diag;
struct twi_emit;
struct twi_registry;

/* Of each, the most that one runtime can have. */
#define TWI_REGISTRY_SOURCES 64
#define TWI_REGISTRY_GAUGES  128

struct twi_source {
	const char *path; /* "/v1/..."; strings must live as long as the source */
	const char *help;
	void (*snapshot)(void *arg, struct twi_emit *e); /* writes members of one JSON object */
	void *arg;
};

/* A value that can fall. Its metric is towline_<name>, with _<unit> behind it unless it is there.
 */
struct twi_gauge {
	const char *name;
	const char *unit; /* "bytes", "ns", or "count", which is not written */
	const char *help;
	uint64_t (*value)(void *arg);
	void *arg;
};

int twi_registry_create(struct twi_registry **out);
void twi_registry_destroy(struct twi_registry *registry); /* NULL is legal */

/* TOW_EINVAL for a bad path, TOW_EBUSY when there are too many. */
int twi_registry_add(struct twi_diag *diag, const struct twi_source *source);
int twi_registry_gauge(struct twi_diag *diag, const struct twi_gauge *gauge);

/* The source with that path and arg; likewise the gauge. Nothing happens when there is none. */
void twi_registry_remove(struct twi_diag *diag, const char *path, void *arg);
void twi_registry_gauge_remove(struct twi_diag *diag, const char *name, void *arg);

/* Writes the document at `path` into e. TOW_EINVAL: there is none; TOW_ENOMEM. */
int twi_registry_render(struct twi_diag *diag, const char *path, struct twi_emit *e);

/* Writes the member "paths": every path once, with its help. */
void twi_registry_paths(struct twi_diag *diag, struct twi_emit *e);

#endif
