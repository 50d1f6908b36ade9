/*
 * towdoctor_finding.c - writes findings, for towdoctor and tow-info.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towline/towline.h>

#include "tools/towdoctor/towdoctor.h"

void say(char *out, size_t size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(out, size, format, args);
	va_end(args);
}

void say_more(char *out, size_t size, const char *format, ...)
{
	size_t used = strlen(out);
	va_list args;

	va_start(args, format);
	vsnprintf(out + used, size - used, format, args);
	va_end(args);
}

const char *severity_name(enum severity severity)
{
	static const char *const names[SEVERITY_COUNT] = { "ok", "note", "warning", "error" };

	return names[severity];
}

void raise_to(struct finding *out, enum severity severity)
{
	if (severity > out->severity)
		out->severity = severity;
}

void not_known(struct finding *out, const char *what)
{
	raise_to(out, SEVERITY_NOTE);
	SAY(out->found, "not known: %s cannot be read here", what);
	SAY(out->effect, "this was not checked");
}

json_t *json_text(const char *value)
{
	json_t *text = json_string(value);

	return text != NULL ? text : json_string("(not UTF-8)");
}

void print_json(json_t *document)
{
	json_dumpf(document, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	putchar('\n');
	json_decref(document);
}

uint64_t job_pool_bytes(void)
{
	const char *text = getenv("TOW_PREMAP_MEMORY_BYTES");
	struct tow_knob_info knob = { .size = sizeof(knob) };
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
	uint64_t bytes;
	char *end;

	for (size_t i = 0; text == NULL && i < tow_knob_count(); i++) {
		if (tow_knob_info(i, &knob) == TOW_OK &&
		    strcmp(knob.name, "premap_memory_bytes") == 0)
			text = knob.def;
	}
	bytes = strtoull(text != NULL ? text : "256MiB", &end, 10);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i]) == 0)
			bytes <<= 10 * (i + 1);
	}
	return bytes;
}
