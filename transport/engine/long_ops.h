/*
 * long_ops.h - how long the last operations took, of those that took long. That shows what is usual
 * in a job, so a thread that waits as long as ever is not thought to hang
 * (diag/judge/verdict_waits.c).
 *
 * An operation that takes less than TWI_LONG_NS costs a comparison as it ends.
 */
#ifndef TWI_LONG_OPS_H
#define TWI_LONG_OPS_H

#include <stdint.h>

#define TWI_LONG_OPS 8u
#define TWI_LONG_NS  100000000ull

/* The engine is held. */
struct twi_long_ops {
	uint32_t count; /* so far; the arrays are rings */
	uint64_t took_ns[TWI_LONG_OPS], ended_ns[TWI_LONG_OPS];
};

static inline void twi_long_ops_note(struct twi_long_ops *ops, uint64_t took_ns, uint64_t now_ns)
{
	ops->took_ns[ops->count % TWI_LONG_OPS] = took_ns;
	ops->ended_ns[ops->count++ % TWI_LONG_OPS] = now_ns;
}

#endif
