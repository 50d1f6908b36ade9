/*
 * replay_slim.c - makes a program slim; replay_slim.h has the layout.
 */
#include "memreg/sizing/replay_slim.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "diag/base/error.h"
#include <internal/base.h>
#include <towline/status.h>

#define ENTRY_MOST 16 /* limit of an event's bytes: 41 bits of size, and an alignment */

int twi_replay_cursor_init(struct twi_replay_cursor *cursor, const struct twi_replay *replay)
{
	*cursor = (struct twi_replay_cursor){ .replay = replay, .at = replay->slim };
	if (replay->slim == NULL)
		return TOW_OK;
	cursor->free_slot = malloc((replay->slots + 1u) * sizeof(cursor->free_slot[0]));
	return cursor->free_slot != NULL
		       ? TOW_OK
		       : twi_error(TOW_ENOMEM, "replay: no memory for %u slots", replay->slots);
}

void twi_replay_cursor_fini(struct twi_replay_cursor *cursor)
{
	free(cursor->free_slot);
	cursor->free_slot = NULL;
}

static uint8_t *put_number(uint8_t *at, uint64_t number)
{
	for (; number >= 128; number >>= 7)
		*at++ = (uint8_t)(number | 128);
	*at++ = (uint8_t)number;
	return at;
}

/* Returns the address of the next event. */
static uint8_t *put_event(uint8_t *at, const struct twi_replay_packed *op)
{
	uint8_t align = twi_replay_align_log2(op);
	bool aligned = align > TWI_REPLAY_ALIGN_LEAST;

	if (twi_replay_kind(op) == TWI_ALLOC_FREE)
		return put_number(at, (uint64_t)op->slot << 1 | 1);
	at = put_number(at, twi_replay_value(op) << 2 | (aligned ? 2 : 0));
	if (aligned)
		*at++ = align;
	return at;
}

static bool is_kept(const struct twi_replay_packed *op)
{
	return twi_replay_kind(op) != TWI_ALLOC_STEP;
}

static uint64_t slim_bytes(const struct twi_replay *replay)
{
	uint8_t entry[ENTRY_MOST];
	uint64_t bytes = 0;

	for (uint64_t i = 0; i < replay->count; i++)
		if (is_kept(&replay->op[i]))
			bytes += (uint64_t)(put_event(entry, &replay->op[i]) - entry);
	return bytes;
}

static void fill_slim(struct twi_replay *replay)
{
	uint8_t *at = replay->slim;

	for (uint64_t i = 0; i < replay->count; i++) {
		if (i == replay->peak_op)
			replay->slim_peak = replay->slim_count;
		if (!is_kept(&replay->op[i]))
			continue;
		at = put_event(at, &replay->op[i]);
		replay->slim_count++;
	}
}

int twi_replay_slim(struct twi_replay *replay)
{
	void *slim;

	if (replay->slim != NULL || replay->order != NULL)
		return TOW_OK;
	replay->slim_bytes = slim_bytes(replay);
	slim = mmap(NULL, replay->slim_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	if (slim == MAP_FAILED)
		return twi_error(TOW_ENOMEM, "replay: no memory for a slim program");
	replay->slim = slim;
	fill_slim(replay);
	munmap(replay->op, replay->op_bytes);
	free(replay->chunk);
	free(replay->actor);
	replay->op = NULL;
	replay->chunk = NULL;
	replay->actor = NULL;
	return TOW_OK;
}
