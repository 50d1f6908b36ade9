/*
 * memreg_names.c - the names of tags and call sites, and sizes as people read and write them.
 */
#include "bench/memreg/memreg_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/memreg/tow_size.h"
#include "diag/base/hash.h"
#include <internal/base.h>

#define PLACES (2u << 13) /* of the hash table; more than twice the number of words */

void memreg_names_free(struct memreg_names *names)
{
	free(names->row);
	free(names->at);
	*names = (struct memreg_names){ .row = NULL };
}

void memreg_clean_text(char *text)
{
	for (; *text != '\0'; text++) {
		if (*text < ' ' || *text > '~')
			*text = '?';
	}
}

bool memreg_names_add(struct memreg_names *names, enum memreg_named kind, uint64_t key,
		      const char *text)
{
	struct memreg_name *row;

	if (names->count == names->room) {
		uint32_t room = 2 * names->room + 16;
		void *grown = realloc(names->row, room * sizeof(names->row[0]));

		if (grown == NULL)
			return false;
		names->row = grown;
		names->room = room;
	}
	row = &names->row[names->count++];
	*row = (struct memreg_name){ .key = key, .kind = kind };
	snprintf(row->text, sizeof(row->text), "%s", text);
	memreg_clean_text(row->text);
	return true;
}

uint64_t memreg_names_number(struct memreg_names *names, enum memreg_named kind, const char *word)
{
	static const uint32_t most[] = { MEMREG_TAG_WORDS, MEMREG_CALLER_WORDS };
	static const uint64_t first[] = { MEMREG_TAG_FIRST, MEMREG_CALLER_FIRST };
	char text[MEMREG_NAME_ROOM];
	uint64_t key;
	uint32_t *at;

	snprintf(text, sizeof(text), "%s", word);
	memreg_clean_text(text);
	if (names->at == NULL)
		names->at = calloc(PLACES, sizeof(names->at[0]));
	if (names->at == NULL)
		return 0;
	for (uint64_t i = twi_hash_text(text) + kind;; i++) {
		const struct memreg_name *row;

		at = &names->at[i % PLACES];
		if (*at == 0)
			break;
		row = &names->row[*at - 1];
		if (row->kind == kind && strcmp(row->text, text) == 0)
			return row->key;
	}
	key = first[kind] + names->words[kind];
	if (names->words[kind] == most[kind] || !memreg_names_add(names, kind, key, text))
		return 0;
	names->words[kind]++;
	*at = names->count;
	return key;
}

const char *memreg_names_find(const struct memreg_names *names, enum memreg_named kind,
			      uint64_t key)
{
	for (uint32_t i = 0; i < names->count; i++)
		if (names->row[i].kind == kind && names->row[i].key == key)
			return names->row[i].text;
	return NULL;
}

static void tag_text(const struct memreg_job *job, uint32_t tag, char *out, size_t room)
{
	const char *name = memreg_names_find(&job->names, MEMREG_NAMED_TAG, tag);

	if (job->strategy[0] != '\0')
		snprintf(out, room, "%s", strategy_use_name((enum strategy_use)tag));
	else if (tag == TWI_ALLOC_TAG_LIBRARY)
		snprintf(out, room, "the library: collectives, calls, views");
	else if (name != NULL)
		snprintf(out, room, "tag %s", name);
	else
		snprintf(out, room, "tag %" PRIu32, tag);
}

void memreg_caller_text(const struct memreg_job *job, uint64_t caller, char *out, size_t room)
{
	const char *name = memreg_names_find(&job->names, MEMREG_NAMED_CALLER, caller);

	if (caller == TWI_REPLAY_REST)
		snprintf(out, room, "all others");
	else if (caller == MEMREG_BEFORE)
		snprintf(out, room, "live before the log began");
	else if (caller == 0)
		snprintf(out, room, "an unknown caller");
	else if (name != NULL)
		snprintf(out, room, "%s", name);
	else
		snprintf(out, room, "caller 0x%" PRIx64, caller);
}

void memreg_group_text(const struct memreg_job *job, const struct twi_replay_group *group,
		       char *out, size_t room)
{
	if (group->tag != 0 || job->strategy[0] != '\0')
		tag_text(job, group->tag, out, room);
	else if (group->caller == 0)
		snprintf(out, room, "the program, without a tag");
	else
		memreg_caller_text(job, group->caller, out, room);
}

void memreg_culprit_text(const struct memreg_job *job, const struct twi_replay_group *group,
			 char *out, size_t room)
{
	char place[MEMREG_NAME_ROOM];

	memreg_group_text(job, group, out, room);
	if (group->tag == 0 || group->caller == 0)
		return;
	memreg_caller_text(job, group->caller, place, sizeof(place));
	snprintf(out + strlen(out), room - strlen(out), " at %s", place);
}

struct memreg_text memreg_as_text(uint64_t bytes)
{
	struct memreg_text out;

	if (bytes < 1024)
		snprintf(out.text, sizeof(out.text), "%" PRIu64 " byte%s", bytes,
			 bytes == 1 ? "" : "s");
	else if (bytes < UINT64_C(1) << 20)
		snprintf(out.text, sizeof(out.text), "%.2f KiB", (double)bytes / 0x1p10);
	else if (bytes < UINT64_C(1) << 30)
		snprintf(out.text, sizeof(out.text), "%.2f MiB", (double)bytes / 0x1p20);
	else
		snprintf(out.text, sizeof(out.text), "%.3f GiB", (double)bytes / 0x1p30);
	return out;
}

bool memreg_parse_bytes(const char *text, uint64_t *bytes_out)
{
	static const struct {
		const char *name;
		double bytes;
	} unit[] = { { "", 1 },         { "B", 1 },    { "KiB", 0x1p10 }, { "MiB", 0x1p20 },
		     { "GiB", 0x1p30 }, { "KB", 1e3 }, { "MB", 1e6 },     { "GB", 1e9 } };
	size_t digits = strspn(text, "0123456789.");
	double value;
	char *end;

	/* Signs, exponents, infinities and hexadecimal numbers are not allowed. */
	if (digits == 0 || digits > 20)
		return false;
	value = strtod(text, &end);
	if (end != text + digits)
		return false;
	for (size_t i = 0; i < twi_array_count(unit); i++) {
		double bytes = value * unit[i].bytes;

		if (strcmp(end, unit[i].name) != 0 || bytes < 1 || bytes > 0x1p40)
			continue;
		if (unit[i].bytes < 2 && strchr(text, '.') != NULL)
			return false;
		*bytes_out = (uint64_t)bytes;
		return true;
	}
	return false;
}
