/*
 * registry.c - the tables of sources, gauges and captures, under one lock. See registry.h.
 */
#include "diag/record/registry.h"

#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"

#define PATH_MAX_BYTES 128

int twi_registry_create(struct twi_registry **out)
{
	struct twi_registry *registry = calloc(1, sizeof(*registry));

	*out = registry;
	if (registry == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the list of statistics");
	pthread_rwlock_init(&registry->lock, NULL);
	return TOW_OK;
}

void twi_registry_destroy(struct twi_registry *registry)
{
	if (registry == NULL)
		return;
	pthread_rwlock_destroy(&registry->lock);
	free(registry);
}

static bool good_path(const char *path)
{
	return path != NULL && strncmp(path, "/v1/", 4) == 0 && path[4] != '\0' &&
	       strlen(path) < PATH_MAX_BYTES;
}

int twi_registry_add(struct twi_diag *diag, const struct twi_source *source)
{
	struct twi_registry *registry = twi_diag_registry(diag);
	int status = TOW_OK;

	if ((!good_path(source->path) &&
	     (source->path == NULL || strcmp(source->path, TWI_METRICS_PATH) != 0)) ||
	    source->snapshot == NULL)
		return twi_error(TOW_EINVAL, "a source of statistics needs a path below /v1/");
	pthread_rwlock_wrlock(&registry->lock);
	if (registry->source_count == TWI_REGISTRY_SOURCES)
		status = twi_error(TOW_EBUSY, "more than %d sources of statistics",
				   TWI_REGISTRY_SOURCES);
	else
		registry->sources[registry->source_count++] = *source;
	pthread_rwlock_unlock(&registry->lock);
	return status;
}

void twi_registry_remove(struct twi_diag *diag, const char *path, void *arg)
{
	struct twi_registry *registry = twi_diag_registry(diag);
	unsigned kept = 0;

	pthread_rwlock_wrlock(&registry->lock);
	for (unsigned i = 0; i < registry->source_count; i++) {
		const struct twi_source *source = &registry->sources[i];

		if (source->arg != arg || strcmp(source->path, path) != 0)
			registry->sources[kept++] = *source;
	}
	registry->source_count = kept;
	pthread_rwlock_unlock(&registry->lock);
}

int twi_registry_gauge(struct twi_diag *diag, const struct twi_gauge *gauge)
{
	struct twi_registry *registry = twi_diag_registry(diag);
	int status = TOW_OK;

	if (gauge->name == NULL || gauge->value == NULL || strlen(gauge->name) > 64)
		return twi_error(TOW_EINVAL, "a gauge needs a name and a value");
	pthread_rwlock_wrlock(&registry->lock);
	if (registry->gauge_count == TWI_REGISTRY_GAUGES)
		status = twi_error(TOW_EBUSY, "more than %d gauges", TWI_REGISTRY_GAUGES);
	else
		registry->gauges[registry->gauge_count++] = *gauge;
	pthread_rwlock_unlock(&registry->lock);
	return status;
}

void twi_registry_gauge_remove(struct twi_diag *diag, const char *name, void *arg)
{
	struct twi_registry *registry = twi_diag_registry(diag);
	unsigned kept = 0;

	pthread_rwlock_wrlock(&registry->lock);
	for (unsigned i = 0; i < registry->gauge_count; i++) {
		const struct twi_gauge *gauge = &registry->gauges[i];

		if (gauge->arg != arg || strcmp(gauge->name, name) != 0)
			registry->gauges[kept++] = *gauge;
	}
	registry->gauge_count = kept;
	pthread_rwlock_unlock(&registry->lock);
}

int twi_registry_capture(struct twi_diag *diag, const struct twi_capture *capture)
{
	struct twi_registry *registry = twi_diag_registry(diag);
	int status = TOW_OK;

	if (!good_path(capture->path) || capture->start == NULL || capture->finish == NULL)
		return twi_error(TOW_EINVAL, "a source of captures needs a path below /v1/ and "
					     "its functions");
	pthread_rwlock_wrlock(&registry->lock);
	if (registry->capture_count == TWI_REGISTRY_CAPTURES)
		status = twi_error(TOW_EBUSY, "more than %d captures", TWI_REGISTRY_CAPTURES);
	else
		registry->captures[registry->capture_count++] = *capture;
	pthread_rwlock_unlock(&registry->lock);
	return status;
}

void twi_registry_capture_remove(struct twi_diag *diag, const char *path, void *arg)
{
	struct twi_registry *registry = twi_diag_registry(diag);
	unsigned kept = 0;

	pthread_rwlock_wrlock(&registry->lock);
	for (unsigned i = 0; i < registry->capture_count; i++) {
		const struct twi_capture *capture = &registry->captures[i];

		if (capture->arg != arg || strcmp(capture->path, path) != 0)
			registry->captures[kept++] = *capture;
	}
	registry->capture_count = kept;
	pthread_rwlock_unlock(&registry->lock);
}

bool twi_registry_capture_find(struct twi_diag *diag, const char *path, struct twi_capture *out)
{
	struct twi_registry *registry = twi_diag_registry(diag);
	bool found = false;

	pthread_rwlock_rdlock(&registry->lock);
	for (unsigned i = 0; i < registry->capture_count && !found; i++) {
		found = strcmp(registry->captures[i].path, path) == 0;
		if (found)
			*out = registry->captures[i];
	}
	pthread_rwlock_unlock(&registry->lock);
	return found;
}
