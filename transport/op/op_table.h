/*
 * op_table.h - the table of a runtime's operations, and its free rows.
 *
 * Only the holder of the engine takes rows, from one of three sources. Any thread may release an
 * operation that has ended: it clears the row's state, without an atomic read-modify-write. A row
 * enters a ring when its result is published. It leaves the ring when its state is seen to be 0.
 * Views need the engine for their release, so their rows go to a stack.
 *
 *	never used  --take-->  in use  --publish-->  in the ring  --take, once released-->  in use
 *	   stack  --take-->       `--forgotten, never started, or a view-->  stack
 *
 * A search looks first at the newest row of the ring, whose memory is in the cache. Then it looks
 * at the oldest row, which is the next one to be free when a window of messages slides.
 */
#ifndef TWI_OP_TABLE_H
#define TWI_OP_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <internal/base.h>

#include "memreg/pool/shared_lease.h"
#include "transport/op/op.h"

struct twi_op_table {
	_Alignas(64) uint32_t count;
	uint32_t made;    /* rows from here on were never used: their memory is untouched */
	uint32_t cached;  /* index + 1 of the stack of free rows that are not in the ring */
	uint32_t stacked; /* rows on that stack */
	uint32_t ended_first, ended_count; /* of the ring */
	uint32_t ended_mask;               /* the ring's size, a power of two, less 1 */
	uint32_t lap_left;                 /* rows of this lap, from the oldest on (op_table.c) */
	uint32_t *ended;                   /* the ring: indices of rows */
	uint64_t recvs;                    /* receives that were started (match_entry.h) */
	struct twi_shared_leases leases;   /* the leases of operations on memory */
	_Alignas(64) _Atomic uint32_t released; /* not 0: a row was, since the last lap began */
	_Alignas(64) struct tow_op rows[];
};

/* Makes a runtime's table of max_ops rows. TOW_OK or TOW_ENOMEM. */
int twi_op_table_open(struct twi_engine *engine);
/* Frees the table, if there is one. */
void twi_op_table_close(struct twi_engine *engine);

/* See hooks.h. */
uint32_t twi_op_table_in_flight(const struct twi_engine *engine);

/* The part of twi_op_table_take for the case that neither end of the ring is free. */
struct tow_op *twi_op_table_search(struct twi_op_table *table);

/* acquire: the releasing thread no longer uses the row; pairs with twi_op_table_release */
static inline bool twi_op_table_is_free(const struct twi_op_table *table, uint32_t index)
{
	return atomic_load_explicit(&table->rows[index].wait.state, memory_order_acquire) == 0;
}

/* Takes a free row, whose page may have to be faulted in. NULL: none is. The engine is held. */
static inline struct tow_op *twi_op_table_take(struct twi_op_table *table)
{
	uint32_t first = table->ended_first, count = table->ended_count, index;

	if (twi_unlikely(count == 0))
		return twi_op_table_search(table);
	index = table->ended[(first + count - 1) & table->ended_mask];
	if (!twi_op_table_is_free(table, index)) {
		index = table->ended[first & table->ended_mask];
		if (!twi_op_table_is_free(table, index))
			return twi_op_table_search(table);
		table->ended_first = first + 1;
	}
	table->ended_count = count - 1;
	return &table->rows[index];
}

/*
 * The result of the row is published, or will be before the engine is left. The row needs no engine
 * to be released (twi_op_ops). The engine is held.
 */
static inline void twi_op_table_put_ended(struct twi_op_table *table, const struct tow_op *op)
{
	uint32_t at = table->ended_first + table->ended_count++;

	twi_assert_hot(table->ended_count <= table->made);
	table->ended[at & table->ended_mask] = op->index;
}

/* The row is free, and is not in the ring. The engine is held. */
static inline void twi_op_table_put_free(struct twi_op_table *table, struct tow_op *op)
{
	atomic_store_explicit(&op->wait.state, 0, memory_order_relaxed);
	table->stacked++;
	op->next_free = table->cached;
	table->cached = op->index + 1;
}

/*
 * The row is free, and in the ring. Any thread may call this, and must not look at the row again.
 * Both stores are releases: a lap that begins with this one finds the row.
 */
static inline void twi_op_table_release(struct twi_op_table *table, struct tow_op *op)
{
	atomic_store_explicit(&op->wait.state, 0, memory_order_release);
	atomic_store_explicit(&table->released, 1, memory_order_release);
}

#endif
