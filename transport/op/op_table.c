/*
 * op_table.c - the rows of operations, as many as were ever used at once: see op.h.
 *
 * The table is a mapping of its own, of which only the rows that were used have memory, and which
 * is gone with the runtime. malloc would do the same for the first runtime of a process; but once
 * it has seen a block of this size freed it takes the next one from the heap, clears all of it, and
 * keeps it.
 */
#include <sys/mman.h>

#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/op/failure.h"
#include "transport/op/op.h"
#include "transport/op/queue.h"

#define ROWS_AT_ONCE 512u /* whose memory is there from the start */

static size_t bytes_of(uint32_t count)
{
	return sizeof(struct twi_op_table) + count * sizeof(struct tow_op);
}

int twi_op_table_open(struct twi_engine *engine)
{
	uint32_t count = engine->knobs.max_ops;
	struct twi_op_table *table = mmap(NULL, bytes_of(count), PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (table == MAP_FAILED)
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
	engine->ops = table;
	return TOW_OK;
}

void twi_op_table_close(struct twi_engine *engine)
{
	struct twi_op_table *table = engine->ops;

	twi_queues_end(engine);
	if (table == NULL)
		return;
	for (uint32_t i = 0; i < table->made; i++)
		twi_failure_drop(&table->rows[i]);
	munmap(table, bytes_of(table->count));
	engine->ops = NULL;
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
