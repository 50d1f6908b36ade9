/*
 * towstat_why.c - prints what a runtime waits for, and its avoidable copies and registrations, in
 * sentences, the most expensive first.
 *
 * The runtime writes the sentences (/v1/copies, /v1/registrations), with the module and offset of
 * each call site. File and line, which only the file on disk knows, are added here.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/http_unix.h"
#include "tools/common/words.h"
#include "tools/towstat/explain_rows.h"
#include "tools/towstat/lines.h"
#include "tools/towstat/towstat.h"
#include "tools/towstat/why_merge.h"
#include "tools/towstat/why_waits.h"

#define MISSING_MAX    8
#define ALL_TIMEOUT_MS 2000
#define ALL_BYTES_MAX  (1u << 20)

struct why {
	json_t *info, *copies, *registrations, *pool;
	json_t *waits; /* NULL: nothing holds the rank up */
	struct lines *lines;
	size_t missing_count; /* reasons for missing file:line, each once */
	char missing[MISSING_MAX][512];
};

static const char *text_of(json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static json_int_t number_of(json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static void add_missing(struct why *why, const char *text)
{
	for (size_t i = 0; i < why->missing_count; i++) {
		if (strcmp(why->missing[i], text) == 0)
			return;
	}
	if (why->missing_count < MISSING_MAX)
		snprintf(why->missing[why->missing_count++], sizeof(why->missing[0]), "%s", text);
}

/* Puts a better name of the call site into the site and its sentence. */
static void rename_place(json_t *site, const char *name)
{
	const char *tag = text_of(site, "tag");
	json_t *parts = json_object_get(site, "text_parts"), *text;

	if (tag != NULL)
		json_object_set_new(site, "place", json_sprintf("%s (tag \"%s\")", name, tag));
	else
		json_object_set_new(site, "place", json_string(name));
	if (json_array_size(parts) != 2 || text_of(site, "place") == NULL)
		return;
	text = json_sprintf("%s from %s%s", json_string_value(json_array_get(parts, 0)),
			    text_of(site, "place"), json_string_value(json_array_get(parts, 1)));
	if (text != NULL)
		json_object_set_new(site, "text", text);
}

static void locate_site(struct why *why, json_t *site)
{
	const char *module = text_of(site, "module"), *address = text_of(site, "address");
	char name[1024], missing[512];
	struct line line;

	if (address == NULL)
		return;
	if (module == NULL) {
		snprintf(missing, sizeof(missing), "no loaded module has the address %s", address);
		add_missing(why, missing);
		return;
	}
	if (lines_find(why->lines, module, text_of(site, "build_id"),
		       (uint64_t)number_of(site, "module_offset"), &line, missing,
		       sizeof(missing))) {
		json_object_set_new(site, "file", json_string(line.file));
		json_object_set_new(site, "line", json_integer(line.line));
		snprintf(name, sizeof(name), "%s:%d", base_name(line.file), line.line);
		rename_place(site, name);
		return;
	}
	add_missing(why, missing);
	if (line.symbol[0] == '\0' || text_of(site, "symbol") != NULL)
		return;
	json_object_set_new(site, "symbol", json_string(line.symbol));
	json_object_set_new(site, "symbol_offset", json_integer((json_int_t)line.symbol_offset));
	snprintf(name, sizeof(name), "%s+0x%llx in %s", line.symbol,
		 (unsigned long long)line.symbol_offset, base_name(module));
	rename_place(site, name);
}

static void locate_all(struct why *why, json_t *document, const char *one, const char *many)
{
	json_int_t known = number_of(document, "sites_known");
	json_t *site;
	size_t i;

	json_array_foreach(json_object_get(document, "sites"), i, site) locate_site(why, site);
	known -= (json_int_t)merge_sites(document, one, many);
	json_object_set_new(document, "sites_known", json_integer(known));
}

static int read_documents(struct why *why, const char *socket_path, int with_waits)
{
	json_t *flight;

	why->info = fetch_json(socket_path, "/v1/info");
	why->copies = why->info != NULL ? fetch_json(socket_path, "/v1/copies") : NULL;
	why->registrations =
		why->copies != NULL ? fetch_json(socket_path, "/v1/registrations") : NULL;
	why->pool = why->registrations != NULL ? fetch_json(socket_path, "/v1/pool") : NULL;
	if (why->pool == NULL)
		return -1;
	if (with_waits) {
		flight = fetch_json(socket_path, "/v1/flight");
		why->waits = find_waits(socket_path, flight);
		json_decref(flight);
	}
	why->lines = lines_open((long)number_of(why->info, "pid"));
	return why->lines != NULL ? 0 : -1;
}

static void why_close(struct why *why)
{
	json_decref(why->info);
	json_decref(why->copies);
	json_decref(why->registrations);
	json_decref(why->pool);
	json_decref(why->waits);
	lines_close(why->lines);
	free(why);
}

/* Prints the sentences of one document. Returns the number of their events. */
static json_int_t print_sites(json_t *document, const char *head, size_t most)
{
	json_int_t count = number_of(json_object_get(document, "total"), "count");
	size_t known = (size_t)number_of(document, "sites_known"), i;
	json_t *site;

	if (count == 0)
		return 0;
	printf("%s\n", head);
	json_array_foreach(json_object_get(document, "sites"), i, site)
	{
		if (i >= most)
			break;
		if (text_of(site, "text") == NULL)
			continue;
		printf("  ");
		print_clean(text_of(site, "text"));
		printf("\n");
	}
	if (known > most)
		printf("  and %zu %s more, which cost less (--count)\n", known - most,
		       known - most == 1 ? "place" : "places");
	return count;
}

/* Prints why the pool was too small. Returns 1 when it was. */
static int print_pool(const json_t *pool)
{
	char text[256];

	if (!say_pool(pool, text, sizeof(text)))
		return 0;
	printf("The pool was too small:\n  %s\n", text);
	return 1;
}

/*
 * Prints the registrars that could not register the pool; their sends and receives do without.
 * Returns how many.
 */
static int print_unregistered(const json_t *pool)
{
	json_t *row;
	int count = 0;

	for (; (row = unregistered_of(pool, (size_t)count)) != NULL; count++) {
		printf(count == 0 ? "The pool could not be registered:\n  " : "  ");
		print_clean(text_of(row, "reason"));
		printf("\n");
		if (text_of(row, "mend") == NULL)
			continue;
		printf("    mend: ");
		print_clean(text_of(row, "mend"));
		printf("\n");
	}
	return count;
}

static void print_pinned(json_t *pool)
{
	json_t *process = json_object_get(pool, "process");
	json_int_t bytes = number_of(process, "pinned_by_others_bytes");
	char text[WORDS_BYTES];

	if (bytes <= 0)
		return;
	words_bytes((unsigned long long)bytes, text);
	printf("Other code in this process has pinned %s, which counts against the same limit.\n",
	       text);
}

static void print_why(const struct why *why, size_t most)
{
	json_t *necessary = json_object_get(why->copies, "necessary");
	json_int_t found;

	print_clean(text_of(why->info, "job"));
	printf(".%lld, process %lld\n", (long long)number_of(why->info, "rank"),
	       (long long)number_of(why->info, "pid"));
	found = print_waits(why->waits);
	found += print_sites(why->copies, "Fallback copies:", most);
	found += print_sites(why->registrations, "Late registrations:", most);
	found += print_pool(why->pool);
	found += print_unregistered(why->pool);
	if (found == 0)
		printf("Nothing was found: no fallback copy, no late registration, and the "
		       "pool was large enough.\n");
	if (text_of(necessary, "text") != NULL) {
		printf("For comparison: ");
		print_clean(text_of(necessary, "text"));
		printf("\n");
	}
	print_pinned(why->pool);
	for (size_t i = 0; i < why->missing_count; i++) {
		printf(i == 0 ? "Why some places have no file:line: " : "  ");
		print_clean(why->missing[i]);
		printf("\n");
	}
}

/* All results as a new object. */
static json_t *object_of(const struct why *why)
{
	json_t *missing = json_array();

	for (size_t i = 0; i < why->missing_count; i++)
		json_array_append_new(missing, json_string(why->missing[i]));
	return json_pack("{s:O, s:O, s:O, s:O, s:O?, s:o}", "info", why->info, "copies",
			 why->copies, "registrations", why->registrations, "pool", why->pool,
			 "waits", why->waits, "no_line", missing);
}

static struct why *open_why(const char *socket_path, int with_waits)
{
	struct why *why = calloc(1, sizeof(*why));

	if (why == NULL)
		return NULL;
	if (read_documents(why, socket_path, with_waits) != 0) {
		why_close(why);
		return NULL;
	}
	locate_all(why, why->copies, "copy", "copies");
	locate_all(why, why->registrations, "late registration", "late registrations");
	return why;
}

json_t *fetch_why(const char *socket_path, int with_waits)
{
	struct why *why = open_why(socket_path, with_waits);
	json_t *root = NULL;

	if (why != NULL) {
		root = object_of(why);
		why_close(why);
	}
	return root;
}

static int print_one(const char *socket_path, const struct why_options *options)
{
	struct why *why = open_why(socket_path, 1);

	if (why == NULL)
		return 1;
	print_why(why, options->count > 0 ? (size_t)options->count : 10);
	why_close(why);
	return 0;
}

/* Appends the row of one runtime to the array. */
static int append_row(json_t *rows, const struct runtime_entry *entry)
{
	json_t *row = row_of_runtime(entry), *document = fetch_why(entry->path, 1);

	if (document != NULL)
		json_object_set_new(row, "document", document);
	else
		json_object_set_new(row, "error", json_string("it did not answer"));
	json_array_append_new(rows, row);
	return document == NULL;
}

int show_why(const struct runtime_list *targets, const struct why_options *options)
{
	json_t *root = NULL;
	int failed = 0;

	if (options->json && targets->count == 1) {
		root = fetch_why(targets->rows[0].path, 1);
		failed = root == NULL || dump_json(root) != 0;
	} else if (options->json) {
		root = json_array();
		for (size_t i = 0; i < targets->count; i++)
			failed |= append_row(root, &targets->rows[i]);
		failed |= dump_json(root);
	}
	for (size_t i = 0; !options->json && i < targets->count; i++) {
		if (i > 0)
			printf("\n");
		fflush(stdout);
		failed |= print_one(targets->rows[i].path, options);
	}
	json_decref(root);
	return failed;
}

/*
 * Asks all ranks a first question, and only those that answer the others. So all silent ranks
 * together cost one timeout.
 */
static int show_those(struct runtime_list *list, struct http_ask_of *asks,
		      const struct why_options *options)
{
	const struct http_limits limits = { ALL_TIMEOUT_MS, ALL_BYTES_MAX };
	size_t count = 0, lived = 0;
	int failed = 0;

	for (size_t i = 0; i < list->count; i++)
		asks[i].socket_path = list->rows[i].path;
	http_ask_all(asks, list->count, "/v1/info", &limits);
	for (size_t i = 0; i < list->count; i++) {
		struct http_ask *ask = &asks[i].ask;

		lived += !http_ask_is_gone(ask);
		if (ask->state == HTTP_FAILED && !http_ask_is_gone(ask)) {
			fprintf(stderr, "towstat: %s: %s\n", list->rows[i].path, http_ask_why(ask));
			failed = 1;
		}
		if (ask->state == HTTP_DONE)
			list->rows[count++] = list->rows[i];
		http_ask_fini(ask);
	}
	list->count = count;
	if (lived == 0)
		fprintf(stderr, "towstat: there is no live runtime here that you may see\n");
	if (count > 0)
		failed |= show_why(list, options);
	return failed || lived == 0;
}

int show_why_all(const struct why_options *options)
{
	struct http_ask_of *asks;
	struct runtime_list list;
	int failed;

	if (find_sockets(&list) != 0)
		return 1;
	asks = calloc(list.count + 1, sizeof(*asks));
	failed = asks == NULL || show_those(&list, asks, options) != 0;
	free(asks);
	runtime_list_fini(&list);
	return failed;
}
