/*
 * dpdk_reply.c - answers one request, and cuts a document into flat pages. See dpdk_reply.h.
 *
 * A page is made by walking the JSON text once. Each scalar becomes an item, items fill pages in
 * order, and the items of the wanted page are written. The text comes from a runtime and has no
 * blanks between its tokens. Any other text ends the walk.
 */
#include "tools/towstat/dpdk_reply.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MAX            256
#define DEPTH_MAX          16
#define VALUE_MAX          2048
#define PAGES_MAX          100000
#define ENVELOPE           192 /* what a reply has around its items: command, braces, "next_page" */
#define DOCUMENTS          "/v1/"
#define INFO_PATH          "/v1/info"
#define PREFIX_BYTES       strlen(DPDK_PREFIX)
#define COMMAND_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/"

static const struct {
	const char *command, *help;
} own_commands[] = {
	{ "/", "Lists the commands. Takes no parameters" },
	{ "/help", "Returns the help text of a command. Parameters: string command" },
	{ "/info", "Returns version, process id and the longest reply" },
};

/* --- pages --- */

struct walk {
	const char *at;
	const char *own;
	char key[KEY_MAX];
	size_t key_bytes;
	unsigned page, wanted;
	size_t used, room; /* of the current page */
	char *out;         /* the wanted page */
	size_t out_bytes;
	bool more, broken;
};

static void walk_value(struct walk *walk, unsigned depth);

/* The bytes of the string that begins at `at`, with its quotes; 0: it has no end. */
static size_t string_bytes(const char *at)
{
	size_t bytes = 1;

	for (; at[bytes] != '"'; bytes++) {
		if (at[bytes] == '\\')
			bytes++;
		if (at[bytes] == '\0')
			return 0;
	}
	return bytes + 1;
}

static void walk_item(struct walk *walk, const char *text, size_t bytes)
{
	size_t all = walk->key_bytes + bytes + 4;

	if (bytes > VALUE_MAX) {
		text = "\"(too long)\"";
		bytes = strlen(text);
		all = walk->key_bytes + bytes + 4;
	}
	if (walk->used > 0 && walk->used + all > walk->room) {
		walk->page++;
		walk->used = 0;
	}
	walk->used += all;
	if (walk->page > walk->wanted)
		walk->more = true;
	if (walk->page != walk->wanted)
		return;
	walk->out_bytes += (size_t)sprintf(walk->out + walk->out_bytes, "%s\"%.*s\":%.*s",
					   walk->out_bytes > 0 ? "," : "", (int)walk->key_bytes,
					   walk->key, (int)bytes, text);
}

/*
 * Appends `text` to the key. Returns false when the key would be too long; its value is left out.
 */
static bool key_push(struct walk *walk, const char *text, size_t bytes, unsigned depth)
{
	if (depth == 0 && strlen(walk->own) == bytes && memcmp(walk->own, text, bytes) == 0 &&
	    (*walk->at == '{' || *walk->at == '['))
		return true;
	if (walk->key_bytes + bytes + 1 >= KEY_MAX)
		return false;
	if (walk->key_bytes > 0)
		walk->key[walk->key_bytes++] = '.';
	memcpy(walk->key + walk->key_bytes, text, bytes);
	walk->key_bytes += bytes;
	return true;
}

/* Skips a value that is left out. */
static void walk_past(struct walk *walk)
{
	unsigned depth = 0;

	do {
		size_t bytes = 1;

		if (*walk->at == '"')
			bytes = string_bytes(walk->at);
		else if (*walk->at == '{' || *walk->at == '[')
			depth++;
		else if (*walk->at == '}' || *walk->at == ']')
			depth--;
		walk->broken |= *walk->at == '\0' || bytes == 0;
		if (walk->broken)
			return;
		walk->at += bytes;
	} while (depth > 0 || (*walk->at != ',' && *walk->at != '}' && *walk->at != ']'));
}

static void walk_member(struct walk *walk, const char *name, size_t bytes, unsigned depth)
{
	size_t before = walk->key_bytes;

	if (key_push(walk, name, bytes, depth))
		walk_value(walk, depth + 1);
	else
		walk_past(walk);
	walk->key_bytes = before;
}

static void walk_object(struct walk *walk, unsigned depth)
{
	walk->at++;
	while (!walk->broken && *walk->at == '"') {
		const char *name = walk->at + 1;
		size_t bytes = string_bytes(walk->at);

		if (bytes == 0 || walk->at[bytes] != ':') {
			walk->broken = true;
			return;
		}
		walk->at += bytes + 1;
		walk_member(walk, name, bytes - 2, depth);
		walk->at += *walk->at == ',';
	}
	walk->broken |= *walk->at != '}';
	walk->at += !walk->broken;
}

static void walk_array(struct walk *walk, unsigned depth)
{
	char number[16];
	unsigned i = 0;

	walk->at++;
	while (!walk->broken && *walk->at != ']' && *walk->at != '\0') {
		int bytes = snprintf(number, sizeof(number), "%u", i++);

		if (*walk->at == '[') /* a bucket of a histogram */
			walk_past(walk);
		else
			walk_member(walk, number, (size_t)bytes, depth);
		walk->at += *walk->at == ',';
	}
	walk->broken |= *walk->at != ']';
	walk->at += !walk->broken;
}

