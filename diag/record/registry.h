/*
 * registry.h - the sources of documents by path, the captures, and the gauges.
 *
 *	/v1/pool      --- source of the pool
 *	/v1/info      --- built in (report.c) --- source of the runtime --- ...   one object
 *	/metrics      --- built in, with all gauges
 *	/v1/alloclog  --- a capture: bytes that are recorded for some time
 *
 * The functions of a source run in the threads that ask (the stats thread, tow_stats_get), perhaps
 * in several at once. They run with the registry's lock held for reading, and do not call the
 * registry. They take their own locks, which the asking thread may hold already. So once
 * twi_registry_remove has returned, a source does not run and will not run again.
 */
#ifndef TWI_REGISTRY_H
#define TWI_REGISTRY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct twi_diag;
struct twi_emit;
struct twi_registry;

/* The most that one runtime can have of each. */
#define TWI_REGISTRY_SOURCES  64
#define TWI_REGISTRY_GAUGES   128
#define TWI_REGISTRY_CAPTURES 8

#define TWI_METRICS_PATH "/metrics"

struct twi_source {
	/* "/v1/...", or "/metrics" for whole families. Strings live as long as the source. */
	const char *path;
	const char *help;
	/* Writes members of one JSON object; for "/metrics", whole families. */
	void (*snapshot)(void *arg, struct twi_emit *e);
	void *arg;
};

/* A value that can fall. Its metric is towline_<name>, plus _<unit> unless the name ends in it. */
struct twi_gauge {
	const char *name;
	const char *unit; /* "bytes", "ns", or "count", which is not in the metric */
	const char *help;
	uint64_t (*value)(void *arg);
	void *arg;
};

/* One format of a capture's bytes. */
struct twi_capture_format {
	const char *name, *content_type;
};

/*
 * A recording that takes some time and is answered as bytes of a type of its own. It is not
 * rendered: the stats socket starts it, serves other clients meanwhile, and finishes it. All that
 * is done in threads of the socket.
 */
struct twi_capture {
	const char *path; /* as of a source */
	const char *help;
	const char *content_type;
	uint32_t seconds_max;
	/*
	 * Begins one. seconds -1: no duration was asked for. *wait_ns_out: time until it is to be
	 * finished; 0: at once. Several may be under way. TOW_OK; or an error, and no finish.
	 */
	int (*start)(void *arg, int64_t seconds, void **session_out, uint64_t *wait_ns_out);
	/*
	 * Ends one, whatever it returns; called once for each that has started. *bytes_out goes to
	 * free(). bytes_out NULL: the client has gone, or the socket closes.
	 */
	int (*finish)(void *arg, void *session, char **bytes_out, size_t *count_out);
	void *arg;
	/*
	 * The values of the parameter `format`, ended by a row without a name. The first is the
	 * default, and its type is content_type. NULL: there is no such parameter.
	 */
	const struct twi_capture_format *formats;
	/* Hint for a client that asks for another format: the program that makes it; or NULL. */
	const char *formats_elsewhere;
	/* Sets the format by its index, once after start. TOW_OK; or an error, then finish. */
	int (*choose)(void *arg, void *session, unsigned format);
};

/* The registry of one runtime, in diag->registry; render.c reads it with the lock held. */
struct twi_registry {
	pthread_rwlock_t lock; /* shared: a source may wait for a rendering thread */
	unsigned source_count, gauge_count, capture_count;
	struct twi_source sources[TWI_REGISTRY_SOURCES];
	struct twi_gauge gauges[TWI_REGISTRY_GAUGES];
	struct twi_capture captures[TWI_REGISTRY_CAPTURES];
};

int twi_registry_create(struct twi_registry **out);
void twi_registry_destroy(struct twi_registry *registry); /* NULL is legal */

/* TOW_EINVAL: the path is bad. TOW_EBUSY: there are too many. */
int twi_registry_add(struct twi_diag *diag, const struct twi_source *source);
int twi_registry_gauge(struct twi_diag *diag, const struct twi_gauge *gauge);
int twi_registry_capture(struct twi_diag *diag, const struct twi_capture *capture);

/* Remove the source with that path and arg; the gauge likewise. If there is none, do nothing. */
void twi_registry_remove(struct twi_diag *diag, const char *path, void *arg);
void twi_registry_gauge_remove(struct twi_diag *diag, const char *name, void *arg);

/* Only after the stats socket was closed: its running captures use what it found here. */
void twi_registry_capture_remove(struct twi_diag *diag, const char *path, void *arg);

/* The capture at `path`; false: there is none. */
bool twi_registry_capture_find(struct twi_diag *diag, const char *path, struct twi_capture *out);

#endif
