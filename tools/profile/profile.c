/*
 * profile.c - the rows of a profile; see profile.h.
 */
#include "tools/profile/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towline/coll.h>

#include "diag/record/coll_kind.h"

void tool_profile_fini(struct tool_profile *profile)
{
	free(profile->collectives.rows);
	free(profile->names.rows);
	*profile = (struct tool_profile){ 0 };
}

bool tool_profile_is_kind(const char *kind)
{
	static const char *const kinds[] = {
#define KIND(name, text) text,
		TWI_COLL_MAP(KIND)
#undef KIND
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kind, kinds[i]) == 0)
			return true;
	}
	return false;
}

uint64_t tool_profile_type_bytes(const char *type)
{
	static const struct {
		const char *name;
		uint64_t bytes;
	} types[] = {
#define TYPE(id, value, bytes, text) { text, bytes },
		TOW_TYPE_MAP(TYPE)
#undef TYPE
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (strcmp(type, types[i].name) == 0)
			return types[i].bytes;
	}
	return 0;
}

static struct tool_profile_list *list_of(struct tool_profile *profile,
					 const struct tool_profile_row *row)
{
	return row->name[0] != '\0' ? &profile->names : &profile->collectives;
}

int tool_profile_add(struct tool_profile *profile, const struct tool_profile_row *row, char *why)
{
	struct tool_profile_list *list = list_of(profile, row);
	size_t room = list->room == 0 ? 64 : list->room * 2;
	struct tool_profile_row *grown;

	if (list->count >= TOOL_PROFILE_ROWS) {
		snprintf(why, TOOL_PROFILE_WHY, "it has more than %u rows", TOOL_PROFILE_ROWS);
		return -1;
	}
	if (list->count == list->room) {
		grown = realloc(list->rows, room * sizeof(*grown));
		if (grown == NULL) {
			snprintf(why, TOOL_PROFILE_WHY, "there is no memory for %zu rows", room);
			return -1;
		}
		list->rows = grown;
		list->room = room;
	}
	list->rows[list->count++] = *row;
	return 0;
}

/* Compares the keys of two rows; 0: the same key. */
static int compare_rows(const void *a, const void *b)
{
	const struct tool_profile_row *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	if (order == 0)
		order = strcmp(left->kind, right->kind);
	if (order == 0)
		order = strcmp(left->type, right->type);
	if (order == 0)
		order = strcmp(left->lane, right->lane);
	if (order == 0)
		order = (left->ranks > right->ranks) - (left->ranks < right->ranks);
	if (order == 0)
		order = (left->hosts > right->hosts) - (left->hosts < right->hosts);
	if (order == 0)
		order = (left->bytes > right->bytes) - (left->bytes < right->bytes);
	return order;
}

static int check_twice(struct tool_profile_list *list, char *why)
{
	if (list->count < 2)
		return 0;
	qsort(list->rows, list->count, sizeof(list->rows[0]), compare_rows);
	for (size_t i = 1; i < list->count; i++) {
		const struct tool_profile_row *row = &list->rows[i];

		if (compare_rows(row - 1, row) != 0)
			continue;
		snprintf(why, TOOL_PROFILE_WHY,
			 "%s of %" PRIu64 " bytes on %u ranks, lane %s, is there twice", row->kind,
			 row->bytes, row->ranks, row->lane[0] != '\0' ? row->lane : "unknown");
		return -1;
	}
	return 0;
}

int tool_profile_merge(struct tool_profile *into, struct tool_profile *from, char *why)
{
	const struct tool_profile_list *lists[] = { &from->collectives, &from->names };
	struct tool_profile both = { 0 };
	int status = 0;

	for (int turn = 0; turn < 2; turn++) {
		for (size_t i = 0; i < lists[0]->count && status == 0; i++)
			status = tool_profile_add(&both, &lists[0]->rows[i], why);
		for (size_t i = 0; i < lists[1]->count && status == 0; i++)
			status = tool_profile_add(&both, &lists[1]->rows[i], why);
		lists[0] = &into->collectives;
		lists[1] = &into->names;
	}
	if (status == 0)
		status = check_twice(&both.collectives, why);
	if (status == 0)
		status = check_twice(&both.names, why);
	if (status != 0) {
		tool_profile_fini(&both);
		return status;
	}
	tool_profile_fini(into);
	tool_profile_fini(from);
	*into = both;
	return 0;
}

static int compare_values(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

struct tool_profile_times tool_profile_times_of(double *values, size_t count)
{
	struct tool_profile_times times = { 0, 0, 0 };

	if (count == 0)
		return times;
	qsort(values, count, sizeof(*values), compare_values);
	for (size_t i = 0; i < count; i++)
		times.mean_us += values[i] / (double)count;
	times.median_us = values[(count + 1) / 2 - 1];
	times.p90_us = values[(count * 9 + 9) / 10 - 1];
	return times;
}
