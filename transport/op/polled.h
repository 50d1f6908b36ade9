/*
 * polled.h - for how long a thread is blocked that does not wait, but asks again and again: by
 * tow_op_test, tow_queue_take or tow_progress. While nothing has come, the time from one such call
 * to the next is blocked, where it is short, or the thread has slept in it; who computes in
 * between is not. What ends it is the operation whose end that thread hears of next.
 *
 * So it is with a thread that sleeps until its tow_fd can be read, but for how long it sleeps, and
 * that it may sleep for something else. It has slept for the descriptor where it has slept once
 * between two calls, and the second of them finds news, or ends the operation: had the thread slept
 * for something else, the library's own would have taken that before, or seen it sleep on (told.h).
 * News need not be the end: a collective is woken for each of its messages, and the end that
 * tow_progress brings is heard of in the call after it.
 */
#ifndef TWI_POLLED_H
#define TWI_POLLED_H

#include "transport/engine/engine.h"
#include "transport/engine/engine_thread.h"
#include "transport/op/op.h"

/* Of a thread; what it says is lost on one that has no life for want of memory. */
static inline struct twi_polled *twi_polled_mine(void)
{
	return twi_self.life != NULL ? &twi_self.life->polled : NULL;
}

/*
 * The calling thread starts what somebody is to tell it the end of. It is the one that is looked
 * at, until what it did is to be read anew: then another may take its place. What it did itself is
 * read anew as well where it was read long before `start_ns` (0: not known): it may have slept.
 */
static inline void twi_told_start(struct twi_engine *engine, uint64_t start_ns)
{
	struct twi_told *told = &engine->told;
	int thread = atomic_load_explicit(&told->thread, memory_order_relaxed);
	uint64_t from_ns = atomic_load_explicit(&told->from_ns, memory_order_relaxed);

	if (twi_unlikely(thread == 0 || atomic_load_explicit(&told->stale, memory_order_relaxed) ||
			 (start_ns > from_ns + TWI_TOLD_LEAST && thread == twi_self.tid)))
		twi_told_base(engine);
}

/* The calling thread hears of ends itself. */
static inline void twi_told_hears(struct twi_engine *engine)
{
	_Atomic int *hears = &engine->told.hears;

	if (twi_unlikely(atomic_load_explicit(hears, memory_order_relaxed) != twi_self.tid))
		atomic_store_explicit(hears, twi_self.tid, memory_order_relaxed);
}

/* For how long the calling thread has been blocked so far, also until it was told of an end. */
static inline uint64_t twi_polled_blocked(const struct twi_engine *engine)
{
	uint64_t ns = twi_op_blocked_ns;

	if (atomic_load_explicit(&engine->told.thread, memory_order_relaxed) == twi_self.tid)
		ns += atomic_load_explicit(&engine->told.blocked_ns, memory_order_relaxed);
	return ns;
}

/* What the thread slept for, between the calls until now, was something else. */
static inline void twi_polled_forget_sleep(struct twi_polled *polled)
{
	polled->slept_ns = 0;
	polled->news = false;
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

/* It has driven, and something came, if not what the caller asked for. */
static inline void twi_polled_news(unsigned events)
{
	struct twi_polled *polled = twi_polled_mine();

	if (polled != NULL && events > 0 && polled->apart && polled->woke_ns == polled->last_ns)
		polled->news = true;
}

/* It was: nothing that the caller asked for has come. The engine is not held. */
void twi_polled_vain(struct twi_engine *engine);

/* See twi_polled_ended. */
void twi_polled_count(const struct tow_op *op, struct twi_polled *polled);

/* The calling thread has a tow_fd: it may have slept on that. */
static inline void twi_polled_rest(struct twi_engine *engine)
{
	struct twi_polled *polled = twi_polled_mine();

	if (polled == NULL)
		return;
	polled->rests = polled->slow = true;
	twi_told_start(engine, 0);
	twi_told_hears(engine);
	twi_polled_begin(engine);
}

/* The calling thread knows now that `op` has ended: of collectives they are counted. */
static inline void twi_polled_hear(const struct tow_op *op)
{
	struct twi_polled *polled = twi_polled_mine();

	if (__builtin_expect(op->ops->waited != NULL, 0) && polled != NULL)
		polled->colls++;
}

/* It is told so by a call that does not wait. */
static inline void twi_polled_ended(const struct tow_op *op)
{
	struct twi_polled *polled = twi_polled_mine();

	twi_polled_hear(op);
	if (polled != NULL && __builtin_expect(polled->last_ns != 0, 0))
		twi_polled_count(op, polled);
}

/* It waits, whatever it polled for before. */
static inline void twi_polled_reset(struct twi_polled *polled)
{
	if (polled == NULL || polled->last_ns == 0)
		return;
	polled->last_ns = polled->blocked_ns = 0;
	twi_polled_forget_sleep(polled);
	polled->apart = false;
}

#endif
