/*
 * alloclog_names.c - which names go into a log's file, and in which form; alloclog_names.h has the
 * concept.
 *
 * The work is bounded. It counts the first ROWS_MAX different tags and call sites. It looks up the
 * LOOKED_MAX of them with the highest peaks, until the header is full. A lookup walks the symbols
 * of one module.
 */
#include "memreg/alloclog/alloclog_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/base/hash.h"
#include "diag/base/place.h"
#include "diag/record/tag.h"
#include <internal/base.h>

#define ENTRY_BYTES 10 /* bytes of an entry before its text */
#define ROWS_MAX    4096
#define PLACES      (2 * ROWS_MAX)
#define LOOKED_MAX  512
#define ENOUGH      24 /* with less room than this, no more names are added */
#define SYMBOL_MOST 64 /* characters of a symbol; mangled ones may be longer */

void twi_alloclog_name_clean(char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
	}
}

bool twi_alloclog_names_put(struct twi_alloc_trace *trace, enum twi_alloclog_named kind,
			    uint64_t key, const char *text)
{
	size_t bytes = strnlen(text, TWI_ALLOCLOG_NAME_ROOM - 1);
	uint8_t *p = trace->names + trace->names_bytes;

	if (bytes == 0 || ENTRY_BYTES + bytes > TWI_ALLOCLOG_NAMES_MAX - trace->names_bytes)
		return false;
	p[0] = (uint8_t)kind;
	p[1] = (uint8_t)bytes;
	twi_put_le(p + 2, key, 8);
	memcpy(p + ENTRY_BYTES, text, bytes);
	twi_alloclog_name_clean((char *)p + ENTRY_BYTES, bytes);
	trace->names_bytes += (uint32_t)(ENTRY_BYTES + bytes);
	return true;
}

const char *twi_alloclog_names_check(const uint8_t *names, size_t bytes, size_t *at_out)
{
	size_t at = 0;

	while (at < bytes && names[at] != 0) {
		*at_out = at;
		if (bytes - at < ENTRY_BYTES || names[at + 1] > bytes - at - ENTRY_BYTES)
			return "a name is longer than what holds the names";
		if (names[at + 1] == 0 || names[at + 1] >= TWI_ALLOCLOG_NAME_ROOM)
			return "the length of a name is not from 1 to 127";
		at += ENTRY_BYTES + names[at + 1];
	}
	for (; at < bytes; at++) {
		*at_out = at;
		if (names[at] != 0)
			return "there is something behind the last name";
	}
	return NULL;
}

bool twi_alloclog_names_next(const struct twi_alloc_trace *trace, size_t *at,
			     struct twi_alloclog_name *out)
{
	const uint8_t *p = trace->names + *at;

	if (*at >= trace->names_bytes || p[0] == 0)
		return false;
	*out = (struct twi_alloclog_name){ .kind = p[0], .key = twi_get_le(p + 2, 8) };
	memcpy(out->text, p + ENTRY_BYTES, p[1]);
	twi_alloclog_name_clean(out->text, p[1]);
	*at += ENTRY_BYTES + (size_t)p[1];
	return true;
}

/* A tag or a call site, with the live bytes of its allocations and their peak. */
struct name_row {
	uint8_t kind;
	uint64_t key, live, most;
};

/* The rows in which an allocation counts; 0: none. */
struct name_made {
	uint16_t tag, caller;
};

struct name_census {
	struct name_row row[ROWS_MAX]; /* the first one is for all tags and sites without a row */
	uint32_t count;
	uint16_t at[PLACES]; /* open addressing, at most half full; 0: empty */
	struct name_made *made;
};

static uint16_t find_row(struct name_census *census, enum twi_alloclog_named kind, uint64_t key)
{
	uint64_t i = twi_hash_spread(key + kind) >> 20;

	if (key == 0 || (kind == TWI_ALLOCLOG_NAMED_TAG && key == TWI_ALLOC_TAG_LIBRARY))
		return 0;
	for (;; i++) {
		uint16_t *at = &census->at[i % PLACES];

		if (*at != 0 && census->row[*at].kind == kind && census->row[*at].key == key)
			return *at;
		if (*at != 0)
			continue;
		if (census->count == ROWS_MAX)
			return 0;
		census->row[census->count] = (struct name_row){ .kind = (uint8_t)kind, .key = key };
		*at = (uint16_t)census->count;
		return (uint16_t)census->count++;
	}
}

