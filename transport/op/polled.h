/*
 * polled.h - for how long a thread is blocked that does not wait, but asks again and again: by
 * tow_op_test, tow_queue_take or tow_progress. While nothing has come, the time from one such call
 * to the next is blocked, where it is short, or the thread has slept in it; who computes in
 * between is not. What ends it is the operation whose end that thread hears of next.
 */
#ifndef TWI_POLLED_H
#define TWI_POLLED_H

#include "transport/engine/engine_thread.h"
#include "transport/op/op.h"

/* Of a thread; what it says is lost on one that has no life for want of memory. */
static inline struct twi_polled *twi_polled_mine(void)
{
	return twi_self.life != NULL ? &twi_self.life->polled : NULL;
}

/* See twi_polled_begin. */
void twi_polled_again(struct twi_engine *engine, struct twi_polled *polled);

/* A call begins that may be in vain. */
static inline void twi_polled_begin(struct twi_engine *engine)
{
	struct twi_polled *polled = twi_polled_mine();

	if (polled != NULL && __builtin_expect(polled->slow && polled->last_ns != 0, 0))
		twi_polled_again(engine, polled);
}

/* It was: nothing that the caller asked for has come. The engine is not held. */
void twi_polled_vain(struct twi_engine *engine);

/* See twi_polled_ended. */
void twi_polled_count(const struct tow_op *op, struct twi_polled *polled);

/* The calling thread is told that `op` has ended. */
static inline void twi_polled_ended(const struct tow_op *op)
{
	struct twi_polled *polled = twi_polled_mine();

	if (polled != NULL && __builtin_expect(polled->last_ns != 0, 0))
		twi_polled_count(op, polled);
}

/* It waits, whatever it polled for before. */
static inline void twi_polled_reset(struct twi_polled *polled)
{
	if (polled == NULL || polled->last_ns == 0)
		return;
	polled->last_ns = polled->blocked_ns = 0;
	polled->apart = false;
}

#endif