static void walk_value(struct walk *walk, unsigned depth)
{
	size_t bytes;

	if (walk->broken)
		return;
	if (depth >= DEPTH_MAX) {
		walk_past(walk);
	} else if (*walk->at == '{') {
		walk_object(walk, depth);
	} else if (*walk->at == '[') {
		walk_array(walk, depth);
	} else {
		bytes = *walk->at == '"' ? string_bytes(walk->at) : strcspn(walk->at, ",]} \n");
		if (bytes == 0 || walk->key_bytes == 0) {
			walk->broken = true;
			return;
		}
		walk_item(walk, walk->at, bytes);
		walk->at += bytes;
	}
}

long dpdk_page(const char *json, const char *own, unsigned page, size_t room, char *out,
	       int *more_out)
{
	struct walk walk = { .at = json, .own = own, .wanted = page, .room = room, .out = out };

	out[0] = '\0';
	if (*walk.at == '{')
		walk_object(&walk, 0);
	else
		walk.broken = true;
	*more_out = walk.more;
	if (walk.broken || walk.page < page)
		return -1;
	return (long)walk.out_bytes;
}

/* --- requests --- */

static bool is_command(const char *text)
{
	return strlen(text) < DPDK_COMMAND_MAX && text[strspn(text, COMMAND_CHARACTERS)] == '\0';
}

static void take_path(struct dpdk_request *request, const char *path)
{
	snprintf(request->path, sizeof(request->path), "%s", path);
}

/*
 * Other bytes than ASCII are replaced, as they are not valid JSON unless they happen to be UTF-8.
 */
static void take_command(struct dpdk_request *request, const char *text)
{
	size_t at = 0;

	for (; at + 1 < sizeof(request->command) && text[at] != '\0'; at++)
		request->command[at] = (unsigned char)text[at] < 128 ? text[at] : '?';
	request->command[at] = '\0';
}

void dpdk_request_greeting(struct dpdk_request *out)
{
	*out = (struct dpdk_request){ .kind = DPDK_GREETING };
	take_path(out, INFO_PATH);
}

void dpdk_request_parse(const char *bytes, size_t count, struct dpdk_request *out)
{
	char text[DPDK_REQUEST_MAX + 1], *comma;

	*out = (struct dpdk_request){ .kind = DPDK_UNKNOWN };
	count = count < DPDK_REQUEST_MAX ? count : DPDK_REQUEST_MAX;
	memcpy(text, bytes, count);
	text[count] = '\0';
	comma = strchr(text, ',');
	if (comma != NULL) {
		*comma = '\0';
		snprintf(out->param, sizeof(out->param), "%s", comma + 1);
	}
	take_command(out, text);
	if (!is_command(text))
		return;
	if (strcmp(text, "/") == 0 || strcmp(text, "/help") == 0) {
		out->kind = text[1] == '\0' ? DPDK_LIST : DPDK_HELP;
		take_path(out, DPDK_LIST_PATH);
	} else if (strcmp(text, "/info") == 0) {
		out->kind = DPDK_INFO;
		take_path(out, INFO_PATH);
	} else if (strncmp(text, DPDK_PREFIX, PREFIX_BYTES) == 0 && text[PREFIX_BYTES] != '\0') {
		out->kind = DPDK_DOCUMENT;
		snprintf(out->path, sizeof(out->path), "%s%s", DOCUMENTS,
			 out->command + PREFIX_BYTES);
	}
}

/* --- the commands --- */

static void add_document(struct dpdk_documents *documents, const json_t *row)
{
	const char *path = json_string_value(json_object_get(row, "path"));
	const char *help = json_string_value(json_object_get(row, "help"));
	char command[DPDK_COMMAND_MAX + 8];

	if (path == NULL || strncmp(path, DOCUMENTS, strlen(DOCUMENTS)) != 0 ||
	    json_is_true(json_object_get(row, "capture")) || documents->count == DPDK_DOCUMENTS_MAX)
		return;
	snprintf(command, sizeof(command), DPDK_PREFIX "%s", path + strlen(DOCUMENTS));
	if (!is_command(command) || command[PREFIX_BYTES] == '\0')
		return;
	memcpy(documents->rows[documents->count].command, command, DPDK_COMMAND_MAX);
	snprintf(documents->rows[documents->count].help,
		 sizeof(documents->rows[documents->count].help), "%s", help != NULL ? help : "");
	documents->count++;
}

bool dpdk_documents_read(const char *text, size_t bytes, struct dpdk_documents *out)
{
	json_t *root = json_loadb(text, bytes, 0, NULL);
	const json_t *paths = json_object_get(root, "paths");
	size_t i;
	const json_t *row;

	out->count = 0;
	json_array_foreach(paths, i, row) add_document(out, row);
	json_decref(root);
	return out->count > 0;
}

