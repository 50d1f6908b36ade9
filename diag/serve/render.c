/*
 * render.c - see render.h. It holds the registry's lock for reading while it renders.
 */
#include "diag/serve/render.h"

#include <stdio.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/serve/report.h"

#define METRIC_NAME_MAX 128

/* A capture is marked, as it takes time, and its answer may not be JSON. */
static void emit_path(struct twi_emit *e, const char *path, const char *help, bool capture)
{
	twi_emit_object_begin(e, NULL);
	twi_emit_str(e, "path", path);
	twi_emit_str(e, "help", help);
	if (capture)
		twi_emit_bool(e, "capture", true);
	twi_emit_object_end(e);
}

static bool listed_before(const struct twi_registry *registry, unsigned index)
{
	const char *path = registry->sources[index].path;

	for (size_t i = 0; i < twi_report_count(); i++) {
		if (strcmp(twi_report_at(i)->path, path) == 0)
			return true;
	}
	for (unsigned i = 0; i < index; i++) {
		if (strcmp(registry->sources[i].path, path) == 0)
			return true;
	}
	return false;
}

static void emit_paths(const struct twi_registry *registry, struct twi_emit *e)
{
	twi_emit_array_begin(e, "paths");
	emit_path(e, TWI_METRICS_PATH, "OpenMetrics: all counters, gauges and latencies", false);
	for (size_t i = 0; i < twi_report_count(); i++)
		emit_path(e, twi_report_at(i)->path, twi_report_at(i)->help, false);
	for (unsigned i = 0; i < registry->source_count; i++) {
		if (!listed_before(registry, i) &&
		    strcmp(registry->sources[i].path, TWI_METRICS_PATH) != 0)
			emit_path(e, registry->sources[i].path, registry->sources[i].help, false);
	}
	for (unsigned i = 0; i < registry->capture_count; i++)
		emit_path(e, registry->captures[i].path, registry->captures[i].help, true);
	twi_emit_array_end(e);
}

void twi_registry_paths(struct twi_diag *diag, struct twi_emit *e)
{
	struct twi_registry *registry = twi_diag_registry(diag);

	pthread_rwlock_rdlock(&registry->lock);
	emit_paths(registry, e);
	pthread_rwlock_unlock(&registry->lock);
}

/* The name ends with the unit. A gauge in ns is written in seconds, Prometheus' unit. */
static void render_gauge(const struct twi_gauge *gauge, struct twi_emit *e)
{
	size_t bytes = strlen(gauge->name), unit_bytes = strlen(gauge->unit);
	bool of_time = strcmp(gauge->unit, "ns") == 0, counts = strcmp(gauge->unit, "count") == 0;
	bool named = !counts && bytes > unit_bytes && gauge->name[bytes - unit_bytes - 1] == '_' &&
		     strcmp(gauge->name + bytes - unit_bytes, gauge->unit) == 0;
	const char *unit = of_time ? "seconds" : gauge->unit;
	char name[METRIC_NAME_MAX];

	if (named)
		bytes -= unit_bytes + 1;
	snprintf(name, sizeof(name), "towline_%.*s%s%s", (int)bytes, gauge->name, counts ? "" : "_",
		 counts ? "" : unit);
	twi_emit_metric_head(e, name, "gauge", unit, gauge->help);
	if (of_time)
		twi_emit_sample_seconds(e, name, NULL, gauge->value(gauge->arg));
	else
		twi_emit_sample_u64(e, name, NULL, gauge->value(gauge->arg));
}

/* Two pools may register one gauge. The format allows a name once, so only the first is written. */
static void render_gauges(const struct twi_registry *registry, struct twi_emit *e)
{
	for (unsigned i = 0; i < registry->gauge_count; i++) {
		bool before = false;

		for (unsigned j = 0; j < i && !before; j++)
			before = strcmp(registry->gauges[i].name, registry->gauges[j].name) == 0;
		if (!before)
			render_gauge(&registry->gauges[i], e);
	}
}

/* Writes all members of the object at `path`, in the order in which sources were registered. */
static bool render_object(struct twi_diag *diag, const struct twi_registry *registry,
			  const char *path, struct twi_emit *e)
{
	bool found =
		strcmp(path, "/") == 0 || strcmp(path, "/v1") == 0 || strcmp(path, "/v1/") == 0;

	twi_emit_object_begin(e, NULL);
	if (found)
		emit_paths(registry, e);
	for (size_t i = 0; i < twi_report_count() && !found; i++) {
		if (strcmp(twi_report_at(i)->path, path) == 0) {
			twi_report_at(i)->render(diag, e);
			found = true;
		}
	}
	for (unsigned i = 0; i < registry->source_count; i++) {
		const struct twi_source *source = &registry->sources[i];

		if (strcmp(source->path, path) == 0) {
			source->snapshot(source->arg, e);
			found = true;
		}
	}
	twi_emit_object_end(e);
	twi_emit_raw(e, "\n");
	return found;
}

int twi_registry_render(struct twi_diag *diag, const char *path, struct twi_emit *e)
{
	struct twi_registry *registry = twi_diag_registry(diag);
	bool found = true;

	twi_emit_fini(e); /* earlier text is not part of this document */
	pthread_rwlock_rdlock(&registry->lock);
	if (strcmp(path, TWI_METRICS_PATH) == 0) {
		twi_report_metrics(diag, e);
		render_gauges(registry, e);
		for (unsigned i = 0; i < registry->source_count; i++) {
			const struct twi_source *source = &registry->sources[i];

			if (strcmp(source->path, TWI_METRICS_PATH) == 0)
				source->snapshot(source->arg, e);
		}
		twi_emit_raw(e, "# EOF\n");
	} else {
		found = render_object(diag, registry, path, e);
	}
	pthread_rwlock_unlock(&registry->lock);
	if (!found) {
		twi_emit_fini(e);
		return twi_error(TOW_EINVAL, "no document at '%.100s'; '/v1' lists them", path);
	}
	if (e->status < 0)
		return twi_error(e->status, "no memory for the document at '%.100s'", path);
	return TOW_OK;
}
