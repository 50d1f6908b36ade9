/*
 * polled.h - for how long a thread is blocked that does not wait, but asks again and again: by
 * tow_op_test, tow_queue_take or tow_progress. While nothing has come, the time from one such call
 * to the next is blocked, where it is short, or the thread has slept in it; who computes in
 * between is not. What ends it is the operation whose end that thread hears of next.
 */
#ifndef TWI_POLLED_H
#define TWI_POLLED_H

#include "transport/op/op.h"

struct twi_polled {
	uint64_t last_ns;    /* the last call in vain; 0: none since something has come */
	uint64_t cpu_ns;     /* the thread's CPU time when it was read last */
	uint64_t spun_ns;    /* of that since then in such calls, and between two of them */
	uint64_t blocked_ns; /* since something has come */
	uint64_t mark_ns;    /* when the engine's logs are due */
	bool slow;           /* calls, or what is between them, take long */
	bool apart;          /* last_ns is the beginning of the call that goes on */
};

extern __thread struct twi_polled twi_polled __attribute__((tls_model("initial-exec")));

/* See twi_polled_begin. */
void twi_polled_again(struct twi_engine *engine);

/* A call begins that may be in vain. */
static inline void twi_polled_begin(struct twi_engine *engine)
{
	if (__builtin_expect(twi_polled.slow && twi_polled.last_ns != 0, 0))
		twi_polled_again(engine);
}

/* It was: nothing that the caller asked for has come. The engine is not held. */
void twi_polled_vain(struct twi_engine *engine);

/* See twi_polled_ended. */
void twi_polled_count(const struct tow_op *op);

/* The calling thread is told that `op` has ended. */
static inline void twi_polled_ended(const struct tow_op *op)
{
	if (__builtin_expect(twi_polled.last_ns != 0, 0))
		twi_polled_count(op);
}

/* It waits, whatever it polled for before. */
static inline void twi_polled_reset(void)
{
	twi_polled.last_ns = twi_polled.blocked_ns = 0;
	twi_polled.apart = false;
}

#endif
