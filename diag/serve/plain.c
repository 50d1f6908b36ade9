/*
 * plain.c - see plain.h.
 */
#include "diag/serve/plain.h"

#include <stddef.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/ascii.h"
#include "diag/base/emit.h"

/* --- Accept --- */

/* How much the client wants a type: q in thousandths, from the range that matches best. */
struct wish {
	const char *type, *any; /* "text/plain", "text/" */
	unsigned fit, q;        /* fit: 0 none, 1 all types, 2 its kind, 3 the type itself */
};

/* "0.5" gives 500; text that is not such a number gives 1000. */
static unsigned read_q(const char *at)
{
	unsigned q = *at == '0' ? 0 : 1000, unit = 100;

	if (q > 0 || at[1] != '.')
		return q;
	for (at += 2; *at >= '0' && *at <= '9' && unit > 0; at++, unit /= 10)
		q += (unsigned)(*at - '0') * unit;
	return q;
}

/* The q of the range that ends at `end`; 1000 if it has none. */
static unsigned range_q(const char *at, const char *end)
{
	while (at < end && (at = memchr(at, ';', (size_t)(end - at))) != NULL) {
		at++;
		at += strspn(at, " \t");
		if ((at[0] == 'q' || at[0] == 'Q') && at[1] == '=')
			return read_q(at + 2);
	}
	return 1000;
}

static void take_range(struct wish *wish, const char *at, const char *end)
{
	size_t bytes = strcspn(at, ";, \t");
	unsigned fit = 0, q;

	if (bytes == strlen(wish->type) && twi_ascii_begins(at, wish->type, bytes))
		fit = 3;
	else if (bytes == strlen(wish->any) + 1 && at[bytes - 1] == '*' &&
		 twi_ascii_begins(at, wish->any, bytes - 1))
		fit = 2;
	else if (bytes == 3 && memcmp(at, "*/*", 3) == 0)
		fit = 1;
	if (fit == 0 || fit < wish->fit)
		return;
	q = range_q(at, end);
	wish->q = fit > wish->fit ? q : twi_max(wish->q, q);
	wish->fit = fit;
}

bool twi_plain_wanted(const char *accept)
{
	struct wish plain = { .type = "text/plain", .any = "text/" };
	struct wish open = { .type = "application/openmetrics-text", .any = "application/" };

	while (accept != NULL && *accept != '\0') {
		const char *end;

		accept += strspn(accept, " \t");
		end = accept + strcspn(accept, ",");
		take_range(&plain, accept, end);
		take_range(&open, accept, end);
		accept = *end == ',' ? end + 1 : end;
	}
	return plain.q > open.q;
}

/* --- the text --- */

/* The end of the word at `at`. */
static const char *word_end(const char *at, const char *end)
{
	while (at < end && *at != ' ')
		at++;
	return at;
}

/* Skips the name and its labels; quoted values may have any character. */
static const char *skip_series(const char *at, const char *end)
{
	bool quoted = false;

	for (; at < end && (quoted || *at != ' '); at++) {
		if (quoted && *at == '\\')
			at++;
		else if (*at == '"')
			quoted = !quoted;
	}
	return twi_min(at, end);
}

static void put_sample(struct twi_emit *e, const char *at, const char *end)
{
	const char *value = skip_series(at, end);
	const char *about = value < end ? memmem(value, (size_t)(end - value), " # ", 3) : NULL;

	twi_emit_put(e, at, (size_t)((about != NULL ? about : end) - at));
	twi_emit_puts(e, "\n");
}

/* OpenMetrics escapes quotes in help texts; the older format does not. */
static void put_help(struct twi_emit *e, const char *at, const char *end)
{
	for (; at < end; at++) {
		bool escape = *at == '\\' && at + 1 < end;

		if (!escape || at[1] != '"')
			twi_emit_put(e, at, 1);
		if (escape)
			twi_emit_put(e, ++at, 1);
	}
}

static bool is_kind(const char *at, const char *end, const char *kind)
{
	return (size_t)(end - at) == strlen(kind) && memcmp(at, kind, strlen(kind)) == 0;
}

/* Writes a TYPE or HELP line. *suffix follows the name of the current family. */
static void put_head(struct twi_emit *e, const char *at, const char *end, const char **suffix)
{
	const char *name = at + strlen("# TYPE "), *behind = word_end(name, end);
	bool type = memcmp(at, "# TYPE ", strlen("# TYPE ")) == 0;
	bool info = false;

	if (type) {
		info = is_kind(behind, end, " info");
		*suffix = info ? "_info" : is_kind(behind, end, " counter") ? "_total" : "";
	}
	twi_emit_put(e, at, (size_t)(behind - at));
	twi_emit_puts(e, *suffix);
	if (info)
		twi_emit_puts(e, " gauge");
	else if (type)
		twi_emit_put(e, behind, (size_t)(end - behind));
	else
		put_help(e, behind, end);
	twi_emit_puts(e, "\n");
}

void twi_plain_emit(struct twi_emit *e, const char *text)
{
	const char *suffix = "";

	while (*text != '\0') {
		const char *end = text + strcspn(text, "\n");

		if (strncmp(text, "# TYPE ", 7) == 0 || strncmp(text, "# HELP ", 7) == 0)
			put_head(e, text, end, &suffix);
		else if (*text != '#')
			put_sample(e, text, end);
		text = *end == '\n' ? end + 1 : end;
	}
}
