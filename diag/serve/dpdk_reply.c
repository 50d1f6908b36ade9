/*
 * dpdk_reply.c - answering one request, and cutting a document into flat pages. See dpdk_reply.h.
 *
 * A page is made by walking the JSON text once: each scalar becomes an item, items fill pages in
 * order, and those of the wanted page are written. The text is one that emit.h has made; what the
 * walk does not understand ends it all the same.
 */
#include "diag/serve/dpdk_reply.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <internal/base.h>
#include <towline/version.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/serve/render.h"

#define KEY_MAX            256
#define DEPTH_MAX          16
#define VALUE_MAX          2048
#define PAGES_MAX          100000
#define ENVELOPE           192 /* of a reply, around its items: command, braces, "next_page" */
#define COMMAND_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/"

/* --- pages --- */

struct walk {
	const char *at;
	const char *own;
	char key[KEY_MAX];
	size_t key_bytes;
	unsigned page, wanted;
	size_t used, room; /* of the present page */
	char *out;         /* of the wanted one */
	size_t out_bytes;
	bool more, broken;
};

static void value(struct walk *walk, unsigned depth);

/* The string that begins at `at`, quotes included; 0: it has no end. */
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

static void item(struct walk *walk, const char *text, size_t bytes)
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

/* Goes on with `text` behind the key; false: it would be too long, and what is in there is left
 * out.
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

/* The end of a value that nothing is said of. */
static void skip(struct walk *walk)
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

static void member(struct walk *walk, const char *name, size_t bytes, unsigned depth)
{
	size_t before = walk->key_bytes;

	if (key_push(walk, name, bytes, depth))
		value(walk, depth + 1);
	else
		skip(walk);
	walk->key_bytes = before;
}

static void object(struct walk *walk, unsigned depth)
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
		member(walk, name, bytes - 2, depth);
		walk->at += *walk->at == ',';
	}
	walk->broken |= *walk->at != '}';
	walk->at += !walk->broken;
}

static void array(struct walk *walk, unsigned depth)
{
	char number[16];
	unsigned i = 0;

	walk->at++;
	while (!walk->broken && *walk->at != ']' && *walk->at != '\0') {
		int bytes = snprintf(number, sizeof(number), "%u", i++);

		if (*walk->at == '[') /* a bucket of a histogram */
			skip(walk);
		else
			member(walk, number, (size_t)bytes, depth);
		walk->at += *walk->at == ',';
	}
	walk->broken |= *walk->at != ']';
	walk->at += !walk->broken;
}

static void value(struct walk *walk, unsigned depth)
{
	size_t bytes;

	if (walk->broken)
		return;
	if (depth >= DEPTH_MAX) {
		skip(walk);
	} else if (*walk->at == '{') {
		object(walk, depth);
	} else if (*walk->at == '[') {
		array(walk, depth);
	} else {
		bytes = *walk->at == '"' ? string_bytes(walk->at) : strcspn(walk->at, ",]} \n");
		if (bytes == 0 || walk->key_bytes == 0) {
			walk->broken = true;
			return;
		}
		item(walk, walk->at, bytes);
		walk->at += bytes;
	}
}

long twi_dpdk_page(const char *json, const char *own, unsigned page, size_t room, char *out,
		   int *more_out)
{
	struct walk walk = { .at = json, .own = own, .wanted = page, .room = room, .out = out };

	out[0] = '\0';
	if (*walk.at == '{')
		object(&walk, 0);
	else
		walk.broken = true;
	*more_out = walk.more;
	if (walk.broken || walk.page < page)
		return -1;
	return (long)walk.out_bytes;
}

/* --- requests --- */

size_t twi_dpdk_greet(char *out)
{
	return (size_t)snprintf(out, TWI_DPDK_OUTPUT_MAX,
				"{\"version\":\"towline " TOW_VERSION "\",\"pid\":%d,"
				"\"max_output_len\":%d}",
				(int)getpid(), TWI_DPDK_OUTPUT_MAX);
}

struct help_walk {
	struct twi_emit *e;
	const char *command; /* NULL: all are listed */
	bool found;
};

/* The command of a document; false: its path cannot be one. */
static bool command_of(const char *path, char out[TWI_DPDK_COMMAND_MAX])
{
	int bytes =
		snprintf(out, TWI_DPDK_COMMAND_MAX, TWI_DPDK_PREFIX "%s", path + strlen("/v1/"));

	return bytes < TWI_DPDK_COMMAND_MAX && out[strspn(out, COMMAND_CHARACTERS)] == '\0';
}

static void help_one(struct help_walk *walk, const char *command, const char *help)
{
	if (walk->command == NULL) {
		twi_emit_str(walk->e, NULL, command);
	} else if (strcmp(walk->command, command) == 0) {
		twi_emit_str(walk->e, command, help);
		walk->found = true;
	}
}

static void help_document(void *arg, const char *path, const char *help)
{
	char command[TWI_DPDK_COMMAND_MAX];

	if (command_of(path, command))
		help_one(arg, command, help);
}

