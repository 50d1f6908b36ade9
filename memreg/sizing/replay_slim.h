/*
 * replay_slim.h - reads the events of any program in recorded order; the layout of a slim one.
 *
 * A slim program has 2 to 4 bytes an event instead of 16. It has no times, no threads and no other
 * orders. Numbers are in groups of seven bits, the lowest first. The eighth bit says that another
 * group follows:
 *
 *   allocation   bytes << 2 | 0         or bytes << 2 | 2, and a byte: log2 of its alignment
 *   free         slot << 1 | 1
 *
 * The slot of an allocation is the one that was freed last, or else a new one, as it was when the
 * program was made. Steps are left out.
 */
#ifndef TWI_REPLAY_SLIM_H
#define TWI_REPLAY_SLIM_H

#include "memreg/sizing/replay_op.h"

struct twi_replay_cursor {
	const struct twi_replay *replay;
	uint64_t position; /* of the next event; a slim program does not count steps */
	const uint8_t *at;
	uint32_t *free_slot; /* a stack: the last slot is used next */
	uint32_t free_slots, slots;
};

struct twi_replay_event {
	uint64_t bytes; /* only in an allocation */
	uint32_t slot;
	uint8_t kind, align_log2;
};

/* The program must be in its recorded order. TOW_OK; TOW_ENOMEM. */
int twi_replay_cursor_init(struct twi_replay_cursor *cursor, const struct twi_replay *replay);
void twi_replay_cursor_fini(struct twi_replay_cursor *cursor);

static inline uint64_t twi_replay_slim_number(const uint8_t **at)
{
	uint64_t number = **at & 127;

	for (unsigned shift = 7; *(*at)++ & 128; shift += 7)
		number |= (uint64_t)(**at & 127) << shift;
	return number;
}

static inline void twi_replay_slim_next(struct twi_replay_cursor *cursor,
					struct twi_replay_event *out)
{
	uint64_t number = twi_replay_slim_number(&cursor->at);

	out->align_log2 = TWI_REPLAY_ALIGN_LEAST;
	if (number & 1) {
		out->kind = TWI_ALLOC_FREE;
		out->slot = (uint32_t)(number >> 1);
		cursor->free_slot[cursor->free_slots++] = out->slot;
		return;
	}
	out->kind = TWI_ALLOC_ALLOC;
	out->bytes = number >> 2;
	if (number & 2)
		out->align_log2 = *cursor->at++;
	out->slot =
		cursor->free_slots > 0 ? cursor->free_slot[--cursor->free_slots] : cursor->slots++;
}

/* Reads the next event. False: there is none. */
static inline bool twi_replay_next(struct twi_replay_cursor *cursor, struct twi_replay_event *out)
{
	const struct twi_replay *replay = cursor->replay;
	const struct twi_replay_packed *op;

	if (replay->slim != NULL) {
		if (cursor->position == replay->slim_count)
			return false;
		cursor->position++;
		twi_replay_slim_next(cursor, out);
		return true;
	}
	if (cursor->position == replay->count)
		return false;
	op = &replay->op[cursor->position++];
	*out = (struct twi_replay_event){ twi_replay_value(op), op->slot, twi_replay_kind(op),
					  twi_replay_align_log2(op) };
	return true;
}

#endif
