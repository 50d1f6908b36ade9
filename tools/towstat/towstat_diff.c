/*
 * towstat_diff.c - compares two snapshots, each a file or a living rank.
 *
 * A snapshot is the output of `towstat get snapshot`: /v1/counters, /v1/latency and /v1/info in one
 * object. A saved /v1/counters or /v1/latency is a snapshot too, with less in it.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/common/http_unix.h"
#include "tools/common/words.h"
#include "tools/towstat/documents.h"
#include "tools/towstat/towstat.h"

#define FILE_BYTES_MAX (64 << 20)
#define EXIT_TROUBLE   2

struct diff {
	struct compare_options options;
	int json, all;
	long count;
};

static const char usage[] =
	"towstat diff - what has changed between two snapshots\n"
	"\n"
	"  towstat diff A B [OPTION...]\n"
	"\n"
	"A and B are files (of `towstat get snapshot [NAME]`, or a saved /v1/counters or\n"
	"/v1/latency), names of living ranks (job.rank), or stats sockets.\n"
	"\n"
	"      --per WHAT      counters and reasons divided by WHAT: second, or a counter "
	"(sends);\n"
	"                      for two runs of different length\n"
	"  -t, --tolerance P   percent that what is judged may grow by (default 10)\n"
	"      --exact         small differences count, too (below)\n"
	"      --all           also what is the same\n"
	"  -n, --count N       at most N rows\n"
	"      --json          as JSON\n"
	"  -h, --help          this text\n"
	"\n"
	"What is worse comes first, then the largest change. Worse are: more of a counter that\n"
	"counts something that need not be, more of any reason, longer latencies where both sides\n"
	"have enough readings for the quantile. What differs by less than this is not worse, but\n"
	"with --exact: 50 us of a latency; 1 ms, 1 MiB and 100 times of a reason; of counters as\n"
	"much as docs/towstat.md says, of failures nothing. Status: 0 nothing is worse beyond the "
	"tolerance,\n"
	"1 something is, 2 trouble.\n";

json_t *fetch_snapshot(const char *socket_path)
{
	static const char *const paths[] = { "/v1/info", "/v1/counters", "/v1/latency" };
	json_t *all = json_object();

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		json_t *part = fetch_json(socket_path, paths[i]);

		if (part == NULL || json_object_update_missing(all, part) != 0) {
			json_decref(part);
			json_decref(all);
			return NULL;
		}
		json_decref(part);
	}
	return all;
}

/* Reads a whole file of bounded size. */
static json_t *read_file(const char *path)
{
	char why[JSON_ERROR_TEXT_LENGTH]; /* has text of the file */
	json_error_t wrong;
	json_t *root = NULL;
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t bytes = 0;

	if (file == NULL) {
		fprintf(stderr, "towstat: %s: %s\n", path, strerror(errno));
		return NULL;
	}
	text = malloc(FILE_BYTES_MAX);
	if (text != NULL)
		bytes = fread(text, 1, FILE_BYTES_MAX, file);
	fclose(file);
	if (text == NULL || bytes == FILE_BYTES_MAX)
		fprintf(stderr, "towstat: %s: larger than towstat reads, or no memory\n", path);
	else
		root = json_loadb(text, bytes, 0, &wrong);
	if (text != NULL && bytes < FILE_BYTES_MAX && !json_is_object(root)) {
		words_clean(why, sizeof(why), root == NULL ? wrong.text : "no JSON object");
		fprintf(stderr, "towstat: %s: no snapshot: %s\n", path, why);
		json_decref(root);
		root = NULL;
	}
	free(text);
	return root;
}

/* Reads a regular file, a socket, or a rank by its name. */
static json_t *read_snapshot(const char *what)
{
	char socket_path[256];
	struct stat st;
	json_t *root;

	if (stat(what, &st) == 0 && S_ISREG(st.st_mode)) {
		root = read_file(what);
	} else {
		int is_socket = strchr(what, '/') != NULL;

		if (find_target(is_socket ? what : NULL, is_socket ? NULL : what, socket_path,
				sizeof(socket_path)) != 0)
			return NULL;
		root = fetch_snapshot(socket_path);
	}
	if (root != NULL && !json_is_object(json_object_get(root, "counters")) &&
	    !json_is_array(json_object_get(root, "rpcs"))) {
		fprintf(stderr, "towstat: %s: there are neither counters nor latencies in it\n",
			what);
		json_decref(root);
		return NULL;
	}
	return root;
}

static void value_text(double value, enum compared_unit unit, char out[WORDS_BYTES])
{
	if (value >= 0 && value < 10 && value != floor(value))
		snprintf(out, WORDS_BYTES, "%.3g%s", value,
			 unit == UNIT_BYTES ? " B"
			 : unit == UNIT_NS  ? " ns"
					    : "");
	else if (!(value >= 0 && value < 1.8e19))
		snprintf(out, WORDS_BYTES, "%.3g", value);
	else if (unit == UNIT_BYTES)
		words_bytes((unsigned long long)value, out);
	else if (unit == UNIT_NS)
		words_ns((unsigned long long)value, out);
	else
		words_count((unsigned long long)value, out);
}

