/*
 * handoff.h - whether a thread that leaves the engine hands what is in flight to the library's own
 * thread.
 *
 * A thread that leaves may be back within a microsecond, to wait for what it has started. It may
 * also compute for milliseconds, or be told of the end by a callback or a queue. Meanwhile the
 * library's thread naps, since callers drive (background.h). To wake it costs the thread that
 * leaves some 2 us, and the two threads may then want the engine at the same time. Not to wake it
 * costs what is in flight up to a whole nap.
 *
 *	leave ------------- away -------------> back: a wait begins, or a test
 *	  | handed over if the last ones were long
 *	  v
 *	library's thread: wakes, polls, sleeps on its ring
 *
 * So the engine learns how long callers stay away, apart for each way to leave. A long absence is
 * believed for the next few times, as work that waits costs more than a wake in vain.
 *
 * A thread that lost its core was not away: where cores are few, another thread would only take it
 * more often. So nothing is learned where the thread loses its core all the time. That it yields
 * its core to others counts as well.
 *
 * A small message may wait for others, to be sent with them (gather_ns): its end says nothing of
 * whether it is sent. To leave behind it is a way of its own, and remembered for a time of bursts,
 * not for a number of messages. Where the library's thread sent it meanwhile, the absence is as
 * short as that made it, and says nothing.
 *
 * A thread that is told of ends may be away for as long as they take, which says nothing. What
 * counts is who ends them: the library's thread, or one that polls.
 */
#ifndef TWI_HANDOFF_H
#define TWI_HANDOFF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <internal/base.h>

#define TWI_HANDOFF_LONG_NS  100000u  /* an absence that is worth a wake */
#define TWI_HANDOFF_MOST_NS  1000000u /* a long one is remembered as this */
#define TWI_HANDOFF_BURST_NS 200000u  /* in so much of a burst the end of the last one fades */
#define TWI_HANDOFF_BRIEF_NS 20000u   /* between messages of a burst */
#define TWI_HANDOFF_LATE_NS  2000000u /* one that nobody expected, at most (background.c) */

enum twi_left {
	TWI_LEFT_ENDED,   /* what the thread waited or tested for has ended */
	TWI_LEFT_STARTED, /* it has started an operation, */
	TWI_LEFT_COLL,    /* a collective, */
	TWI_LEFT_TOLD,    /* or one whose end is reported to it */
	TWI_LEFT_VAIN,    /* a test, or another call that polls, has brought nothing (polled.c) */
	TWI_LEFT_HELD,    /* its small message waits for others, to be sent with them */
	TWI_LEFT_COUNT
};

/* Does a thread stay away though nobody expects that, and leaves something alone? */
enum twi_deserts {
	TWI_DESERTS_NOT,
	TWI_DESERTS_PERHAPS, /* the library's thread has found the engine so */
	TWI_DESERTS_SO,      /* and the thread says that it had not lost its core */
};

/*
 * Any thread may read and write the atomics. A lost value does no harm, so all is relaxed.
 */
struct twi_handoff {
	_Atomic uint32_t how;                     /* enum twi_left: the last one */
	_Atomic uint32_t away_ns[TWI_LEFT_COUNT]; /* how long threads stay away */
	_Atomic uint32_t measured;                /* the one that left_ns belongs to */
	_Atomic uint64_t left_ns;                 /* when that was; 0: a thread is back */
	_Atomic uint32_t deserts;                 /* enum twi_deserts */
	_Atomic uint64_t
		held_ns; /* start of the last message that waits for others; 0: none does */
	_Atomic uint32_t relieved; /* since then the library's thread has sent what waited */
	/* The holder's own. */
	uint32_t served;      /* methods that calls may come for */
	uint64_t deserted_ns; /* when a driver left and others waited; 0: a wait has begun since */
	uint64_t pause_ns;    /* how long it took until the next wait began, the last time */
};

void twi_handoff_init(struct twi_handoff *handoff);

/* The calling thread was away for long until now_ns, see twi_handoff_learn. */
void twi_handoff_learn_long(struct twi_handoff *handoff, enum twi_left how, uint64_t now_ns);

/* The start that the calling thread leaves by has taken long itself: it is away from now on. */
void twi_handoff_restart(struct twi_handoff *handoff, uint64_t now_ns);
#define TWI_HANDOFF_BULK 32768u /* bytes of an operation whose start may take long */

/*
 * What is remembered after one more short absence, of `ns`. A burst of messages has many of those,
 * and then a long one, which delays the last message by a nap: that is remembered for a time.
 */
