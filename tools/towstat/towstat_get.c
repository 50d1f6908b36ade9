/*
 * towstat_get.c - prints documents, whole or in part, of one rank or of all, once or at intervals.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/common/http_unix.h"
#include "tools/common/words.h"
#include "tools/towstat/select.h"
#include "tools/towstat/towstat.h"

#define ALL_BYTES_MAX (8u << 20) /* of one document */

struct get {
	const char *socket_path, *job, *select, *path, *name;
	int all, raw;
	double interval_s, timeout_s;
	long count;
};

static const char usage[] =
	"towstat get - documents of the stats sockets\n"
	"\n"
	"  towstat get PATH [NAME] [OPTION...]   /metrics /v1/info /v1/counters /v1/latency ...;\n"
	"                                        /v1 lists them\n"
	"  towstat get coll [NAME]               collectives, as tables\n"
	"  towstat get snapshot [NAME]           info, counters and latencies in one, for diff\n"
	"\n"
	"NAME is a runtime (job.rank) or a job; without it the only job here is meant. Of a job "
	"of\n"
	"several ranks, documents that are JSON come as with --job, and others under headings.\n"
	"\n"
	"  -s, --socket PATH   the runtime's stats socket, instead of NAME\n"
	"  -a, --all           of all ranks of this host: an array, by name, of objects with "
	"name,\n"
	"                      job, rank, and document or error\n"
	"      --job JOB       of all ranks of this job\n"
	"      --all-users     also of other users, with the member user\n"
	"      --select PART   a part of the document: counters.send_bytes, rpcs[0].p99,\n"
	"                      reasons[name=late_extent].count, groups[*].entries[*].plan\n"
	"      --raw           strings without their quotes\n"
	"  -i, --interval S    again each S seconds, from 0.01 to 86400; each on a line\n"
	"  -n, --count N       so often; with --interval alone: until it fails\n"
	"      --timeout S     how long an answer may take, from 0.1 to 600 (default 5)\n"
	"  -h, --help          this text\n"
	"\n"
	"Status: 0 done, 1 something did not answer or is not there, 2 wrong usage.\n";

static struct http_limits limits_of(const struct get *get)
{
	return (struct http_limits){ (long long)(get->timeout_s * 1e3), HTTP_BYTES_MAX };
}

/* A part of a document. NULL: `error` has the reason. */
static json_t *part_of(const struct get *get, const struct http_answer *answer, char *error,
		       size_t error_size)
{
	json_t *document, *part;
	json_error_t wrong;
	char why[JSON_ERROR_TEXT_LENGTH];

	if (answer->status != 200) {
		snprintf(error, error_size, "it answers %d for %.100s", answer->status, get->path);
		return NULL;
	}
	document = json_loadb(answer->body, answer->bytes, 0, &wrong);
	if (document == NULL) {
		words_clean(why, sizeof(why), wrong.text); /* has text of the document */
		snprintf(error, error_size, "%.100s is no JSON: %s", get->path, why);
		return NULL;
	}
	if (get->select == NULL)
		return document;
	part = select_path(document, get->select, error, error_size);
	json_decref(document);
	return part;
}

static void print_raw(const json_t *text)
{
	print_document(stdout, json_string_value(text), json_string_length(text));
	putchar('\n');
}

static int print_part(const struct get *get, const json_t *part)
{
	const size_t flags = JSON_ENCODE_ANY | JSON_ENSURE_ASCII |
			     (get->interval_s > 0 || !(json_is_array(part) || json_is_object(part))
				      ? JSON_COMPACT
				      : JSON_INDENT(2));

	if (get->raw && json_is_string(part))
		print_raw(part);
	else if (json_dumpf(part, stdout, flags) != 0)
		return 1;
	else
		printf("\n");
	return 0;
}

