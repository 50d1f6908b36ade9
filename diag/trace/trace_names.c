/*
 * trace_names.c - names collectives in a trace after their name and their group's label.
 *
 *	span: name "all_reduce", id 3 << 32 | 17     label of group 3: "default_pg"
 *	in the trace: "all_reduce of default_pg"
 *
 * A span has only the number of a name. When a trace is read, the label is looked up, and both
 * together become one more name of the trace. So no trace format needs labels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>
#include <towline/status.h>

#include "diag/record/diag.h"
#include "diag/record/tag.h"
#include "diag/trace/trace_build.h"

#define PAIRS 64u
#define CHARS (TWI_TAG_BYTES + TOW_GROUP_LABEL_MAX + 8)

/* The name for a name and a group. The cache is direct-mapped: an entry can replace another. */
struct pair {
	bool known;
	uint32_t group, name, together;
};

static int find_name(struct twi_trace_rank *rank, const char *text, uint32_t *name_out)
{
	char **names, *copy;

	for (size_t i = 0; i < rank->name_count; i++) {
		if (strcmp(rank->names[i], text) == 0) {
			*name_out = (uint32_t)i + 1;
			return TOW_OK;
		}
	}
	copy = strdup(text);
	names = copy != NULL ? realloc(rank->names, (rank->name_count + 1) * sizeof(*names)) : NULL;
	if (names == NULL) {
		free(copy);
		return TOW_ENOMEM;
	}
	rank->names = names;
	names[rank->name_count++] = copy;
	*name_out = (uint32_t)rank->name_count;
	return TOW_OK;
}

static int join_names(struct twi_diag *diag, struct twi_trace_rank *rank, struct pair *pair)
{
	const char *name = twi_tag_text(pair->name);
	char label[TOW_GROUP_LABEL_MAX], text[CHARS];
	int status = TOW_OK;

	pair->together = pair->name;
	twi_label_read(diag, pair->group, label);
	if (label[0] != '\0') {
		snprintf(text, sizeof(text), "%s%s%s", name != NULL ? name : "",
			 name != NULL ? " of " : "", label);
		status = find_name(rank, text, &pair->together);
	}
	pair->known = status == TOW_OK;
	return status;
}

int twi_trace_name_spans(struct twi_diag *diag, struct twi_trace_rank *rank,
			 struct twi_trace_thread *thread)
{
	struct pair pairs[PAIRS] = { { 0 } };
	int status = TOW_OK;

	for (size_t i = 0; i < thread->span_count && status == TOW_OK; i++) {
		struct twi_span *span = &thread->spans[i];
		uint32_t group = (uint32_t)(span->id >> 32);
		struct pair *pair = &pairs[(group * 31 + span->name) % PAIRS];

		if (span->kind != TWI_SPAN_COLL)
			continue;
		if (!pair->known || pair->group != group || pair->name != span->name) {
			*pair = (struct pair){ .group = group, .name = span->name };
			status = join_names(diag, rank, pair);
		}
		span->name = pair->together;
	}
	return status;
}
