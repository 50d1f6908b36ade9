/*
 * profile_json.c - reads and writes a profile as JSON; docs/scheduler-profile.md has the members.
 *
 * A reader ignores members that it does not know, so that later versions can add some. A change
 * that an older reader would misread gets a new version number.
 */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towline/version.h>

#include "tools/profile/profile.h"

#define DIGITS     9
#define US_MOST    1e15 /* thirty years */
#define BYTES_MOST ((json_int_t)1 << 53)

/* The row that is being read, for the message about it. */
struct place {
	const char *list;
	size_t index;
	char *why;
};

__attribute__((format(printf, 2, 3))) static int complain_at(const struct place *place,
							     const char *format, ...)
{
	char text[TOOL_PROFILE_WHY / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(place->why, TOOL_PROFILE_WHY, "\"%s\" row %zu: %s", place->list, place->index,
		 text);
	return -1;
}

/* --- writing --- */

static json_t *times_json(const struct tool_profile_times *times)
{
	return json_pack("{s:f, s:f, s:f}", "mean", times->mean_us, "median", times->median_us,
			 "p90", times->p90_us);
}

static json_t *text_or_null(const char *text)
{
	return text[0] != '\0' ? json_string(text) : json_null();
}

static json_t *row_json(const struct tool_profile_row *row)
{
	json_t *json = json_pack(
		"{s:s, s:o, s:I, s:i, s:o, s:o, s:I, s:o, s:o}", "kind", row->kind, "type",
		text_or_null(row->type), "bytes", (json_int_t)row->bytes, "ranks", (int)row->ranks,
		"hosts", row->hosts != 0 ? json_integer(row->hosts) : json_null(), "lane",
		text_or_null(row->lane), "count", (json_int_t)row->count, "latency_us",
		times_json(&row->latency), "moving_us", times_json(&row->moving));

	if (json != NULL && row->ring)
		json_object_set_new(json, "pairs", json_string("ring"));
	if (json != NULL && row->name[0] != '\0')
		json_object_set_new(json, "name", json_string(row->name));
	return json;
}

static json_t *list_json(const struct tool_profile_list *list)
{
	json_t *array = json_array();

	for (size_t i = 0; i < list->count && array != NULL; i++) {
		if (json_array_append_new(array, row_json(&list->rows[i])) == 0)
			continue;
		json_decref(array);
		array = NULL;
	}
	return array;
}

int tool_profile_write(const struct tool_profile *profile, const char *source, char **text_out,
		       char *why)
{
	json_t *root = json_pack("{s:s, s:i, s:s, s:s, s:o, s:o}", "schema", TOOL_PROFILE_SCHEMA,
				 "version", TOOL_PROFILE_VERSION, "towline", TOW_VERSION, "source",
				 source, "collectives", list_json(&profile->collectives), "names",
				 list_json(&profile->names));

	*text_out = root == NULL ? NULL
				 : json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS));
	json_decref(root);
	if (*text_out != NULL)
		return 0;
	snprintf(why, TOOL_PROFILE_WHY, "no memory, or a name that is no UTF-8");
	return -1;
}

/* --- reading --- */

static int read_text(const struct place *place, const json_t *row, const char *key, char *out,
		     size_t room)
{
	const json_t *value = json_object_get(row, key);
	const char *text = json_string_value(value);

	out[0] = '\0';
	if (value == NULL || json_is_null(value))
		return 0;
	if (text == NULL || text[0] == '\0' || strlen(text) >= room)
		return complain_at(place, "\"%s\" is no text of 1 to %zu bytes", key, room - 1);
	memcpy(out, text, strlen(text) + 1);
	return 0;
}

static int read_number(const struct place *place, const json_t *row, const char *key,
		       json_int_t least, json_int_t most, json_int_t *out)
{
	const json_t *value = json_object_get(row, key);

	*out = json_integer_value(value);
	if (json_is_integer(value) && *out >= least && *out <= most)
		return 0;
	return complain_at(place,
			   "\"%s\" is no whole number from %" JSON_INTEGER_FORMAT
			   " to %" JSON_INTEGER_FORMAT,
			   key, least, most);
}

static int read_times(const struct place *place, const json_t *row, const char *key,
		      struct tool_profile_times *out)
{
	static const char *const members[] = { "mean", "median", "p90" };
	double *const values[] = { &out->mean_us, &out->median_us, &out->p90_us };
	const json_t *times = json_object_get(row, key);