/* Prints the document unchanged, unless a part of it is wanted. */
static int get_one(const struct get *get, const char *socket_path)
{
	struct http_limits limits = limits_of(get);
	struct http_answer answer;
	char error[512];
	json_t *part;
	int failed;

	if (http_get_within(socket_path, get->path, &limits, &answer, error, sizeof(error)) != 0) {
		fprintf(stderr, "towstat: %s\n", error);
		return 1;
	}
	if (get->select == NULL || answer.status != 200) {
		failed = answer.status != 200;
		if (failed)
			fprintf(stderr, "towstat: %s answers %d for %s\n", socket_path,
				answer.status, get->path);
		print_document(failed ? stderr : stdout, answer.body, answer.bytes);
		http_answer_fini(&answer);
		return failed;
	}
	part = part_of(get, &answer, error, sizeof(error));
	http_answer_fini(&answer);
	if (part == NULL)
		fprintf(stderr, "towstat: %s: %s\n", socket_path, error);
	failed = part == NULL || print_part(get, part) != 0;
	json_decref(part);
	return failed;
}

/* --- all ranks --- */

static int of_job(const struct get *get, const char *name)
{
	struct runtime_name parts;

	runtime_name_of(name, &parts);
	return get->job == NULL || strcmp(get->job, parts.job) == 0;
}

/* A row of the array. *failed_out is set when the row has an error. NULL: the process has ended. */
static json_t *row_of(const struct get *get, const struct runtime_entry *entry,
		      const struct http_ask *ask, int *failed_out)
{
	char error[512] = "";
	json_t *part = NULL, *row;

	if (ask->state == HTTP_DONE)
		part = part_of(get, &ask->answer, error, sizeof(error));
	else if (http_ask_is_gone(ask))
		return NULL;
	else
		snprintf(error, sizeof(error), "%s", http_ask_why(ask));
	row = row_of_runtime(entry);
	if (part != NULL) {
		json_object_set_new(row, "document", part);
	} else {
		json_object_set_new(row, "error", json_string(error));
		*failed_out = 1;
	}
	return row;
}

static int print_all(const struct get *get, const struct runtime_list *list,
		     const struct http_ask_of *asks)
{
	json_t *rows = json_array();
	int failed = 0;

	for (size_t i = 0; i < list->count; i++) {
		json_t *row = row_of(get, &list->rows[i], &asks[i].ask, &failed);

		if (row != NULL)
			json_array_append_new(rows, row);
	}
	if (json_array_size(rows) == 0) {
		fprintf(stderr, "towstat: there is no live runtime here that you may see\n");
		failed = 1;
	}
	if (print_part(get, rows) != 0)
		failed = 1;
	json_decref(rows);
	return failed;
}

/* Prints the documents of all on the list, which stays valid. */
static int get_rows(const struct get *get, const struct runtime_list *list)
{
	const struct http_limits limits = { (long long)(get->timeout_s * 1e3), ALL_BYTES_MAX };
	struct http_ask_of *asks = calloc(list->count + 1, sizeof(*asks));
	int failed;

	if (asks == NULL)
		return 1;
	for (size_t i = 0; i < list->count; i++)
		asks[i].socket_path = list->rows[i].path;
	http_ask_all(asks, list->count, get->path, &limits);
	failed = print_all(get, list, asks);
	for (size_t i = 0; i < list->count; i++)
		http_ask_fini(&asks[i].ask);
	free(asks);
	return failed;
}

static int get_all(const struct get *get)
{
	struct runtime_list list;
	size_t count = 0;
	int failed;

	if (find_sockets(&list) != 0)
		return 1;
	for (size_t i = 0; i < list.count; i++) {
		if (of_job(get, list.rows[i].name))
			list.rows[count++] = list.rows[i];
	}
	list.count = count;
	failed = get_rows(get, &list);
	runtime_list_fini(&list);
	return failed;
}

static int get_snapshot(const struct get *get, const struct runtime_list *targets)
{
	json_t *rows = json_array(), *all = NULL;
	int failed = 0;

	for (size_t i = 0; i < targets->count; i++) {
		json_t *row = row_of_runtime(&targets->rows[i]);

		all = fetch_snapshot(targets->rows[i].path);
		failed |= all == NULL;
		if (all != NULL)
			json_object_set(row, "document", all);
		else
			json_object_set_new(row, "error", json_string("it did not answer"));
		json_array_append_new(rows, row);
		if (targets->count > 1)
			json_decref(all);
	}
	if (targets->count > 1 || all != NULL)
		failed |= print_part(get, targets->count > 1 ? rows : all);
	if (targets->count == 1)
		json_decref(all);
	json_decref(rows);
	return failed;
}

