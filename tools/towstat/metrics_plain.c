/*
 * metrics_plain.c - see metrics_plain.h.
 */
#include "tools/towstat/metrics_plain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- Accept --- */

static int range_is(const char *at, size_t bytes, const char *type)
{
	return bytes == strlen(type) && strncasecmp(at, type, bytes) == 0;
}

/* The quality in thousandths; 1000 when none is given. `range` is a single range of the header. */
static int quality_of(const char *range)
{
	for (const char *at = range; (at = strchr(at, ';')) != NULL;) {
		int quality = 0;

		at++;
		at += strspn(at, " \t");
		if (strncasecmp(at, "q=", 2) != 0)
			continue;
		if (at[2] != '0')
			return 1000;
		at += at[3] == '.' ? 4 : 3;
		for (int unit = 100; unit > 0 && *at >= '0' && *at <= '9'; at++, unit /= 10)
			quality += unit * (*at - '0');
		return quality;
	}
	return 1000;
}

int metrics_plain_wanted(const char *accept)
{
	/* For each format: how closely a range matches (3: by its name), and its quality. */
	struct {
		const char *ranges[3];
		int fit, quality;
	} formats[2] = { { .ranges = { "*/*", "text/*", "text/plain" } },
			 { .ranges = { "*/*", "application/*", "application/openmetrics-text" } } };
	char range[256];

	while (accept != NULL && *accept != '\0') {
		size_t bytes = strcspn(accept, ","), blank = strspn(accept, " \t");

		blank = blank < bytes ? blank : bytes;
		snprintf(range, sizeof(range), "%.*s",
			 (int)(bytes - blank < 250 ? bytes - blank : 250), accept + blank);
		for (int i = 0; i < 6; i++) {
			int fit = i % 3 + 1, quality = quality_of(range);

			if (!range_is(range, strcspn(range, ";, \t"),
				      formats[i / 3].ranges[i % 3]) ||
			    fit < formats[i / 3].fit ||
			    (fit == formats[i / 3].fit && quality <= formats[i / 3].quality))
				continue;
			formats[i / 3].fit = fit;
			formats[i / 3].quality = quality;
		}
		accept += bytes + (accept[bytes] == ',');
	}
	return formats[0].quality > formats[1].quality;
}

/* --- the text --- */

/* The type in the text format, and the suffix of the family's name there. */
static const struct {
	const char *type, *plain, *suffix;
} types[] = {
	{ "counter", "counter", "_total" }, { "info", "gauge", "_info" },
	{ "gauge", "gauge", "" },           { "histogram", "histogram", "" },
	{ "summary", "summary", "" },       { "stateset", "gauge", "" },
};

static void print_type(FILE *file, const char *name, size_t name_bytes, const char *type,
		       size_t type_bytes, const char **suffix)
{
	const char *plain = "untyped";

	*suffix = "";
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (!range_is(type, type_bytes, types[i].type))
			continue;
		plain = types[i].plain;
		*suffix = types[i].suffix;
	}
	fprintf(file, "# TYPE %.*s%s %s\n", (int)name_bytes, name, *suffix, plain);
}

/* OpenMetrics escapes quotes, and the text format does not. */
static void print_help(FILE *file, const char *name, size_t name_bytes, const char *text,
		       const char *end, const char *suffix)
{
	fprintf(file, "# HELP %.*s%s ", (int)name_bytes, name, suffix);
	for (; text < end; text++) {
		if (*text == '\\' && text + 1 < end) {
			if (text[1] != '"')
				fputc('\\', file);
			text++;
		}
		fputc(*text, file);
	}
	fputc('\n', file);
}

static void print_head(FILE *file, const char *line, const char *end, const char **suffix)
{
	const char *name = line + strlen("# TYPE ");
	const char *behind = name;

	while (behind < end && *behind != ' ')
		behind++;
	if (strncmp(line, "# TYPE ", 7) == 0)
		print_type(file, name, (size_t)(behind - name), behind < end ? behind + 1 : end,
			   behind < end ? (size_t)(end - behind - 1) : 0, suffix);
	else
		print_help(file, name, (size_t)(behind - name), behind < end ? behind + 1 : end,
			   end, *suffix);
}

/* Prints a sample without its exemplar. Quoted label values may hold any character. */
static void print_sample(FILE *file, const char *line, const char *end)
{
	const char *at = line;
	int quoted = 0;

	for (; at < end && (quoted || *at != '#'); at++) {
		if (quoted && *at == '\\')
			at++;
		else if (*at == '"')
			quoted = !quoted;
	}
	at = at < end ? at - 1 : end; /* the blank before it */
	fwrite(line, 1, (size_t)(at - line), file);
	fputc('\n', file);
}

char *metrics_plain(const char *text, size_t *bytes_out)
{
	const char *suffix = "";
	char *out = NULL;
	FILE *file = open_memstream(&out, bytes_out);
	int failed;

	if (file == NULL)
		return NULL;
	while (*text != '\0') {
		const char *end = text + strcspn(text, "\n");

		if (strncmp(text, "# TYPE ", 7) == 0 || strncmp(text, "# HELP ", 7) == 0)
			print_head(file, text, end, &suffix);
		else if (*text != '#' && text < end)
			print_sample(file, text, end);
		text = *end == '\n' ? end + 1 : end;
	}
	failed = ferror(file) != 0;
	if (fclose(file) != 0 || failed) {
		free(out);
		return NULL;
	}
	return out;
}
