/*
 * engine_slice.h - time slices for threads that exchange, where they are more than there are cores.
 *
 * Let each of 64 threads exchange small messages with a thread of its own in another process. A
 * switch of threads then costs many times what an exchange does. So the thread that drives, the
 * *owner*, goes on with its own exchanges for a slice of time. The threads whose operations it ends
 * meanwhile are woken later: they are *due*, and wait in a queue. At the end of its slice the owner
 * hands over to the first of them and sleeps.
 *
 * An exchange needs both of its threads at a time, so the two processes must choose the same pair.
 * They come to agree as follows. An owner whose operation does not end while others become due
 * passes its slice to the one that became due last. The partner of that one runs in the other
 * process. An owner that has exchanged nothing yet is patient, as its partner may have to be woken
 * first. Its patience is a random time, so that two sides that choose anew at once do not do so for
 * ever.
 *
 * The pace of a side follows from its queue. Each thread of the queue has one turn while as many
 * slices pass as threads wait, whichever side each pair is due on. Few threads have short slices,
 * but a slice is long enough for the number of waits that makes it pay.
 *
 * A thread that exchanges seldom must not wait for a turn, nor would it use one. It is woken at
 * once, at most twice in a slice. The owner then yields once, as it may be on the core that the
 * thread needs. In the other process the partner of such a thread has waited for long, and so have
 * all threads that wait for their turn. So that partner is recognized in another way: the owner
 * there goes on exchanging after the message to the partner has come.
 *
 * Slices begin when all of this holds:
 *
 * - Waits are frequent, and are for operations of memory-polled lanes, whose other process is on
 *   this host, too.
 * - More than two threads wait, and more than one for each CORES_EACH cores. Together with their
 *   partners they are more than the cores.
 * - The library's own thread runs. It moves the other lanes meanwhile, and checks whether the owner
 *   is away for TWI_SLICE_AWAY_NS. If so, the next thread has its slice. If the owner has exchanged
 *   next to nothing, all due threads are woken.
 * - Slices pay, and no other program keeps the cores.
 *
 * Otherwise followers linger (engine_wait.h), and slices are tried again after AGAIN_NS. That time
 * doubles each time that slices do not pay, up to AGAIN_MAX_NS. It must be short, as the other
 * process does not know that this one has no slices.
 *
 * Only the holder of the engine writes this state.
 */
#ifndef TWI_ENGINE_SLICE_H
#define TWI_ENGINE_SLICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <internal/list.h>

#define TWI_SLICE_AWAY_NS 200000u

struct twi_engine;
struct twi_wait;

struct twi_slices {
	_Atomic bool on;       /* slices go on; any thread may read this and the next */
	_Atomic bool ringless; /* the owner has no ring: it polls the memory-polled lanes alone */
	uint32_t above;        /* slices may begin with more waiting threads than this */
	uint32_t owner;        /* thread mark of the owner */
	uint32_t last_owner;   /* mark of the owner before this one */
	uint32_t owner_waits;  /* waits that the owner has begun in this slice */
	uint32_t news;         /* threads that have become due since the owner's wait began */
	uint32_t due_count;
	struct twi_wait *fresh; /* the wait that became due last in this slice; NULL: none */
	uint32_t fresh_waits;   /* owner_waits at that time */
	bool favoured;          /* a thread was woken out of turn: the owner is to yield once */
	struct twi_list due;    /* struct twi_wait; the first has been due for longest */
	int32_t pays;           /* slices that have paid less those that have not, within bounds */
	uint64_t slice_ns;      /* how long slices are to be */
	uint64_t paid_ns;       /* time in which a slice pays, an average over the last ones */
	uint64_t begun_ns;      /* when this slice began */
	uint64_t end_ns;        /* when this slice ends, if a thread is due */
	uint64_t favour_ns;     /* no thread is woken out of turn before this time */
	uint64_t patience_ns;
	uint64_t missed_ns;   /* since when the owner is known not to drive; 0: it is not known */
	uint64_t seen_ns;     /* without slices: since when waits are counted, for ten slices */
	uint64_t seen_waits;  /* engine->waits at that time */
	uint32_t begin_most;  /* limit of the waits that begin slices; lowered by slow tests */
	uint64_t again_ns;    /* slices have not paid: none before this time */
	uint64_t again_in_ns; /* for how long there are none when they do not pay again */
	uint64_t random;
	uint64_t count;        /* slices that have begun */
	uint32_t shared_turns; /* idle turns in a row in which another thread had the core */
};

void twi_slice_init(struct twi_slices *slices);

/*
 * May the calling thread, which begins or continues a wait, become the driver? There is no driver
 * now. False: it has to follow, because it has handed over, or the owner is about to come. The
 * engine is held.
 */
bool twi_slice_may_lead(struct twi_engine *engine, const struct twi_wait *wait);

/* Any thread may ask. */
static inline bool twi_slices_on(const struct twi_slices *slices)
{
	return atomic_load_explicit(&slices->on, memory_order_relaxed);
}

/* Do slices go on with an owner that has no ring? Any thread may ask. */
static inline bool twi_slices_ringless(const struct twi_slices *slices)
{
	return twi_slices_on(slices) &&
	       atomic_load_explicit(&slices->ringless, memory_order_relaxed);
}

/* Does the calling thread own a slice without a ring? The engine is held. */
bool twi_slice_is_ringless(const struct twi_engine *engine);

/*
 * May the calling thread drive although it can have no ring? If so, it drives without one from now
 * on. The engine is held.
 */
bool twi_slice_lead_ringless(struct twi_engine *engine, const struct twi_wait *wait);

/*
 * The operation of a sleeping follower has ended, and its wait is off all lists. True: the thread
 * is due, and is woken later. The engine is held.
 */
bool twi_slice_defer(struct twi_engine *engine, struct twi_wait *wait);

/* Takes a due wait off the queue, and lets its thread go on. The engine is held. */
void twi_slice_withdraw(struct twi_engine *engine, struct twi_wait *wait);

/*
 * The driver still waits while others are due. True: it has passed its slice on, and is to follow.
 * The engine is held.
 */
bool twi_slice_pass(struct twi_engine *engine, const struct twi_wait *wait, uint64_t now_ns);

/*
 * An idle turn of the driver, which has waited for idle_ns. False: it is better to sleep. Another
 * thread that keeps taking turns on this core may be the partner, which does the same. So the
 * driver sleeps for a moment in one of two such cases, at random. The kernel then wakes it on an
 * idle core, if there is one. The engine is held.
 */
bool twi_slice_idle(struct twi_engine *engine, uint64_t idle_ns);

/* Will the owner, which does not drive now, come back soon enough? The engine is held. */
bool twi_slice_owner_comes(struct twi_engine *engine);

/*
 * The owner does not come back: lets due threads go on. False: there are none. The engine is held.
 */
bool twi_slice_owner_away(struct twi_engine *engine);

/* Wakes all due threads. The engine is held. */
void twi_slice_wake_all(struct twi_engine *engine);

#endif
