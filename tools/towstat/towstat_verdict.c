/*
 * towstat_verdict.c - prints /v1/verdict for people: causes, culprits, evidence and cures.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/words.h"
#include "tools/towstat/towstat.h"

static void print_numbers(const char *one, const char *many, const json_t *list)
{
	json_t *entry;
	size_t i;

	if (json_array_size(list) == 0)
		return;
	printf("%s ", json_array_size(list) > 1 ? many : one);
	json_array_foreach(list, i, entry)
	{
		if (json_is_object(entry))
			printf("%s%lld->%lld", i > 0 ? ", " : "",
			       (long long)json_integer_value(json_object_get(entry, "from")),
			       (long long)json_integer_value(json_object_get(entry, "to")));
		else
			printf("%s%lld", i > 0 ? ", " : "", (long long)json_integer_value(entry));
	}
}

void print_finding(const char *indent, const json_t *finding)
{
	json_t *evidence = json_object_get(finding, "evidence"), *line;
	size_t i;

	printf("%s", indent);
	print_numbers("rank", "ranks", json_object_get(finding, "ranks"));
	print_numbers("link", "links", json_object_get(finding, "links"));
	printf(": ");
	print_clean(json_string_value(json_object_get(finding, "cause")));
	printf(", ");
	print_clean(json_string_value(json_object_get(finding, "says")));
	printf(" (%.0f %%)\n", 100 * json_number_value(json_object_get(finding, "confidence")));
	json_array_foreach(evidence, i, line)
	{
		printf("%s    ", indent);
		print_clean(json_string_value(line));
		printf("\n");
	}
	printf("%s  mend: ", indent);
	print_clean(json_string_value(json_object_get(finding, "cure")));
	printf("\n");
}

static long long number_of(const json_t *root, const char *key)
{
	return (long long)json_integer_value(json_object_get(root, key));
}

enum verdict_status verdict_status_of(const json_t *root)
{
	const char *state = json_string_value(json_object_get(root, "state"));

	if (json_array_size(json_object_get(root, "findings")) > 0)
		return VERDICT_FOUND;
	if (number_of(root, "ranks_answered") < number_of(root, "ranks_in_job") ||
	    number_of(root, "ranks_missing") > 0)
		return VERDICT_PARTIAL;
	return state != NULL && strcmp(state, "healthy") == 0 ? VERDICT_HEALTHY : VERDICT_NOBODY;
}

/* The graver status of two runtimes that answer for themselves. */
static enum verdict_status graver_status(enum verdict_status one, enum verdict_status other)
{
	static const enum verdict_status order[] = {
#define ROW(status, name, says) VERDICT_##name,
		VERDICT_STATUS_MAP(ROW)
#undef ROW
	};
	size_t i = 0;

	while (order[i] != one && order[i] != other)
		i++;
	return order[i];
}

void print_verdict_head(const json_t *root)
{
	enum verdict_status status = verdict_status_of(root);

	print_clean(json_string_value(json_object_get(root, "state")));
	printf("%s: %lld of %lld ranks ", status == VERDICT_PARTIAL ? ", as far as is known" : "",
	       number_of(root, "ranks_answered"), number_of(root, "ranks_in_job"));
	if (json_is_true(json_object_get(root, "joined")))
		printf("of this host answered");
	else
		printf("answered rank %lld", number_of(root, "asked_by"));
	if (number_of(root, "ranks_elsewhere") > 0)
		printf(", %lld are elsewhere", number_of(root, "ranks_elsewhere"));
	if (number_of(root, "ranks_unknown") > 0)
		printf(", of %lld nothing is known", number_of(root, "ranks_unknown"));
	if (number_of(root, "ranks_missing") > 0)
		printf(", %lld of the job have not come", number_of(root, "ranks_missing"));
	printf("%s\n", json_is_true(json_object_get(root, "telemetry_lost"))
			       ? "; some telemetry was lost"
			       : "");
}

/* Prints how much of its time a slow job waits, and a cure when no rank is named. */
static void print_blocked(const json_t *root)
{
	const json_t *blocked = json_object_get(root, "blocked");
	const char *state = json_string_value(json_object_get(root, "state"));
	const char *cure = json_string_value(json_object_get(blocked, "cure"));

	if (state == NULL || strcmp(state, "slow") != 0 || cure == NULL)
		return;
	printf("    ");
	print_clean(json_string_value(json_object_get(blocked, "says")));
	printf("\n");
	if (json_array_size(json_object_get(root, "findings")) > 0)
		return;
	printf("  mend: ");
	print_clean(cure);
	printf("\n");
}

