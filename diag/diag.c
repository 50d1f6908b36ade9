/* diag.c - stand-in until the diag layer is merged. */
#include "diag/diag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/emit.h"
#include "diag/error.h"

int twi_diag_create(struct twi_diag **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? TOW_OK : twi_error(TOW_ENOMEM, "diag: out of memory");
}

void twi_diag_destroy(struct twi_diag *diag)
{
	free(diag);
}

uint64_t twi_counter_sum(struct twi_diag *diag, enum twi_counter counter)
{
	return atomic_load(&diag->counter[counter]);
}

void twi_late_record(struct twi_diag *diag, enum twi_reason reason, uint64_t bytes, uint64_t ns)
{
	(void)ns;
	atomic_fetch_add(&diag->late[reason], bytes);
}

void twi_log(struct twi_diag *diag, int level, const char *fmt, ...)
{
	(void)diag;
	(void)level;
	(void)fmt;
}

int twi_registry_add(struct twi_diag *diag, const struct twi_source *source)
{
	diag->source[diag->sources++] = *source;
	return TOW_OK;
}

void twi_registry_remove(struct twi_diag *diag, const char *path)
{
	(void)path;
	diag->sources = diag->gauges = 0;
}

int twi_registry_gauge(struct twi_diag *diag, const struct twi_gauge *gauge)
{
	diag->gauge[diag->gauges++] = *gauge;
	return TOW_OK;
}

int twi_registry_render(struct twi_diag *diag, const char *path, struct twi_emit *e)
{
	if (diag->sources == 0)
		return twi_error(TOW_EINVAL, "%s: unknown path", path);
	twi_emit_object_begin(e, NULL);
	diag->source[0].snapshot(diag->source[0].arg, e);
	twi_emit_object_end(e);
	return e->status;
}

static void put(struct twi_emit *e, const char *key, const char *value)
{
	size_t need = e->bytes + strlen(value) + (key ? strlen(key) : 0) + 8;

	if (need > e->room) {
		e->text = realloc(e->text, need * 2);
		e->room = need * 2;
	}
	if (e->comma)
		e->bytes += (size_t)sprintf(e->text + e->bytes, ",");
	if (key)
		e->bytes += (size_t)sprintf(e->text + e->bytes, "\"%s\":", key);
	e->bytes += (size_t)sprintf(e->text + e->bytes, "%s", value);
	e->comma = true;
}

void twi_emit_object_begin(struct twi_emit *e, const char *key)
{
	put(e, key, "{");
	e->comma = false;
}

void twi_emit_object_end(struct twi_emit *e)
{
	e->comma = false;
	put(e, NULL, "}");
}

void twi_emit_array_begin(struct twi_emit *e, const char *key)
{
	put(e, key, "[");
	e->comma = false;
}

void twi_emit_array_end(struct twi_emit *e)
{
	e->comma = false;
	put(e, NULL, "]");
}

void twi_emit_u64(struct twi_emit *e, const char *key, uint64_t value)
{
	char number[32];

	snprintf(number, sizeof(number), "%llu", (unsigned long long)value);
	put(e, key, number);
}

void twi_emit_bool(struct twi_emit *e, const char *key, bool value)
{
	put(e, key, value ? "true" : "false");
}

void twi_emit_str(struct twi_emit *e, const char *key, const char *value)
{
	char *quoted = malloc(strlen(value) + 3);

	sprintf(quoted, "\"%s\"", value);
	put(e, key, quoted);
	free(quoted);
}
