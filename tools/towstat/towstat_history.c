/*
 * towstat_history.c - prints /v1/verdicts for people: the earlier verdicts on a job.
 *
 * They come from the rank that looks regularly, or from several ranks where that rank changed.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tools/common/words.h"
#include "tools/towstat/towstat.h"

struct history_row {
	const json_t *row;
	long long from_ns, to_ns;
	size_t target; /* index of the rank that has the row */
};

static long long number_of(const json_t *object, const char *key)
{
	return (long long)json_integer_value(json_object_get(object, key));
}

static int compare_rows(const void *a, const void *b)
{
	const struct history_row *one = a, *other = b;

	if (one->from_ns != other->from_ns)
		return one->from_ns < other->from_ns ? -1 : 1;
	return one->target < other->target ? -1 : one->target > other->target;
}

/* Prints the local time of day. */
static void print_hour(long long unix_ns)
{
	time_t seconds = (time_t)(unix_ns / 1000000000);
	char text[16] = "-";
	struct tm when;

	if (localtime_r(&seconds, &when) != NULL)
		strftime(text, sizeof(text), "%H:%M:%S", &when);
	printf("%s", text);
}

static void print_row(const struct history_row *at, int last, const char *who)
{
	const json_t *findings = json_object_get(at->row, "findings"), *finding;
	long long looks = number_of(at->row, "looks"),
		  unknown = number_of(at->row, "ranks_unknown");
	size_t i;

	print_hour(at->from_ns);
	printf(" - ");
	if (last)
		printf("now     ");
	else
		print_hour(at->to_ns);
	printf("  ");
	print_clean(json_string_value(json_object_get(at->row, "state")));
	printf(": %lld of %lld ranks answered ", number_of(at->row, "ranks_answered"),
	       number_of(at->row, "ranks_in_job"));
	print_clean(who);
	if (unknown > 0)
		printf(", of %lld nothing is known", unknown);
	printf(" (%lld look%s)\n", looks, looks == 1 ? "" : "s");
	json_array_foreach(findings, i, finding) print_finding("    ", finding);
}

/* Appends the rows of one document that reach into the wanted time. */
static int add_rows(struct history_row **rows, size_t *count, const json_t *document, size_t target,
		    double seconds)
{
	const json_t *list = json_object_get(document, "rows"), *row;
	long long since = number_of(document, "now_unix_ns") - (long long)(seconds * 1e9);
	struct history_row *grown;
	size_t i;

	grown = realloc(*rows, (*count + json_array_size(list) + 1) * sizeof(**rows));
	if (grown == NULL)
		return -1;
	*rows = grown;
	json_array_foreach(list, i, row)
	{
		if (number_of(row, "to_unix_ns") >= since)
			grown[(*count)++] =
				(struct history_row){ row, number_of(row, "from_unix_ns"),
						      number_of(row, "to_unix_ns"), target };
	}
	return 0;
}

/* Whether the row is the newest of a recent document, so that it still holds. */
static int goes_on(const json_t *document, const json_t *row)
{
	const json_t *rows = json_object_get(document, "rows");

	return row == json_array_get(rows, json_array_size(rows) - 1) &&
	       number_of(row, "to_unix_ns") + 2 * number_of(document, "interval_ns") >=
		       number_of(document, "now_unix_ns");
}

/*
 * FOUND when any row names a rank, else the status of the newest row. PARTIAL: there are no rows.
 */
static enum verdict_status status_of_rows(const struct history_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (verdict_status_of(rows[i].row) == VERDICT_FOUND)
			return VERDICT_FOUND;
	return count > 0 ? verdict_status_of(rows[count - 1].row) : VERDICT_PARTIAL;
}

static int print_rows(const struct runtime_list *targets, json_t *const *documents,
		      const struct history_row *rows, size_t count, double seconds)
{
	if (count == 0)
		printf("no rank has asked for a verdict in the last %.0f s\n", seconds);
	for (size_t i = 0; i < count; i++) {
		print_row(&rows[i], goes_on(documents[rows[i].target], rows[i].row),
			  targets->rows[rows[i].target].name);
	}
	return (int)status_of_rows(rows, count);
}

static int dump_rows(const struct runtime_list *targets, const struct history_row *rows,
		     size_t count)
{
	json_t *list = json_array();
	int failed;

	for (size_t i = 0; i < count; i++) {
		json_t *row = row_of_runtime(&targets->rows[rows[i].target]);

		json_object_update(row, (json_t *)rows[i].row);
		json_array_append_new(list, row);
	}
	failed = dump_json(list);
	json_decref(list);
	return failed != 0 ? failed : (int)status_of_rows(rows, count);
}

int show_history(const struct runtime_list *targets, double seconds, int json)
{
	json_t **documents = calloc(targets->count + 1, sizeof(json_t *));
	struct history_row *rows = NULL;
	size_t count = 0, answered = 0;
	int status = documents == NULL ? -1 : 0;

	for (size_t i = 0; status == 0 && i < targets->count; i++) {
		documents[i] = fetch_json(targets->rows[i].path, "/v1/verdicts");
		answered += documents[i] != NULL;
		if (documents[i] != NULL)
			status = add_rows(&rows, &count, documents[i], i, seconds);
	}
	if (status != 0) {
		fprintf(stderr, "towstat: no memory\n");
		status = 1;
	} else if (answered == 0) {
		status = 1; /* the reason was printed for each */
	} else {
		if (count > 1)
			qsort(rows, count, sizeof(*rows), compare_rows);
		status = json ? dump_rows(targets, rows, count)
			      : print_rows(targets, documents, rows, count, seconds);
	}
	for (size_t i = 0; documents != NULL && i < targets->count; i++)
		json_decref(documents[i]);
	free(documents);
	free(rows);
	return status;
}
