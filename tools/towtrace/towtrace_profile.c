/*
 * towtrace_profile.c - makes a table of how long collectives take, for programs that schedule them.
 * The input is captures and profiles as JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towline/status.h>

#include "tools/common/words.h"
#include "tools/profile/profile.h"
#include "tools/towtrace/towtrace.h"
#include "tools/trace/profile_make.h"

/* The reason may have text of a file. */
static int failed_with(const char *what, const char *why)
{
	char clean[512];

	words_clean(clean, sizeof(clean), why);
	fprintf(stderr, "towtrace: %s: %s\n", what, clean);
	return 1;
}

/* JSON begins with a bracket or a brace, and an XSpace with the number of a field. */
static int is_json(const char *bytes, size_t count)
{
	size_t space = 0;

	while (space < count && strchr(" \t\r\n", bytes[space]) != NULL && bytes[space] != '\0')
		space++;
	return space < count && (bytes[space] == '{' || bytes[space] == '[');
}

static int read_trace(const char *path, const void *bytes, size_t count, struct tool_profile *out)
{
	struct trace_document *trace = NULL;
	int status = trace_document_load(bytes, count, &trace);

	if (status == TOW_OK)
		status = trace_document_profile(trace, out);
	trace_document_release(trace);
	return status < 0 ? failed_with(path, tow_error_message()) : 0;
}

/* Adds the rows of a file. */
static int add_file(const char *path, struct tool_profile *all)
{
	struct tool_profile one = { 0 };
	char why[TOOL_PROFILE_WHY];
	size_t count;
	void *bytes = read_file(path, &count);
	int status;

	if (bytes == NULL)
		return 1;
	if (!is_json(bytes, count))
		status = read_trace(path, bytes, count, &one);
	else if ((status = tool_profile_read(bytes, count, &one, why)) != 0)
		status = failed_with(path, why);
	free(bytes);
	if (status == 0 && tool_profile_merge(all, &one, why) != 0)
		status = failed_with(path, why);
	tool_profile_fini(&one);
	return status;
}

/* Keeps the rows of the chosen lane, and sets the type of rows without one. */
static void choose_rows(struct tool_profile_list *list, const struct profile_options *options)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		struct tool_profile_row *row = &list->rows[i];

		if (options->lane != NULL && strcmp(row->lane, options->lane) != 0)
			continue;
		if (options->type != NULL && row->type[0] == '\0')
			snprintf(row->type, sizeof(row->type), "%s", options->type);
		if (kept != i)
			list->rows[kept] = *row;
		kept++;
	}
	list->count = kept;
}

static int encode_profile(const struct tool_profile *profile, const struct profile_options *options,
			  char **bytes_out, size_t *count_out, size_t *left_out)
{
	char why[TOOL_PROFILE_WHY];
	int status;

	*left_out = 0;
	if (options->format == PROFILE_JSON) {
		if (tool_profile_write(profile, "towtrace", bytes_out, why) != 0)
			return failed_with("profile", why);
		*count_out = strlen(*bytes_out);
		return 0;
	}
	if (options->format == PROFILE_XLA_TABLE)
		status =
			profile_xla_table(profile, options->device, bytes_out, count_out, left_out);
	else
		status = profile_xla_costs(profile, bytes_out, count_out, left_out);
	return status < 0 ? failed_with("profile", tow_error_message()) : 0;
}

int profile_format_from_name(const char *name, enum profile_format *out)
{
	static const char *const names[] = { [PROFILE_JSON] = "json",
					     [PROFILE_XLA_TABLE] = "xla-table",
					     [PROFILE_XLA_COSTS] = "xla-costs" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]) == 0) {
			*out = (enum profile_format)i;
			return 0;
		}
	}
	return -1;
}

int profile_type_known(const char *type)
{
	return tool_profile_type_bytes(type) != 0;
}

int write_profile(const struct profile_options *options, const char *const *files, size_t count)
{
	struct tool_profile all = { 0 };
	char *bytes = NULL;
	size_t length, left;
	int status = 0;

	for (size_t i = 0; i < count && status == 0; i++)
		status = add_file(files[i], &all);
	if (status == 0) {
		choose_rows(&all.collectives, options);
		choose_rows(&all.names, options);
		if (all.collectives.count == 0 && all.names.count == 0)
			status = failed_with("profile", "there is no collective in it");
	}
	if (status == 0)
		status = encode_profile(&all, options, &bytes, &length, &left);
	if (status == 0)
		status = write_file(options->output, bytes, length) != 0;
	if (status == 0 && strcmp(options->output, "-") != 0)
		fprintf(stderr,
			"towtrace: %s: %zu bytes, %zu collectives, %zu names, %zu rows left "
			"out\n",
			options->output, length, all.collectives.count, all.names.count, left);
	free(bytes);
	tool_profile_fini(&all);
	return status;
}
