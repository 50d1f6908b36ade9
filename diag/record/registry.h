/*
 * registry.h - who can tell what: the sources of the documents, by path, and the gauges.
 *
 *	/v1/pool      --- source of the pool
 *	/v1/info      --- built in (report.c) --- source of the runtime --- ...   one object
 *	/metrics      --- built in, with all gauges
 *	/v1/alloclog  --- a capture: bytes that take time to come about
 *
 * A source's functions run in whichever threads ask (the stats thread, tow_stats_get), perhaps in
 * several at once, with the registry's lock held for reading; they take their own locks, which who
 * asks may hold already, and do not call the registry. So once twi_registry_remove has returned, a
 * source does not run and will not run again.
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

/* Of each, the most that one runtime can have. */
#define TWI_REGISTRY_SOURCES  64
#define TWI_REGISTRY_GAUGES   128
#define TWI_REGISTRY_CAPTURES 8

#define TWI_METRICS_PATH "/metrics"

struct twi_source {
	/* "/v1/...", or "/metrics": families of its own. Strings live as long as the source. */
	const char *path;
	const char *help;
	/* Writes members of one JSON object; at "/metrics" whole families. */
	void (*snapshot)(void *arg, struct twi_emit *e);
	void *arg;
};

/* A value that can fall. Its metric is towline_<name>, with _<unit> behind unless it is there. */
struct twi_gauge {
	const char *name;
	const char *unit; /* "bytes", "ns", or "count", which is not written */
	const char *help;
	uint64_t (*value)(void *arg);
	void *arg;
};

/* One way to write what a capture answers. */
struct twi_capture_format {
	const char *name, *content_type;
};

/*
 * What is recorded for some time and answered as bytes of a type of its own. It is not rendered:
 * the stats socket starts it, serves others meanwhile, and finishes it, in threads of the socket.
 */
struct twi_capture {
	const char *path; /* as of a source */
	const char *help;
	const char *content_type;
	uint32_t seconds_max;
	/*
	 * Begins one. seconds -1: none were asked for. *wait_ns_out: when it is to be finished; 0:
	 * at once. Several may be under way. TOW_OK, or why not; then it is not finished.
	 */
	int (*start)(void *arg, int64_t seconds, void **session_out, uint64_t *wait_ns_out);
	/*
	 * Ends it, whatever it returns, once for each that has started. *bytes_out goes to free().
	 * bytes_out NULL: who asked has gone, or the socket closes.
	 */
	int (*finish)(void *arg, void *session, char **bytes_out, size_t *count_out);
	void *arg;
	/*
	 * The values of the parameter `format`, ended by one without a name; the first is the
	 * default, whose type is content_type. NULL: there is no such parameter.
	 */
	const struct twi_capture_format *formats;
	/* What makes those that are none of them, for who asks for one; NULL: nothing does. */
	const char *formats_elsewhere;
	/* Says which, by its place, once after start. TOW_OK, or why not; then it is finished. */
	int (*choose)(void *arg, void *session, unsigned format);
};

/* Of one runtime, in diag->registry; render.c reads it with the lock. */
struct twi_registry {
	pthread_rwlock_t lock; /* read while rendering: a source may wait for one that renders */
	unsigned source_count, gauge_count, capture_count;
	struct twi_source sources[TWI_REGISTRY_SOURCES];
	struct twi_gauge gauges[TWI_REGISTRY_GAUGES];
	struct twi_capture captures[TWI_REGISTRY_CAPTURES];
};

int twi_registry_create(struct twi_registry **out);
void twi_registry_destroy(struct twi_registry *registry); /* NULL is legal */

/* TOW_EINVAL for a bad path, TOW_EBUSY when there are too many. */
int twi_registry_add(struct twi_diag *diag, const struct twi_source *source);
int twi_registry_gauge(struct twi_diag *diag, const struct twi_gauge *gauge);
int twi_registry_capture(struct twi_diag *diag, const struct twi_capture *capture);

/* The source with that path and arg; likewise the gauge. Nothing happens when there is none. */
void twi_registry_remove(struct twi_diag *diag, const char *path, void *arg);
void twi_registry_gauge_remove(struct twi_diag *diag, const char *name, void *arg);

/* Only when the stats socket is closed: it keeps what it has found here while captures run. */
void twi_registry_capture_remove(struct twi_diag *diag, const char *path, void *arg);

/* The capture at `path`; false: there is none. */
bool twi_registry_capture_find(struct twi_diag *diag, const char *path, struct twi_capture *out);

#endif
