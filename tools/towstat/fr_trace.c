/* fr_trace.c - see fr_trace.h. */
#include "tools/towstat/fr_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/save.h"
#include "tools/towstat/pickle.h"

static int is_rank(const char *text, const char **end_out)
{
	size_t digits = strspn(text, "0123456789");

	*end_out = text + digits;
	return digits > 0 && digits < 10;
}

/* "towline:send 0->1", "towline:recv 1<-0" or "towline:recv 1<-?". */
static int names_both(const json_t *entry)
{
	const char *name = json_string_value(json_object_get(entry, "profiling_name"));
	const char *ranks = name != NULL ? strchr(name, ' ') : NULL, *end;

	if (ranks == NULL || !is_rank(ranks + 1, &end))
		return 0;
	if (strcmp(end, "<-?") == 0)
		return 1;
	return (strncmp(end, "->", 2) == 0 || strncmp(end, "<-", 2) == 0) &&
	       is_rank(end + 2, &end) && *end == '\0';
}

/* Whether the analyzer finds the members of the entry's group, and both ranks of a message. */
static int analyzer_accepts(const json_t *document, const json_t *entry)
{
	const json_t *groups = json_object_get(document, "pg_config");
	const char *group =
		json_string_value(json_array_get(json_object_get(entry, "process_group"), 0));

	return group != NULL && json_object_get(groups, group) != NULL &&
	       (!json_is_true(json_object_get(entry, "is_p2p")) || names_both(entry));
}

/*
 * An entry in the form that all versions of the analyzer read. Some versions know NCCL's entries
 * alone. They also take messages of one number for one call, so each message gets a number of its
 * own here. In the document, messages that wait for a match share one number.
 *
 * The analyzer leaves out what has a lower record_id than the first entry of any rank. Numbers of
 * the document are of several kinds, and a message under way has the least. Here it gets the
 * highest one that came before it.
 */
static json_t *to_nccl_entry(const json_t *entry, long long *messages, long long *highest)
{
	long long record = json_integer_value(json_object_get(entry, "record_id"));
	json_t *out = json_copy((json_t *)entry);
	const char *name = json_string_value(json_object_get(entry, "profiling_name"));
	const char *operation = name != NULL ? strchr(name, ':') : NULL;

	if (operation != NULL)
		json_object_set_new(out, "profiling_name", json_sprintf("nccl%s", operation));
	if (json_is_true(json_object_get(entry, "is_p2p")))
		json_object_set_new(out, "p2p_seq_id", json_integer(++*messages));
	if (record > *highest)
		*highest = record;
	else if (json_is_true(json_object_get(entry, "is_p2p")) &&
		 !json_is_true(json_object_get(entry, "retired")))
		json_object_set_new(out, "record_id", json_integer(*highest));
	return out;
}

static json_t *translate_document(const json_t *document, size_t *left_out)
{
	json_t *out = json_copy((json_t *)document), *entries = json_array();
	const json_t *all = json_object_get(document, "entries");
	long long messages = 0, highest = 0;
	json_t *entry;
	size_t i;

	json_array_foreach(all, i, entry)
	{
		if (analyzer_accepts(document, entry))
			json_array_append_new(entries, to_nccl_entry(entry, &messages, &highest));
		else
			++*left_out;
	}
	json_object_set_new(out, "entries", entries);
	return out;
}

static int save_pickle(const char *folder, long rank, const char *bytes, size_t count)
{
	char path[4096];

	if (snprintf(path, sizeof(path), "%s/rank_%ld", folder, rank) < (int)sizeof(path))
		return save_file("towstat", path, bytes, count);
	fprintf(stderr, "towstat: the path of the folder is too long\n");
	return -1;
}

int fr_trace_write(const char *folder, long rank, const json_t *document, size_t *left_out)
{
	json_t *read = translate_document(document, left_out);
	char *bytes = NULL;
	size_t count = 0;
	FILE *file = read != NULL ? open_memstream(&bytes, &count) : NULL;
	int status = -1;

	if (file != NULL) {
		status = pickle_write(read, file);
		if (fclose(file) != 0)
			status = -1;
	}
	if (status != 0)
		fprintf(stderr,
			"towstat: rank %ld: its document is too deep, or there is no memory\n",
			rank);
	else
		status = save_pickle(folder, rank, bytes, count);
	free(bytes);
	json_decref(read);
	return status;
}
