/* names.c - see names.h. */
#include "diag/trace/export/names.h"

#include <stdlib.h>
#include <string.h>

#include "diag/base/hash.h"

void twi_names_fini(struct twi_names *names)
{
	for (size_t i = 0; i < names->room; i++)
		free(names->rows[i].text);
	free(names->rows);
	*names = (struct twi_names){ 0 };
}

/* The row of a text, or the free row for it. */
static struct twi_names_row *find_row(struct twi_names_row *rows, size_t room, const char *text)
{
	uint64_t hash = twi_hash_text(text);

	hash ^= hash >> 32;
	for (size_t i = (size_t)hash;; i++) {
		struct twi_names_row *row = &rows[i & (room - 1)];

		if (row->text == NULL || strcmp(row->text, text) == 0)
			return row;
	}
}

static bool grow_rows(struct twi_names *names)
{
	size_t room = names->room ? names->room * 2 : 64;
	struct twi_names_row *rows;

	if (names->count * 2 < names->room)
		return true;
	rows = calloc(room, sizeof(*rows));
	if (rows == NULL)
		return false;
	for (size_t i = 0; i < names->room; i++)
		if (names->rows[i].text != NULL)
			*find_row(rows, room, names->rows[i].text) = names->rows[i];
	free(names->rows);
	names->rows = rows;
	names->room = room;
	return true;
}

uint32_t twi_names_number(struct twi_names *names, const char *text, bool *is_new)
{
	struct twi_names_row *row;

	*is_new = false;
	if (names->count == UINT32_MAX || !grow_rows(names))
		return 0;
	row = find_row(names->rows, names->room, text);
	if (row->text != NULL)
		return row->number;
	row->text = strdup(text);
	if (row->text == NULL)
		return 0;
	*is_new = true;
	row->number = (uint32_t)++names->count;
	return row->number;
}