static void change_text(double change, char out[WORDS_BYTES])
{
	if (isinf(change))
		snprintf(out, WORDS_BYTES, change > 0 ? "new" : "gone");
	else if (fabs(change) >= 10)
		snprintf(out, WORDS_BYTES, "x%.1f", change + 1);
	else
		snprintf(out, WORDS_BYTES, "%+.1f%%", change * 100);
}

static int is_shown(const struct diff *diff, const struct compared *row)
{
	return diff->all || row->change != 0;
}

static void print_rows(const struct diff *diff, const struct comparison *found)
{
	char a[WORDS_BYTES], b[WORDS_BYTES], change[WORDS_BYTES];
	long shown = 0, left = 0;

	for (size_t i = 0; i < found->count; i++) {
		const struct compared *row = &found->rows[i];

		if (!is_shown(diff, row))
			continue;
		if (diff->count > 0 && shown == diff->count) {
			left++;
			continue;
		}
		if (shown++ == 0)
			printf("%-44s %12s %12s %10s\n", "WHAT", "A", "B", "CHANGE");
		value_text(row->a, row->unit, a);
		value_text(row->b, row->unit, b);
		change_text(row->change, change);
		printf("%-44s %12s %12s %10s%s\n", row->name, a, b, change,
		       row->worse ? "  worse" : "");
	}
	if (left > 0)
		printf("and %ld more\n", left);
	if (found->per != NULL)
		printf("Counters and reasons are per %s.\n",
		       strcmp(found->per, "second") == 0 ? "second" : found->per);
	printf("%zu worse by more than %g %%, of %zu compared%s.\n", found->worse,
	       diff->options.tolerance * 100, found->count,
	       found->missed > 0 ? "; there were more, which are not" : "");
}

static int print_json(const struct diff *diff, const struct comparison *found)
{
	static const char *const units[] = { "count", "bytes", "ns" };
	json_t *rows = json_array(), *root;
	int failed;

	for (size_t i = 0; i < found->count; i++) {
		const struct compared *row = &found->rows[i];

		if (!is_shown(diff, row))
			continue;
		json_array_append_new(
			rows, json_pack("{s:s, s:s, s:f, s:f, s:o, s:b}", "name", row->name, "unit",
					units[row->unit], "a", row->a, "b", row->b, "change",
					isinf(row->change) ? json_null() : json_real(row->change),
					"worse", row->worse));
	}
	root = json_pack("{s:i, s:i, s:f, s:s?, s:o}", "compared", (int)found->count, "worse",
			 (int)found->worse, "tolerance", diff->options.tolerance, "per", found->per,
			 "rows", rows);
	failed = root == NULL || json_dumpf(root, stdout, JSON_INDENT(2)) != 0;
	printf("\n");
	json_decref(root);
	return failed;
}

static int compare_all(const struct diff *diff, const char *what_a, const char *what_b)
{
	struct comparison *found = calloc(1, sizeof(*found));
	json_t *a = found != NULL ? read_snapshot(what_a) : NULL;
	json_t *b = a != NULL ? read_snapshot(what_b) : NULL;
	int status = EXIT_TROUBLE;
	char error[160];

	if (b != NULL) {
		if (documents_compare(a, b, &diff->options, found, error, sizeof(error)) != 0) {
			fprintf(stderr, "towstat: %s\n", error);
		} else {
			status = found->worse > 0;
			if (!diff->json)
				print_rows(diff, found);
			else if (print_json(diff, found) != 0)
				status = EXIT_TROUBLE;
		}
	}
	json_decref(a);
	json_decref(b);
	free(found);
	return status;
}

enum { OPT_PER = 256, OPT_ALL, OPT_JSON, OPT_EXACT };

/* Returns 0, or the exit status. */
static int take_option(struct diff *diff, int option)
{
	switch (option) {
	case OPT_PER:
		diff->options.per = optarg;
		return 0;
	case 't':
		if (read_seconds(optarg, 0, 1e6, &diff->options.tolerance) != 0)
			return misuse("--tolerance is a percentage", optarg);
		diff->options.tolerance /= 100;
		return 0;
	case OPT_ALL:
		diff->all = 1;
		return 0;
	case OPT_EXACT:
		diff->options.exact = true;
		return 0;
	case OPT_JSON:
		diff->json = 1;
		return 0;
	case 'n':
		if (read_number(optarg, 1, 1000000, &diff->count) != 0)
			return misuse("--count is a number from 1", optarg);
		return 0;
	default:
		return misuse("diff: wrong option", "");
	}
}

int run_diff(int argc, char **argv)
{
	static const struct option options[] = {
		{ "per", required_argument, NULL, OPT_PER },
		{ "tolerance", required_argument, NULL, 't' },
		{ "all", no_argument, NULL, OPT_ALL },
		{ "count", required_argument, NULL, 'n' },
		{ "json", no_argument, NULL, OPT_JSON },
		{ "exact", no_argument, NULL, OPT_EXACT },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct diff diff = { .options = { .tolerance = 0.1 } };
	int option, status;

	while ((option = getopt_long(argc, argv, "t:n:h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		status = take_option(&diff, option);
		if (status != 0)
			return status;
	}
	if (argc - optind != 2)
		return misuse("diff takes two snapshots, A and B", "");
	return compare_all(&diff, argv[optind], argv[optind + 1]);
}
