/*
 * why_waits.c - see why_waits.h.
 *
 * The flight recorder says which operations are under way, since when, and their names. A receive
 * that a server has posted in advance looks the same as a receive in which a rank hangs. Only the
 * verdict tells them apart, so it is asked before anything is printed.
 */
#include "tools/towstat/why_waits.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/common/words.h"
#include "tools/towstat/towstat.h"

#define LONG_NS 1000000000
#define SHOWN   8

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static json_int_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static json_int_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (json_int_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The operations that have waited for long, each with its age. */
static json_t *long_ones(const json_t *flight)
{
	json_t *rows = json_array(), *entry;
	json_int_t now = now_ns();
	size_t i;

	json_array_foreach(json_object_get(flight, "entries"), i, entry)
	{
		const char *state = text_of(entry, "state");
		json_int_t created = number_of(entry, "time_created_ns");
		json_t *row;

		/* Another process has written the time, so now - created must not overflow. */
		if (state == NULL || strcmp(state, "completed") == 0 || created <= 0 ||
		    created > now || now - created < LONG_NS)
			continue;
		row = json_copy(entry);
		json_object_set_new(row, "waits_ns", json_integer(now - created));
		json_array_append_new(rows, row);
	}
	return rows;
}

json_t *find_waits(const char *socket_path, const json_t *flight)
{
	json_t *rows = long_ones(flight), *verdict = NULL;
	const char *state = NULL;

	if (json_array_size(rows) > 0)
		verdict = fetch_json(socket_path, "/v1/verdict");
	state = text_of(verdict, "state");
	if (state == NULL || strcmp(state, "healthy") == 0) {
		json_decref(rows);
		json_decref(verdict);
		return NULL;
	}
	return json_pack("{s:o, s:o}", "operations", rows, "verdict", verdict);
}

const char *group_of_entry(const json_t *entry)
{
	if (json_is_true(json_object_get(entry, "is_p2p")))
		return text_of(entry, "group");
	return json_string_value(json_array_get(json_object_get(entry, "process_group"), 1));
}

/* Prints: all-reduce "grads" number 12 in dp: for 3 s. Unknown parts are left out. */
static void print_operation(const json_t *row)
{
	const char *kind = text_of(row, "profiling_name"), *name = text_of(row, "name");
	bool message = json_is_true(json_object_get(row, "is_p2p"));
	const char *group = group_of_entry(row);
	json_t *peer = json_object_get(row, "peer_rank");
	char age[WORDS_BYTES], word[64];

	if (kind != NULL && strncmp(kind, "towline:", 8) == 0)
		kind += 8;
	if (kind != NULL) { /* "recv 1<-0": the ranks are printed below */
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(kind, " "), kind);
		kind = word;
	}
	words_ns((unsigned long long)number_of(row, "waits_ns"), age);
	printf("  ");
	print_clean(kind != NULL ? kind : "?");
	if (name != NULL) {
		printf(" \"");
		print_clean(name);
		printf("\"");
	}
	if (message)
		printf(" of tag %#llx", (unsigned long long)number_of(row, "op_id"));
	else
		printf(" number %lld", (long long)number_of(row, "collective_seq_id"));
	if (json_is_integer(peer))
		printf(" with rank %lld", (long long)json_integer_value(peer));
	if (group != NULL) {
		printf(" in ");
		print_clean(group);
	}
	printf(": for %s\n", age);
}

json_int_t print_waits(const json_t *waits)
{
	json_t *rows = json_object_get(waits, "operations"), *row, *line;
	json_t *verdict = json_object_get(waits, "verdict"), *finding;
	size_t i, k, count = json_array_size(rows);

	if (count == 0)
		return 0;
	printf("Operations that wait now:\n");
	json_array_foreach(rows, i, row)
	{
		if (i < SHOWN)
			print_operation(row);
	}
	if (count > SHOWN)
		printf("  and %zu more\n", count - SHOWN);
	json_array_foreach(json_object_get(verdict, "findings"), i, finding)
	{
		json_array_foreach(json_object_get(finding, "evidence"), k, line)
		{
			printf("    ");
			print_clean(json_string_value(line));
			printf("\n");
		}
	}
	if (json_array_size(json_object_get(verdict, "findings")) == 0)
		printf("    the verdict names no rank that holds them up\n");
	return (json_int_t)count;
}