static void count_row(struct name_row *row, uint64_t bytes)
{
	row->live += bytes;
	row->most = twi_max(row->most, row->live);
}

static void count_event(struct name_census *census, const struct twi_alloc_event *event)
{
	struct name_made made;

	if (event->kind == TWI_ALLOC_ALLOC) {
		made.tag = find_row(census, TWI_ALLOCLOG_NAMED_TAG, event->tag);
		made.caller = find_row(census, TWI_ALLOCLOG_NAMED_CALLER, event->caller);
		census->made[event->id - 1] = made;
		count_row(&census->row[made.tag], event->bytes);
		count_row(&census->row[made.caller], event->bytes);
	} else if (event->kind == TWI_ALLOC_FREE && event->id != 0) {
		made = census->made[event->id - 1];
		census->row[made.tag].live -= event->bytes;
		census->row[made.caller].live -= event->bytes;
	}
}

static int compare_rows(const void *a, const void *b)
{
	const struct name_row *x = a, *y = b;

	if (x->most != y->most)
		return x->most < y->most ? 1 : -1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return (x->key > y->key) - (x->key < y->key);
}

/* Writes "train_step+0x41 in trainer+0x1241", or the known part of it; "": nothing is known. */
static void write_place(uint64_t caller, char *out, size_t room)
{
	struct twi_place place;
	const char *file;

	twi_place_find((const void *)(uintptr_t)caller, &place);
	file = strrchr(place.module, '/');
	file = file != NULL ? file + 1 : place.module;
	out[0] = '\0';
	if (!place.found || file[0] == '\0')
		return;
	if (place.symbol[0] == '\0')
		snprintf(out, room, "%.64s+0x%llx", file, (unsigned long long)place.module_offset);
	else
		snprintf(out, room, "%.*s%s+0x%llx in %.24s+0x%llx", SYMBOL_MOST, place.symbol,
			 strlen(place.symbol) > SYMBOL_MOST ? "..." : "",
			 (unsigned long long)place.symbol_offset, file,
			 (unsigned long long)place.module_offset);
}

static void name_row(struct twi_alloc_trace *trace, const struct name_row *row)
{
	char place[TWI_ALLOCLOG_NAME_ROOM];
	const char *text = place;

	if (row->kind == TWI_ALLOCLOG_NAMED_CALLER)
		write_place(row->key, place, sizeof(place));
	else
		text = twi_tag_text((uint32_t)row->key);
	if (text != NULL)
		twi_alloclog_names_put(trace, row->kind, row->key, text);
}

int twi_alloclog_names_make(struct twi_alloc_trace *trace)
{
	struct name_census *census = calloc(1, sizeof(*census));
	size_t allocs = 0;

	for (size_t i = 0; i < trace->count; i++)
		allocs += trace->events[i].kind == TWI_ALLOC_ALLOC;
	if (census != NULL)
		census->made = calloc(allocs + 1, sizeof(census->made[0]));
	if (census == NULL || census->made == NULL) {
		free(census);
		return twi_error(TOW_ENOMEM, "allocation log: no memory for its names");
	}
	trace->names_bytes = 0;
	census->count = 1;
	for (size_t i = 0; i < trace->count; i++)
		count_event(census, &trace->events[i]);
	qsort(census->row + 1, census->count - 1, sizeof(census->row[0]), compare_rows);
	for (uint32_t i = 1; i < twi_min(census->count, (uint32_t)LOOKED_MAX); i++) {
		if (TWI_ALLOCLOG_NAMES_MAX - trace->names_bytes < ENOUGH)
			break;
		name_row(trace, &census->row[i]);
	}
	free(census->made);
	free(census);
	return TOW_OK;
}