static const char *help_of(const struct dpdk_documents *documents, const char *command)
{
	for (size_t i = 0; i < sizeof(own_commands) / sizeof(own_commands[0]); i++) {
		if (strcmp(own_commands[i].command, command) == 0)
			return own_commands[i].help;
	}
	for (size_t i = 0; i < documents->count; i++) {
		if (strcmp(documents->rows[i].command, command) == 0)
			return documents->rows[i].help;
	}
	return NULL;
}

bool dpdk_documents_have(const struct dpdk_documents *documents, const char *command)
{
	for (size_t i = 0; i < documents->count; i++) {
		if (strcmp(documents->rows[i].command, command) == 0)
			return true;
	}
	return false;
}

/* --- replies --- */

static json_t *list_of(const struct dpdk_documents *documents)
{
	json_t *list = json_array();

	for (size_t i = 0; i < sizeof(own_commands) / sizeof(own_commands[0]); i++)
		json_array_append_new(list, json_string(own_commands[i].command));
	for (size_t i = 0; i < documents->count; i++)
		json_array_append_new(list, json_string(documents->rows[i].command));
	return list;
}

/*
 * A help text that was cut inside a character is no JSON. json_pack then returns NULL, which
 * becomes null.
 */
static json_t *help_for(const struct dpdk_documents *documents, const char *command)
{
	const char *help = help_of(documents, command);

	return help != NULL ? json_pack("{s:s}", command, help) : NULL;
}

/* Version and process of the runtime; NULL: its /v1/info does not have them. */
static json_t *self_of(const char *text, size_t bytes)
{
	json_t *info = text != NULL ? json_loadb(text, bytes, 0, NULL) : NULL;
	const char *version = json_string_value(json_object_get(info, "version"));
	const json_t *pid = json_object_get(info, "pid");
	json_t *self = NULL;
	char name[64];

	if (version != NULL && json_is_integer(pid)) {
		snprintf(name, sizeof(name), "towline %.32s", version);
		self = json_pack("{s:s, s:I, s:i}", "version", name, "pid", json_integer_value(pid),
				 "max_output_len", DPDK_OUTPUT_MAX);
	}
	json_decref(info);
	return self;
}

/* Writes `reply` and frees it. Returns 0 when it is NULL or too long. */
static size_t write_reply(json_t *reply, char *out)
{
	size_t bytes = reply != NULL ? json_dumpb(reply, out, DPDK_OUTPUT_MAX, JSON_COMPACT) : 0;

	json_decref(reply);
	return bytes <= DPDK_OUTPUT_MAX ? bytes : 0;
}

/* Writes {"command":value}, with null for a NULL value. */
static size_t write_value(const struct dpdk_request *request, json_t *value, char *out)
{
	json_t *reply = json_object();

	json_object_set_new(reply, request->command, value != NULL ? value : json_null());
	return write_reply(reply, out);
}

/* Reads the number of a page. Returns false when `param` is no number. */
static bool page_of(const char *param, unsigned *out)
{
	char *end;
	unsigned long page = strtoul(param, &end, 10);

	*out = (unsigned)page;
	return param[0] == '\0' ||
	       (param[0] >= '0' && param[0] <= '9' && *end == '\0' && page <= PAGES_MAX);
}

/* The whole document is checked before a part of it is copied into the reply. */
static bool is_json(const char *text, size_t bytes)
{
	json_t *root = text != NULL ? json_loadb(text, bytes, 0, NULL) : NULL;
	bool good = json_is_object(root) && strlen(text) == bytes;

	json_decref(root);
	return good;
}

static size_t reply_document(const struct dpdk_request *request, const char *text, size_t bytes,
			     char *out)
{
	const char *name = request->command + PREFIX_BYTES;
	size_t used = (size_t)snprintf(out, DPDK_OUTPUT_MAX, "{\"%s\":{", request->command);
	long items = -1;
	unsigned page;
	int more = 0;

	if (page_of(request->param, &page) && is_json(text, bytes))
		items = dpdk_page(text, name, page, DPDK_OUTPUT_MAX - ENVELOPE, out + used, &more);
	if (items < 0)
		return write_value(request, NULL, out);
	used += (size_t)items;
	if (more)
		used += (size_t)snprintf(out + used, DPDK_OUTPUT_MAX - used, "%s\"next_page\":%u",
					 items > 0 ? "," : "", page + 1);
	return used + (size_t)snprintf(out + used, DPDK_OUTPUT_MAX - used, "}}");
}

size_t dpdk_reply(const struct dpdk_request *request, const struct dpdk_documents *documents,
		  const char *text, size_t bytes, char *out)
{
	switch (request->kind) {
	case DPDK_GREETING:
		return write_reply(self_of(text, bytes), out);
	case DPDK_INFO:
		return write_value(request, self_of(text, bytes), out);
	case DPDK_LIST:
		return write_value(request, list_of(documents), out);
	case DPDK_HELP:
		return write_value(
			request,
			help_for(documents, request->param[0] != '\0' ? request->param : "/help"),
			out);
	case DPDK_DOCUMENT:
		if (dpdk_documents_have(documents, request->command))
			return reply_document(request, text, bytes, out);
		break;
	case DPDK_UNKNOWN:
		break;
	}
	return write_value(request, NULL, out);
}
