/*
 * towstat_verdict.c - /v1/verdict for people: causes, culprits, evidence, and what mends them.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "http_unix.h"
#include "towstat.h"

/* Names and texts come from another process: what a terminal would obey is not printed. */
static void print_clean(const char *text)
{
	for (; text != NULL && *text != '\0'; text++) {
		unsigned char byte = (unsigned char)*text;

		putchar(byte < 0x20 || byte == 0x7f ? '?' : byte);
	}
}

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

static void print_finding(const json_t *finding)
{
	json_t *evidence = json_object_get(finding, "evidence"), *line;
	size_t i;

	print_numbers("rank", "ranks", json_object_get(finding, "ranks"));
	print_numbers("link", "links", json_object_get(finding, "links"));
	printf(": ");
	print_clean(json_string_value(json_object_get(finding, "cause")));
	printf(", ");
	print_clean(json_string_value(json_object_get(finding, "says")));
	printf(" (%.0f %%)\n", 100 * json_number_value(json_object_get(finding, "confidence")));
	json_array_foreach(evidence, i, line)
	{
		printf("    ");
		print_clean(json_string_value(line));
		printf("\n");
	}
	printf("  mend: ");
	print_clean(json_string_value(json_object_get(finding, "cure")));
	printf("\n");
}

static int print_verdict(const json_t *root)
{
	json_t *findings = json_object_get(root, "findings"), *finding;
	size_t i;

	print_clean(json_string_value(json_object_get(root, "state")));
	printf(": %lld of %lld ranks answered rank %lld",
	       (long long)json_integer_value(json_object_get(root, "ranks_answered")),
	       (long long)json_integer_value(json_object_get(root, "ranks_in_job")),
	       (long long)json_integer_value(json_object_get(root, "asked_by")));
	if (json_integer_value(json_object_get(root, "ranks_unknown")) > 0)
		printf(", of %lld nothing is known",
		       (long long)json_integer_value(json_object_get(root, "ranks_unknown")));
	printf("%s\n", json_is_true(json_object_get(root, "telemetry_lost"))
			       ? "; some telemetry was lost"
			       : "");
	json_array_foreach(findings, i, finding) print_finding(finding);
	return json_array_size(findings) > 0 ? VERDICT_FOUND : 0;
}

int show_verdict(const char *socket_path, int json)
{
	struct http_answer answer;
	json_error_t wrong;
	char error[512];
	json_t *root;
	int status;

	if (http_get(socket_path, "/v1/verdict", &answer, error, sizeof(error)) != 0) {
		fprintf(stderr, "towstat: %s\n", error);
		return 1;
	}
	root = answer.status == 200 ? json_loadb(answer.body, answer.bytes, 0, &wrong) : NULL;
	if (root == NULL) {
		fprintf(stderr, "towstat: %s answers %d and no verdict\n", socket_path,
			answer.status);
		status = 1;
	} else if (json) {
		fwrite(answer.body, 1, answer.bytes, stdout);
		putchar('\n');
		status = json_array_size(json_object_get(root, "findings")) > 0 ? VERDICT_FOUND : 0;
	} else {
		status = print_verdict(root);
	}
	json_decref(root);
	http_answer_fini(&answer);
	return status;
}
