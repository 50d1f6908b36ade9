/*
 * op_table.c - the rows of operations, as many as were ever used at once: see op.h.
 */
#include <stdlib.h>

#include "diag/error.h"
#include "transport/op.h"

#define ROWS_AT_ONCE 512u /* whose memory is there from the start */

int twi_op_table_init(struct twi_op_table *table, uint32_t count)
{
	table->rows = calloc(count, sizeof(table->rows[0]));
	if (table->rows == NULL)
		return twi_error(TOW_ENOMEM,
				 "no memory for a table of %u operations; lower max_ops", count);
	table->count = count;
	table->made = twi_min(count, ROWS_AT_ONCE);
	for (uint32_t i = 0; i < table->made; i++) {
		table->rows[i].index = i;
		table->rows[i].next_free = i + 1 < table->made ? i + 2 : 0;
	}
	table->cached = 1;
	atomic_init(&table->returned, 0);
	return TOW_OK;
}

void twi_op_table_fini(struct twi_op_table *table)
{
	free(table->rows);
	*table = (struct twi_op_table){ 0 };
}

struct tow_op *twi_op_table_new(struct twi_op_table *table)
{
	struct tow_op *row;

	if (table->made == table->count)
		return NULL;
	row = &table->rows[table->made];
	row->index = table->made++;
	return row;
}
