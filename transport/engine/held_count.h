/*
 * held_count.h - counters that the holder of the engine adds to, several times for each message. So
 * the counters of a thread are found once, when it takes the engine.
 */
#ifndef TWI_HELD_COUNT_H
#define TWI_HELD_COUNT_H

#include "diag/record/diag.h"
#include "transport/engine/engine.h"

/* The thread with this mark holds the engine from now on; mostly it was so the last time. */
static inline void twi_held_count_begin(struct twi_engine *engine, uint32_t mark)
{
#ifndef TWI_NO_DIAGNOSTICS
	if (twi_likely(engine->block_mark == mark))
		return;
	engine->block = twi_diag_block_of(engine->diag);
	engine->block_mark = mark;
#else
	(void)engine, (void)mark;
#endif
}

/*
 * The counter for `space` in a family with one counter for each space. `users` is the user's
 * counter, the first of the family (counter.def).
 */
static inline enum twi_counter twi_counter_of(enum twi_counter users, uint8_t space)
{
	return (enum twi_counter)(users + space);
}

static inline void twi_held_count(const struct twi_engine *engine, enum twi_counter counter,
				  uint64_t n)
{
#ifndef TWI_NO_DIAGNOSTICS
	if (twi_likely(engine->block != NULL))
		twi_cell_add(&engine->block->counters[counter], n);
	else
		twi_count(engine->diag, counter, n);
#else
	(void)engine, (void)counter, (void)n;
#endif
}

static inline void twi_held_count_two(const struct twi_engine *engine, enum twi_counter one,
				      uint64_t n, enum twi_counter two, uint64_t m)
{
#ifndef TWI_NO_DIAGNOSTICS
	if (twi_likely(engine->block != NULL)) {
		twi_cell_add(&engine->block->counters[one], n);
		twi_cell_add(&engine->block->counters[two], m);
	} else {
		twi_count_two(engine->diag, one, n, two, m);
	}
#else
	(void)engine, (void)one, (void)n, (void)two, (void)m;
#endif
}

#endif