static inline uint32_t twi_handoff_fade(const struct twi_handoff *handoff, enum twi_left how,
					uint32_t away_ns, uint64_t ns)
{
	if (how != TWI_LEFT_HELD)
		return away_ns / 2;
	if (ns >= TWI_HANDOFF_BRIEF_NS &&
	    atomic_load_explicit(&handoff->relieved, memory_order_relaxed) != 0)
		return away_ns;
	return away_ns - (uint32_t)(away_ns * (ns + 1) / TWI_HANDOFF_BURST_NS);
}

/*
 * The calling thread was away from left_ns to now_ns. Short times are all alike: each lets what is
 * remembered fade, and nothing is written in the end.
 */
static inline void twi_handoff_learn(struct twi_handoff *handoff, enum twi_left how,
				     uint64_t left_ns, uint64_t now_ns)
{
	_Atomic uint32_t *cell = &handoff->away_ns[how];
	uint32_t before = atomic_load_explicit(cell, memory_order_relaxed);

	if (__builtin_expect(now_ns >= left_ns + TWI_HANDOFF_LONG_NS, 0))
		twi_handoff_learn_long(handoff, how, now_ns);
	else if (before != 0)
		atomic_store_explicit(
			cell,
			twi_handoff_fade(handoff, how, before, now_ns - twi_min(left_ns, now_ns)),
			memory_order_relaxed);
}

/* What a thread is told of was ended by the library's thread. */
static inline void twi_handoff_told(struct twi_handoff *handoff)
{
	atomic_store_explicit(&handoff->away_ns[TWI_LEFT_TOLD], TWI_HANDOFF_MOST_NS,
			      memory_order_relaxed);
}

/* A thread is back, to drive or to start something. */
static inline void twi_handoff_back(struct twi_handoff *handoff, uint64_t now_ns)
{
	uint64_t left_ns = atomic_load_explicit(&handoff->left_ns, memory_order_relaxed);
	uint32_t how = atomic_load_explicit(&handoff->measured, memory_order_relaxed);

	if (left_ns == 0)
		return;
	atomic_store_explicit(&handoff->left_ns, 0, memory_order_relaxed);
	if (how != TWI_LEFT_TOLD)
		twi_handoff_learn(handoff, how, left_ns, now_ns);
}

/* The calling thread is about to leave, at now_ns; 0: the time is not known. */
static inline void twi_handoff_leave(struct twi_handoff *handoff, enum twi_left how,
				     uint64_t now_ns)
{
	atomic_store_explicit(&handoff->how, how, memory_order_relaxed);
	if (now_ns == 0)
		return;
	twi_handoff_back(handoff, now_ns);
	atomic_store_explicit(&handoff->measured, how, memory_order_relaxed);
	atomic_store_explicit(&handoff->left_ns, now_ns, memory_order_relaxed);
}

/* The message that the calling thread starts at now_ns waits for others. */
static inline void twi_handoff_hold(struct twi_handoff *handoff, uint64_t now_ns)
{
	atomic_store_explicit(&handoff->held_ns, now_ns, memory_order_relaxed);
	/* Its row was taken at that time, and has left by its start. */
	if (atomic_load_explicit(&handoff->left_ns, memory_order_relaxed) == now_ns)
		atomic_store_explicit(&handoff->left_ns, 0, memory_order_relaxed);
	twi_handoff_leave(handoff, TWI_LEFT_HELD, now_ns);
	atomic_store_explicit(&handoff->relieved, 0, memory_order_relaxed);
}

static inline uint64_t twi_handoff_held_ns(const struct twi_handoff *handoff)
{
	return atomic_load_explicit(&handoff->held_ns, memory_order_relaxed);
}

/* All of them are sent. */
static inline void twi_handoff_sent(struct twi_handoff *handoff)
{
	if (twi_handoff_held_ns(handoff) != 0)
		atomic_store_explicit(&handoff->held_ns, 0, memory_order_relaxed);
}

/* The library's thread has sent them. */
static inline void twi_handoff_relieve(struct twi_handoff *handoff)
{
	atomic_store_explicit(&handoff->relieved, 1, memory_order_relaxed);
}

/*
 * Is the thread that was the last to leave away for late_ns, though that was not expected? False
 * where the time is not known.
 */
bool twi_handoff_overdue(const struct twi_handoff *handoff, uint64_t now_ns, uint64_t late_ns);

/* The library's thread has found the engine deserted, by a thread that may have lost its core. */
void twi_handoff_suspect(struct twi_handoff *handoff);

/* Was that so, since this was asked last? */
bool twi_handoff_deserts(struct twi_handoff *handoff);

/* Will the thread that was the last to leave stay away for long? */
static inline bool twi_handoff_expected(const struct twi_handoff *handoff)
{
	uint32_t how = atomic_load_explicit(&handoff->how, memory_order_relaxed);

	return atomic_load_explicit(&handoff->away_ns[how], memory_order_relaxed) >=
	       TWI_HANDOFF_LONG_NS;
}

#endif
