/*
 * explore_races.h - which accesses of explored threads nothing orders. See explore_memory.h.
 */
#ifndef TWT_EXPLORE_RACES_H
#define TWT_EXPLORE_RACES_H

#include <stdbool.h>
#include <stdint.h>

#include "explore.h"
#include "explore_memory.h"

/* By thread: how much of it. */
struct twt_clock {
	uint32_t at[TWT_EXPLORE_THREADS];
};

void twt_races_begin(void);

/* `before` is the accessing thread's clock. A race is a fault of the run. */
void twt_races_atomic(const struct twt_place *place, enum twt_order order,
		      const struct twt_clock *before, bool write);
void twt_races_plain(const struct twt_place *place, const struct twt_clock *before, bool write);

#endif
