/*
 * coll_table.c - reads measured choices of plans from a file. See coll_table.h.
 */
#include "transport/coll/coll_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "transport/engine/engine.h"

#define ROWS_MAX 4096u
#define LINE_MAX 256

enum where { WHERE_SHM, WHERE_MIXED, WHERE_NET, WHERE_COUNT };

static const char *const where_names[WHERE_COUNT] = { "shm", "mixed", "net" };

struct row {
	enum twi_coll_kind kind;
	enum where where;
	uint32_t ranks;
	uint64_t bytes_max;
	const struct twi_plan_row *plan;
};

struct twi_coll_table {
	uint32_t count;
	struct row rows[ROWS_MAX];
};

static bool parse_number(const char *text, uint64_t *out)
{
	char *end;

	if (strcmp(text, "inf") == 0) {
		*out = UINT64_MAX;
		return true;
	}
	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0';
}

/* Returns what is wrong with the line, or NULL. */
static const char *parse_row(char *line, struct row *row)
{
	char *save = NULL, *field[5];
	uint64_t ranks;
	unsigned kind = 0, where = 0;

	for (int i = 0; i < 5; i++) {
		field[i] = strtok_r(i == 0 ? line : NULL, " \t\n", &save);
		if (field[i] == NULL)
			return "it has fewer than five fields";
	}
	if (strtok_r(NULL, " \t\n", &save) != NULL)
		return "it has more than five fields";
	while (kind < TWI_COLL_KINDS &&
	       strcmp(field[0], twi_coll_kind_name((enum twi_coll_kind)kind)) != 0)
		kind++;
	while (where < WHERE_COUNT && strcmp(field[1], where_names[where]) != 0)
		where++;
	if (kind == TWI_COLL_KINDS)
		return "the first field is no collective";
	if (where == WHERE_COUNT)
		return "the second field is not shm, mixed or net";
	if (!parse_number(field[2], &ranks) || ranks == 0 || ranks > UINT32_MAX)
		return "the third field is no number of ranks";
	if (!parse_number(field[3], &row->bytes_max))
		return "the fourth field is neither a number of bytes nor inf";
	row->plan = twi_plan_find(field[4]);
	if (row->plan == NULL)
		return "the fifth field is no plan";
	if ((row->plan->kinds >> kind & 1) == 0)
		return "the plan in the fifth field does not serve the collective in the first";
	row->kind = (enum twi_coll_kind)kind;
	row->where = (enum where)where;
	row->ranks = (uint32_t)ranks;
	return NULL;
}

static int read_rows(FILE *file, const char *path, struct twi_coll_table *table)
{
	char line[LINE_MAX];
	const char *wrong;

	for (unsigned n = 1; fgets(line, sizeof(line), file) != NULL; n++) {
		size_t used = strspn(line, " \t");

		if (strchr(line, '\n') == NULL && !feof(file))
			return twi_error(TOW_EINVAL, "coll_table: %.200s:%u is too long", path, n);
		if (line[used] == '#' || line[used] == '\n' || line[used] == '\0')
			continue;
		if (table->count == ROWS_MAX)
			return twi_error(TOW_EINVAL, "coll_table: %.200s has more than %u rows",
					 path, ROWS_MAX);
		wrong = parse_row(line, &table->rows[table->count]);
		if (wrong != NULL)
			return twi_error(TOW_EINVAL, "coll_table: %.200s:%u: %s", path, n, wrong);
		table->count++;
	}
	if (ferror(file))
		return twi_error_errno(TOW_ESYSTEM, errno, "coll_table: reading %.200s", path);
	return TOW_OK;
}

int twi_coll_table_load(const char *path, struct twi_coll_table **out)
{
	struct twi_coll_table *table;
	FILE *file;
	int status;

	*out = NULL;
	if (path == NULL || path[0] == '\0')
		return TOW_OK;
	file = fopen(path, "re");
	if (file == NULL)
		return twi_error_errno(TOW_EINVAL, errno, "coll_table: %.200s", path);
	table = calloc(1, sizeof(*table));
	status = table != NULL ? read_rows(file, path, table)
			       : twi_error(TOW_ENOMEM, "coll_table: no memory");
	fclose(file);
	if (status < 0) {
		free(table);
		return status;
	}
	*out = table;
	return TOW_OK;
}

void twi_coll_table_free(struct twi_coll_table *table)
{
	free(table);
}

const struct twi_plan_row *twi_coll_table_find(const struct twi_coll_group *coll,
					       const struct twi_coll_call *call)
{
	const struct twi_coll_table *table = coll->engine->coll_table;
	uint64_t bytes = twi_coll_measure(coll, call);
	enum where where = coll->all_local                                     ? WHERE_SHM
			   : coll->hosts_n == 0 || coll->hosts_n == coll->size ? WHERE_NET
									       : WHERE_MIXED;

	for (uint32_t i = 0; table != NULL && i < table->count; i++) {
		const struct row *row = &table->rows[i];

		if (row->kind == call->kind && row->where == where && row->ranks == coll->size &&
		    bytes <= row->bytes_max)
			return row->plan;
	}
	return NULL;
}
