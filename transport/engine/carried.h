/*
 * carried.h - what a peer's messages took on the wire in the last two to four seconds. It has sums
 * that only grow, and two marks of them. rank_state.h says what for.
 */
#ifndef TWI_CARRIED_H
#define TWI_CARRIED_H

#include "diag/judge/rank_state.h"

#define TWI_CARRIED_STEP 2000000000ull /* between two marks, ns */

struct twi_carried_sum {
	uint64_t at_ns, messages, bytes, wire_ns;
};

/* In one direction. The engine is held. */
struct twi_carried {
	struct twi_carried_sum now, mark, before;
};

static inline void twi_carried_note(struct twi_carried *carried, uint64_t end_ns, uint64_t bytes,
				    uint64_t wire_ns)
{
	if (__builtin_expect(end_ns >= carried->mark.at_ns + TWI_CARRIED_STEP, 0)) {
		carried->before = carried->mark.at_ns != 0 ? carried->mark : carried->now;
		carried->mark = carried->now;
		carried->mark.at_ns = end_ns;
		if (carried->before.at_ns == 0)
			carried->before.at_ns = end_ns;
	}
	carried->now.messages++;
	carried->now.bytes += bytes;
	carried->now.wire_ns += wire_ns;
}

static inline struct twi_state_carried twi_carried_tell(const struct twi_carried *carried,
							uint64_t now_ns)
{
	const struct twi_carried_sum *from = &carried->before, *to = &carried->now;

	if (from->at_ns == 0 || now_ns <= from->at_ns)
		return (struct twi_state_carried){ 0 };
	return (struct twi_state_carried){ .window_ms =
						   (uint32_t)((now_ns - from->at_ns) / 1000000),
					   .messages = (uint32_t)(to->messages - from->messages),
					   .bytes = to->bytes - from->bytes,
					   .wire_ns = to->wire_ns - from->wire_ns };
}

#endif