	for (size_t i = 0; i < 3; i++) {
		const json_t *value = json_object_get(times, members[i]);

		*values[i] = json_number_value(value);
		if (!json_is_number(value) || !(*values[i] >= 0) || !(*values[i] <= US_MOST))
			return complain_at(place, "\"%s\" has no time \"%s\" in us", key,
					   members[i]);
	}
	return 0;
}

static int read_texts(const struct place *place, const json_t *json, struct tool_profile_row *row)
{
	char pairs[TOOL_PROFILE_TEXT];

	if (read_text(place, json, "kind", row->kind, sizeof(row->kind)) != 0 ||
	    read_text(place, json, "type", row->type, sizeof(row->type)) != 0 ||
	    read_text(place, json, "lane", row->lane, sizeof(row->lane)) != 0 ||
	    read_text(place, json, "name", row->name, sizeof(row->name)) != 0 ||
	    read_text(place, json, "pairs", pairs, sizeof(pairs)) != 0)
		return -1;
	row->ring = strcmp(pairs, "ring") == 0;
	if (!tool_profile_is_kind(row->kind))
		return complain_at(place, "\"kind\" is not the name of a collective");
	if (row->type[0] != '\0' && tool_profile_type_bytes(row->type) == 0)
		return complain_at(place, "\"type\" is not the name of a type");
	return 0;
}

static int read_row(const struct place *place, const json_t *json, struct tool_profile_row *row)
{
	json_int_t bytes, ranks, hosts = 0, count;

	*row = (struct tool_profile_row){ 0 };
	if (!json_is_object(json))
		return complain_at(place, "it is no object");
	if (read_texts(place, json, row) != 0 ||
	    read_number(place, json, "bytes", 0, BYTES_MOST, &bytes) != 0 ||
	    read_number(place, json, "ranks", 1, INT32_MAX, &ranks) != 0 ||
	    read_number(place, json, "count", 1, BYTES_MOST, &count) != 0 ||
	    read_times(place, json, "latency_us", &row->latency) != 0 ||
	    read_times(place, json, "moving_us", &row->moving) != 0)
		return -1;
	if (!json_is_null(json_object_get(json, "hosts")) &&
	    read_number(place, json, "hosts", 1, ranks, &hosts) != 0)
		return -1;
	row->bytes = (uint64_t)bytes;
	row->ranks = (uint32_t)ranks;
	row->hosts = (uint32_t)hosts;
	row->count = (uint64_t)count;
	return 0;
}

static int read_list(const json_t *root, const char *key, bool named, struct tool_profile *out,
		     char *why)
{
	const json_t *list = json_object_get(root, key);
	struct tool_profile_row row;

	if (!json_is_array(list)) {
		snprintf(why, TOOL_PROFILE_WHY, "it has no list \"%s\"", key);
		return -1;
	}
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct place place = { key, i, why };

		if (read_row(&place, json_array_get(list, i), &row) != 0)
			return -1;
		if (named != (row.name[0] != '\0'))
			return complain_at(&place, named ? "it has no \"name\""
							 : "it has a \"name\", "
							   "which is not allowed");
		if (tool_profile_add(out, &row, why) != 0)
			return -1;
	}
	return 0;
}

static int read_root(const json_t *root, struct tool_profile *out, char *why)
{
	const char *schema = json_string_value(json_object_get(root, "schema"));
	const json_t *version = json_object_get(root, "version");
	struct tool_profile none = { 0 };

	if (schema == NULL || strcmp(schema, TOOL_PROFILE_SCHEMA) != 0) {
		snprintf(why, TOOL_PROFILE_WHY, "it is JSON, but its \"schema\" is not %s",
			 TOOL_PROFILE_SCHEMA);
		return -1;
	}
	if (!json_is_integer(version) || json_integer_value(version) != TOOL_PROFILE_VERSION) {
		snprintf(why, TOOL_PROFILE_WHY,
			 "its \"version\" is not %d, the only one that "
			 "is read",
			 TOOL_PROFILE_VERSION);
		return -1;
	}
	if (read_list(root, "collectives", false, out, why) != 0 ||
	    read_list(root, "names", true, out, why) != 0)
		return -1;
	return tool_profile_merge(out, &none, why);
}

int tool_profile_read(const char *text, size_t bytes, struct tool_profile *out, char *why)
{
	json_error_t error;
	json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
	int status;

	*out = (struct tool_profile){ 0 };
	if (root == NULL) {
		snprintf(why, TOOL_PROFILE_WHY, "line %d: it is no JSON: %.100s", error.line,
			 error.text);
		return -1;
	}
	status = read_root(root, out, why);
	json_decref(root);
	if (status != 0)
		tool_profile_fini(out);
	return status;
}