static void help_all(struct twi_diag *diag, struct help_walk *walk)
{
	help_one(walk, "/", "Lists the commands. Takes no parameters");
	help_one(walk, "/help", "Returns the help text of a command. Parameters: string command");
	help_one(walk, "/info", "Returns version, process id and the longest reply");
	twi_registry_documents(diag, help_document, walk);
}

/* The document of a command as items of page `page`, in `out`; -1: no such. */
static long document(struct twi_diag *diag, const char *command, const char *param, char *out,
		     int *more_out, unsigned *page_out)
{
	const char *name = command + strlen(TWI_DPDK_PREFIX);
	char path[TWI_DPDK_COMMAND_MAX + 8], *end = NULL;
	struct twi_emit e = { 0 };
	unsigned long page = param != NULL ? strtoul(param, &end, 10) : 0;
	long bytes = -1;

	if (end != NULL &&
	    (end == param || *end != '\0' || param[0] < '0' || param[0] > '9' || page > PAGES_MAX))
		return -1;
	*page_out = (unsigned)page;
	snprintf(path, sizeof(path), "/v1/%s", name);
	if (twi_registry_render(diag, path, &e) == TOW_OK)
		bytes = twi_dpdk_page(e.text, name, *page_out, TWI_DPDK_OUTPUT_MAX - ENVELOPE, out,
				      more_out);
	twi_emit_fini(&e);
	return bytes;
}

static size_t reply_document(struct twi_diag *diag, const char *command, const char *param,
			     char *out)
{
	static const char none[] = "null}";
	size_t used = (size_t)sprintf(out, "{\"%s\":", command);
	unsigned page = 0;
	int more = 0;
	long bytes = document(diag, command, param, out + used + 1, &more, &page);

	if (bytes < 0) {
		memcpy(out + used, none, sizeof(none));
		return used + sizeof(none) - 1;
	}
	out[used] = '{';
	used += 1 + (size_t)bytes;
	if (more)
		used += (size_t)sprintf(out + used, ",\"next_page\":%u", page + 1);
	return used + (size_t)sprintf(out + used, "}}");
}

/* What is short: all but the documents. */
static void reply_short(struct twi_diag *diag, const char *command, const char *param,
			struct twi_emit *e)
{
	struct help_walk walk = { .e = e };

	twi_emit_object_begin(e, NULL);
	if (strcmp(command, "/") == 0) {
		twi_emit_array_begin(e, command);
		help_all(diag, &walk);
		twi_emit_array_end(e);
	} else if (strcmp(command, "/info") == 0) {
		twi_emit_object_begin(e, command);
		twi_emit_str(e, "version", "towline " TOW_VERSION);
		twi_emit_i64(e, "pid", getpid());
		twi_emit_u64(e, "max_output_len", TWI_DPDK_OUTPUT_MAX);
		twi_emit_object_end(e);
	} else if (strcmp(command, "/help") == 0) {
		struct twi_emit text = { 0 };

		walk = (struct help_walk){ .e = &text, .command = param != NULL ? param : command };
		twi_emit_object_begin(&text, NULL);
		help_all(diag, &walk);
		twi_emit_object_end(&text);
		if (walk.found && text.status == TOW_OK)
			twi_emit_json(e, command, text.text);
		else
			twi_emit_str(e, command, NULL);
		twi_emit_fini(&text);
	} else {
		twi_emit_str(e, command, NULL);
	}
	twi_emit_object_end(e);
}

size_t twi_dpdk_reply(struct twi_diag *diag, const char *request, size_t bytes, char *out)
{
	char text[TWI_DPDK_REQUEST_MAX + 1], command[TWI_DPDK_COMMAND_MAX], *param;
	struct twi_emit e = { 0 };
	size_t used;

	bytes = twi_min(bytes, (size_t)TWI_DPDK_REQUEST_MAX);
	memcpy(text, request, bytes);
	text[bytes] = '\0';
	param = strchr(text, ',');
	if (param != NULL)
		*param++ = '\0';
	if (param != NULL && *param == '\0')
		param = NULL;
	snprintf(command, sizeof(command), "%.*s", (int)sizeof(command) - 1, text);
	if (strlen(text) < TWI_DPDK_COMMAND_MAX &&
	    command[strspn(command, COMMAND_CHARACTERS)] == '\0' &&
	    strncmp(command, TWI_DPDK_PREFIX, strlen(TWI_DPDK_PREFIX)) == 0 &&
	    command[strlen(TWI_DPDK_PREFIX)] != '\0')
		return reply_document(diag, command, param, out);
	reply_short(diag, command, param, &e);
	used = e.status == TOW_OK && e.bytes < TWI_DPDK_OUTPUT_MAX ? e.bytes : 0;
	memcpy(out, e.text != NULL ? e.text : "", used);
	if (used == 0)
		used = (size_t)sprintf(out, "{\"none\":null}");
	twi_emit_fini(&e);
	return used;
}
