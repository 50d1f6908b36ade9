/*
 * polled.h - the blocked time of a thread that does not wait, but polls: it calls tow_op_test,
 * tow_queue_take or tow_progress repeatedly.
 *
 * While these calls bring nothing, the time between two of them may count as blocked. It counts if
 * it is short, or if the thread slept in it. Time in which the thread computes does not count. The
 * blocked time belongs to the operation whose end the thread learns of next.
 *
 * A thread may also sleep until its tow_fd is readable. Such a sleep may be long, and it may be for
 * something else. It was for the descriptor if the thread has slept once between two calls, and the
 * second call finds news or ends the operation. If the sleep had been for something else, the
 * library's thread would have taken the news before, or would have seen it sleep on (told.h). News
 * need not be the end: a collective is woken for each of its messages. The thread learns of an end
 * that tow_progress brings in the call after it.
 */
#ifndef TWI_POLLED_H
#define TWI_POLLED_H

#include "transport/engine/engine.h"
#include "transport/engine/engine_thread.h"
#include "transport/op/op.h"

/* The calling thread's record. NULL: there was no memory for one, and the figures are lost. */
static inline struct twi_polled *twi_polled_mine(void)
{
	return twi_self.record != NULL ? &twi_self.record->polled : NULL;
}

/*
 * The calling thread starts an operation whose end another thread reports to it. The library
 * watches one such thread, until its figures must be read anew; then another thread may take its
 * place. The watched thread's figures are also read anew if they were read long before `start_ns`
 * (0: not known), since the thread may have slept.
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

/* The calling thread learns of ends by its own calls. */
static inline void twi_told_hears(struct twi_engine *engine)
{
	_Atomic int *hears = &engine->told.hears;

	if (twi_unlikely(atomic_load_explicit(hears, memory_order_relaxed) != twi_self.tid))
		atomic_store_explicit(hears, twi_self.tid, memory_order_relaxed);
}

/* How long the calling thread was blocked so far, also until an end was reported to it. */
static inline uint64_t twi_polled_blocked(const struct twi_engine *engine)
{
	uint64_t ns = twi_op_blocked_ns;

	if (atomic_load_explicit(&engine->told.thread, memory_order_relaxed) == twi_self.tid)
		ns += atomic_load_explicit(&engine->told.blocked_ns, memory_order_relaxed);
	return ns;
}

/* The thread's sleeps between its calls until now were for something else. */
static inline void twi_polled_forget_sleep(struct twi_polled *polled)
{
	polled->slept_ns = 0;
	polled->news = false;
}

/* See twi_polled_begin. */
void twi_polled_again(struct twi_engine *engine, struct twi_polled *polled);

/* A call begins that may bring nothing. */
static inline void twi_polled_begin(struct twi_engine *engine)
{
	struct twi_polled *polled = twi_polled_mine();

	if (polled != NULL && __builtin_expect(polled->slow && polled->last_ns != 0, 0))
		twi_polled_again(engine, polled);
}

/* The call has polled, and events came: the core was of use. */
static inline void twi_polled_moved(unsigned events)
{
	struct twi_polled *polled = twi_polled_mine();

	if (polled != NULL && events > 0)
		polled->vain_ns = 0;
}

/* The same; they are perhaps not the one that the caller asked for. */
static inline void twi_polled_news(unsigned events)
{
	struct twi_polled *polled = twi_polled_mine();

	twi_polled_moved(events);
	if (polled != NULL && events > 0 && polled->apart && polled->woke_ns == polled->last_ns)
		polled->news = true;
}

/*
 * A call that has polled is about to leave. `ended`: it has ended what the caller asked for. A
 * thread that finds events may end by itself what others are told of.
 */
static inline void twi_polled_leave(struct twi_engine *engine, unsigned events, bool ended)
{
	uint64_t now_ns = ended ? twi_engine_seen(engine) : 0;

	if (events > 0)
		twi_handoff_learn(&engine->handoff, TWI_LEFT_TOLD, 0, 0);
	if (ended)
		twi_handoff_back(&engine->handoff, now_ns);
	twi_handoff_leave(&engine->handoff, ended ? TWI_LEFT_ENDED : TWI_LEFT_VAIN, now_ns);
}

/*
 * The call has brought nothing that the caller asked for. `drives`: it has polled, or another
 * thread had the engine. The engine is not held.
 */
void twi_polled_vain(struct twi_engine *engine, bool drives);

/* See twi_polled_ended. */
void twi_polled_count(const struct tow_op *op, struct twi_polled *polled);

/* The calling thread has a tow_fd, so it may have slept on that. */
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

/* The calling thread learns that `op` has ended. Counts the ends of collectives. */
static inline void twi_polled_hear(const struct tow_op *op)
{
	struct twi_polled *polled = twi_polled_mine();

	if (__builtin_expect(op->ops->waited != NULL, 0) && polled != NULL)
		polled->colls++;
}

/* The calling thread learns of the end from a call that does not wait. */
static inline void twi_polled_ended(const struct tow_op *op)
{
	struct twi_polled *polled = twi_polled_mine();

	twi_polled_hear(op);
	if (polled != NULL && __builtin_expect(polled->last_ns != 0, 0))
		twi_polled_count(op, polled);
}

/* Clears the record when the thread waits, whatever it polled for before. */
static inline void twi_polled_reset(struct twi_polled *polled)
{
	if (polled == NULL || polled->last_ns == 0)
		return;
	polled->last_ns = polled->blocked_ns = 0;
	twi_polled_forget_sleep(polled);
	polled->apart = false;
}

#endif
