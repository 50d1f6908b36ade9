/*
 * replay_op.h - the layout of a program of replay.h in memory.
 *
 * Each event has 16 bytes. So ten million of them take 150 MiB, and a cache line has four.
 *
 *   when    ns since the begin of its chunk of 1024 events, in units of 2^shift ns (of the chunk)
 *   slot    of the block, reused after its free: tables by slot stay as small as what is live
 *   what    bits 0..1 kind | 2..5 log2 of the alignment, less 6 | 6..46 bytes | 47..63 actor
 *                            a free: 0                | index of its allocation
 *
 * An actor is a thread with a tag and a call site. When there are too many, further actors have the
 * call site TWI_REPLAY_REST, in 256 groups of threads.
 *
 * Another order of the same events has two numbers for each event: which event comes next, and its
 * slot in this order.
 */
#ifndef TWI_REPLAY_OP_H
#define TWI_REPLAY_OP_H

#include <stddef.h>

#include "memreg/sizing/replay.h"

#define TWI_REPLAY_CHUNK_LOG   10
#define TWI_REPLAY_BYTES_MAX   ((uint64_t)1 << 40)
#define TWI_REPLAY_ALIGN_LEAST 6
#define TWI_REPLAY_ACTORS_MAX  (1u << 17)
#define TWI_REPLAY_NONE        UINT32_MAX

struct twi_replay_packed {
	uint32_t when, slot;
	uint64_t what;
};

struct twi_replay_chunk {
	uint64_t ns;
	uint32_t shift;
};

struct twi_replay_actor {
	uint64_t caller;         /* of its allocations; 0 for its frees */
	uint32_t tag;            /* likewise */
	uint32_t thread, number; /* number: of the thread, 0, 1, ... */
	bool counts;             /* it allocates or frees */
};

static inline uint8_t twi_replay_kind(const struct twi_replay_packed *op)
{
	return op->what & 3;
}

static inline uint8_t twi_replay_align_log2(const struct twi_replay_packed *op)
{
	return (uint8_t)(TWI_REPLAY_ALIGN_LEAST + (op->what >> 2 & 15));
}

/* Bytes of an allocation; in a free, the index of its allocation. */
static inline uint64_t twi_replay_value(const struct twi_replay_packed *op)
{
	return op->what >> 6 & (((uint64_t)1 << 41) - 1);
}

static inline uint32_t twi_replay_actor(const struct twi_replay_packed *op)
{
	return (uint32_t)(op->what >> 47);
}

/* The event at `position` of the program's order. */
static inline uint32_t twi_replay_index(const struct twi_replay *replay, uint64_t position)
{
	return replay->order != NULL ? replay->order[position] : (uint32_t)position;
}

static inline uint32_t twi_replay_slot(const struct twi_replay *replay, uint32_t index)
{
	return replay->slot != NULL ? replay->slot[index] : replay->op[index].slot;
}

/* Prefetches the event: another order jumps, which no cache can foresee. */
static inline void twi_replay_ask(const struct twi_replay *replay, uint64_t position)
{
	uint32_t index = replay->order[position];

	__builtin_prefetch(&replay->op[index]);
}

static inline uint64_t twi_replay_ns(const struct twi_replay *replay, uint64_t index)
{
	const struct twi_replay_chunk *chunk = &replay->chunk[index >> TWI_REPLAY_CHUNK_LOG];

	return chunk->ns + ((uint64_t)replay->op[index].when << chunk->shift);
}

/* Fills in the facts of a program's order: peaks, and what is never freed. TOW_OK; TOW_ENOMEM. */
int twi_replay_survey(struct twi_replay *replay);

#endif
