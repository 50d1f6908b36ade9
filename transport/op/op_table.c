/*
 * op_table.c - see op_table.h.
 *
 * The table is a mapping of its own. Only its used rows have memory, and it is unmapped with the
 * runtime. malloc would do the same for the first runtime of a process. But when a block of this
 * size has been freed once, malloc takes the next one from the heap, clears all of it, and keeps
 * it.
 */
#include "transport/op/op_table.h"

#include <sys/mman.h>

#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/op/failure.h"
#include "transport/op/queue.h"

#define ROWS_AT_ONCE 512u /* rows whose memory is there from the start; a power of two */
#define TRIES        64u  /* rows in use that are passed over before a new row is used */

static size_t rows_bytes(uint32_t count)
{
	return sizeof(struct twi_op_table) + count * sizeof(struct tow_op);
}

/* The ring is behind the rows, and has room for all of them. */
static size_t table_bytes(uint32_t count)
{
	size_t room = ROWS_AT_ONCE;

	while (room < count)
		room *= 2;
	return rows_bytes(count) + room * sizeof(uint32_t);
}

int twi_op_table_open(struct twi_engine *engine)
{
	uint32_t count = engine->knobs.max_ops;
	struct twi_op_table *table = mmap(NULL, table_bytes(count), PROT_READ | PROT_WRITE,
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
	table->stacked = table->made;
	table->ended = (uint32_t *)(void *)((char *)table + rows_bytes(count));
	table->ended_mask = ROWS_AT_ONCE - 1;
	atomic_init(&table->released, 0);
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
	munmap(table, table_bytes(table->count));
	engine->ops = NULL;
}

uint32_t twi_op_table_in_flight(const struct twi_engine *engine)
{
	const struct twi_op_table *table = engine->ops;

	twi_assert_held(engine);
	twi_assert_hot(table->made >= table->stacked + table->ended_count);
	return table->made - table->stacked - table->ended_count;
}

/* Doubles the ring. The entries that had wrapped around now follow the others. */
static void grow_ring(struct twi_op_table *table)
{
	uint32_t room = table->ended_mask + 1;

	table->ended_first &= table->ended_mask;
	for (uint32_t i = room; i < table->ended_first + table->ended_count; i++)
		table->ended[i] = table->ended[i - room];
	table->ended_mask = room * 2 - 1;
}

static struct tow_op *make_row(struct twi_op_table *table)
{
	struct tow_op *row;

	if (table->made == table->count)
		return NULL;
	row = &table->rows[table->made];
	row->index = table->made++;
	if (table->made > table->ended_mask + 1)
		grow_ring(table);
	return row;
}

/*
 * Takes the oldest row of the ring if it is free. Otherwise returns NULL; with `rotate`, the row
 * becomes the newest.
 */
static struct tow_op *take_oldest(struct twi_op_table *table, bool rotate)
{
	uint32_t index = table->ended[table->ended_first & table->ended_mask];
	bool frees = twi_op_table_is_free(table, index);

	if (!frees && !rotate)
		return NULL;
	table->ended_first++;
	if (frees) {
		table->ended_count--;
		return &table->rows[index];
	}
	table->ended[(table->ended_first + table->ended_count - 1) & table->ended_mask] = index;
	return NULL;
}

/*
 * Looks for a row that was released, past at most `most` rows that were not. A lap around the ring
 * begins if a row was released since the last lap began, and goes on in the next call. So each
 * release is found, and rows that stay in use are not looked at repeatedly. Rows that enter or
 * leave the ring meanwhile are beyond the lap, or were its next row.
 */
static struct tow_op *find_released(struct twi_op_table *table, uint32_t most)
{
	struct tow_op *row;

	table->lap_left = twi_min(table->lap_left, table->ended_count);
	for (;;) {
		/* acq_rel: rows whose release this reads are seen as free below */
		if (table->lap_left == 0 &&
		    atomic_exchange_explicit(&table->released, 0, memory_order_acq_rel) != 0)
			table->lap_left = table->ended_count;
		if (table->lap_left == 0)
			return NULL;
		row = take_oldest(table, most > 0);
		if (row == NULL && most-- == 0)
			return NULL;
		table->lap_left--;
		if (row != NULL)
			return row;
	}
}

struct tow_op *twi_op_table_search(struct twi_op_table *table)
{
	struct tow_op *row;

	if (table->cached != 0) {
		row = &table->rows[table->cached - 1];
		table->cached = row->next_free;
		table->stacked--;
		return row;
	}
	row = find_released(table, TRIES);
	if (row == NULL)
		row = make_row(table);
	return row != NULL ? row : find_released(table, UINT32_MAX);
}