/* /metrics is no JSON; all other documents are below /v1. */
static int is_json(const char *path)
{
	return strncmp(path, "/v1", 3) == 0;
}

static int get_any(const struct get *get, const struct runtime_list *targets)
{
	int failed = 0;

	if (get->all)
		return get_all(get);
	if (strcmp(get->path, "coll") == 0)
		return show_collectives(targets);
	if (strcmp(get->path, "snapshot") == 0)
		return get_snapshot(get, targets);
	if (targets->count > 1 && is_json(get->path))
		return get_rows(get, targets);
	for (size_t i = 0; i < targets->count; i++) {
		print_heading(targets, i);
		fflush(stdout);
		failed |= get_one(get, targets->rows[i].path);
	}
	return failed;
}

static int get_again(const struct get *get)
{
	struct runtime_list targets = { 0 };
	int status = 0;

	if (!get->all && find_targets(get->socket_path, get->name, &targets) != 0)
		return 1;
	for (long i = 0; status == 0 && (i < get->count || get->count == 0); i++) {
		if (i > 0)
			nap(get->interval_s);
		status = get_any(get, &targets);
		if (fflush(stdout) != 0)
			status = 1;
	}
	runtime_list_fini(&targets);
	return status;
}

enum { OPT_JOB = 256, OPT_SELECT, OPT_RAW, OPT_TIMEOUT };

/* Returns 0, or the exit status. */
static int take_option(struct get *get, int option)
{
	switch (option) {
	case 's':
		get->socket_path = optarg;
		return 0;
	case OPT_JOB:
		get->job = optarg;
		get->all = 1;
		return 0;
	case 'a':
		get->all = 1;
		return 0;
	case OPT_SELECT:
		get->select = optarg;
		return 0;
	case OPT_RAW:
		get->raw = 1;
		return 0;
	case 'i':
		if (read_seconds(optarg, 0.01, 86400, &get->interval_s) != 0)
			return misuse("--interval is from 0.01 to 86400 seconds", optarg);
		return 0;
	case 'n':
		if (read_number(optarg, 1, 1000000000, &get->count) != 0)
			return misuse("--count is a number from 1", optarg);
		return 0;
	case OPT_TIMEOUT:
		if (read_seconds(optarg, 0.1, 600, &get->timeout_s) != 0)
			return misuse("--timeout is from 0.1 to 600 seconds", optarg);
		return 0;
	default:
		return misuse("get: wrong option", "");
	}
}

/* Refuses options that do not go together. */
static int check_options(const struct get *get)
{
	if (get->path == NULL)
		return misuse("get needs a path, such as /v1/counters", "");
	if (get->all && (get->name != NULL || get->socket_path != NULL))
		return misuse("--all and --job ask all ranks: give no name or socket with "
			      "them",
			      "");
	if (get->path[0] != '/' && (get->all || get->select != NULL))
		return misuse("coll and snapshot are of one rank: give no further path", get->path);
	return 0;
}

int run_get(int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "all", no_argument, NULL, 'a' },
		{ "job", required_argument, NULL, OPT_JOB },
		{ "select", required_argument, NULL, OPT_SELECT },
		{ "raw", no_argument, NULL, OPT_RAW },
		{ "interval", required_argument, NULL, 'i' },
		{ "count", required_argument, NULL, 'n' },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct get get = { .timeout_s = HTTP_TIMEOUT_MS / 1e3, .count = -1 };
	int option, status;

	while ((option = getopt_long(argc, argv, "s:ai:n:h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		status = take_option(&get, option);
		if (status != 0)
			return status;
	}
	if (argc - optind > 2)
		return misuse("get takes a path and a name", argv[optind + 2]);
	get.path = optind < argc ? argv[optind] : NULL;
	get.name = optind + 1 < argc ? argv[optind + 1] : NULL;
	status = check_options(&get);
	if (status != 0)
		return status;
	if (get.count < 0)
		get.count = get.interval_s > 0 ? 0 : 1;
	if (get.interval_s <= 0)
		get.interval_s = get.count > 1 ? 1 : 0;
	return get_again(&get);
}