int print_verdict(const json_t *root)
{
	json_t *findings = json_object_get(root, "findings"), *finding;
	size_t i;

	print_verdict_head(root);
	print_blocked(root);
	json_array_foreach(findings, i, finding) print_finding("", finding);
	return verdict_status_of(root);
}

/* The verdict of one runtime; NULL: the reason is printed. */
static json_t *fetch_verdict(const char *socket_path)
{
	json_t *root = fetch_json(socket_path, "/v1/verdict");

	if (root != NULL && !json_is_object(root)) {
		fprintf(stderr, "towstat: %s gives no verdict\n", socket_path);
		json_decref(root);
		return NULL;
	}
	return root;
}

/* A rank that has more answers knows more of the job. Of two equal ranks the first is kept. */
static int knows_more(const json_t *root, const json_t *best)
{
	return best == NULL ||
	       number_of(root, "ranks_answered") > number_of(best, "ranks_answered");
}

#define ASKED_MAX 4 /* ranks that know others; a rank that hangs has no answer from them */

/*
 * Asks ranks until one knows the whole job, or a few have answered. Each rank can give the verdict
 * on the whole job, and each ask costs all ranks something. documents[i] is the answer of the i-th
 * rank; NULL: it was not asked, or did not answer. Returns the index of the best answer;
 * targets->count: no rank answered.
 */
static size_t ask_ranks(const struct runtime_list *targets, json_t **documents)
{
	size_t best = targets->count, asked = 0;

	for (size_t i = 0; i < targets->count && asked < ASKED_MAX; i++) {
		documents[i] = fetch_verdict(targets->rows[i].path);
		if (documents[i] == NULL)
			continue;
		if (knows_more(documents[i], best < targets->count ? documents[best] : NULL))
			best = i;
		asked += number_of(documents[i], "ranks_in_job") > 1;
		if (number_of(documents[i], "ranks_in_job") > 1 &&
		    number_of(documents[i], "ranks_answered") ==
			    number_of(documents[i], "ranks_in_job"))
			break;
	}
	return best;
}

int dump_json(const json_t *root)
{
	if (json_dumpf(root, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII) == 0 &&
	    putchar('\n') != EOF)
		return 0;
	fprintf(stderr, "towstat: no memory, or the output cannot be written\n");
	return 1;
}

/* Makes a row for each rank, as no group joins them and each knows only itself. */
static json_t *rows_of_each(const struct runtime_list *targets, json_t *const *documents)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < targets->count; i++) {
		json_t *row;

		if (documents[i] == NULL)
			continue;
		row = row_of_runtime(&targets->rows[i]);
		json_object_set(row, "document", documents[i]);
		json_array_append_new(rows, row);
	}
	return rows;
}

json_t *find_verdict(const struct runtime_list *targets)
{
	json_t *found = targets->count > 1 ? join_verdict(targets) : NULL, **documents;
	size_t best;

	if (found != NULL)
		return found;
	documents = calloc(targets->count, sizeof(json_t *));
	if (documents == NULL) {
		fprintf(stderr, "towstat: no memory\n");
		return NULL;
	}
	best = ask_ranks(targets, documents);
	if (best < targets->count && targets->count > 1 &&
	    number_of(documents[best], "ranks_in_job") <= 1)
		found = rows_of_each(targets, documents);
	else if (best < targets->count)
		found = json_incref(documents[best]);
	for (size_t i = 0; i < targets->count; i++)
		json_decref(documents[i]);
	free(documents);
	return found;
}

enum verdict_status verdict_status_of_all(const json_t *found)
{
	enum verdict_status status = VERDICT_HEALTHY;
	json_t *row;
	size_t i;

	if (!json_is_array(found))
		return verdict_status_of(found);
	json_array_foreach(found, i, row) status =
		graver_status(status, verdict_status_of(json_object_get(row, "document")));
	return status;
}

static void print_each(const json_t *rows)
{
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		printf("%s# %s\n", i > 0 ? "\n" : "",
		       json_string_value(json_object_get(row, "name")));
		print_verdict(json_object_get(row, "document"));
	}
}

int show_verdict(const struct runtime_list *targets, int json)
{
	json_t *found = find_verdict(targets);
	int status = 1;

	if (found != NULL && json && dump_json(found) != 0) {
		json_decref(found);
		return 1;
	}
	if (found != NULL && !json && json_is_array(found))
		print_each(found);
	else if (found != NULL && !json) {
		print_verdict(found);
		print_named_stacks(&targets->rows[0], found);
	}
	if (found != NULL)
		status = (int)verdict_status_of_all(found);
	json_decref(found);
	return status;
}
