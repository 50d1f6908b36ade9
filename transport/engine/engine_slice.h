/*
 * engine_slice.h - turns by time slices, where more threads exchange than there are cores.
 *
 * Where each of 64 threads exchanges small messages with a thread of its own in another process, a
 * change of threads costs many times what an exchange does. So the thread that drives, the *owner*,
 * goes on with its own exchanges for a slice of time, as the kernel's scheduler would have it, and
 * the threads whose operations it ends meanwhile are woken later: they are *due*, and wait in a
 * queue. At the end of its slice the owner hands over to the first of them and sleeps itself.
 *
 * An exchange needs both of its threads at a time, so the two processes must choose the same pair.
 * That comes about by itself: an owner whose operation does not end while others become due passes
 * to the one that became due last, for that one's partner runs over there. An owner that has
 * exchanged nothing yet is patient, as its partner may have to be woken first; for how long is a
 * matter of chance, so that two sides which choose anew at the same time do not do so for ever.
 *
 * A side ends slices at the pace at which everybody of its queue has a turn once in as many slices
 * as there are threads in waits, whichever side each of the pairs is due on. Few threads have short
 * slices, but no shorter than what their waits take that pay for one.
 *
 * A thread that exchanges seldom is not to wait for a turn, nor would it use one: it is woken at
 * once, at most twice in a slice, and the owner, which may be on the core that it needs, yields
 * once. Its partner in the other process has waited for long, as those have that wait for their
 * turn, so it is known otherwise: the owner there goes on exchanging after the message to it has
 * come.
 *
 * Slices begin where waits are many, for operations of memory-polled lanes, whose other process is
 * of this host, too: where more than two threads wait, and more than one for each CORES_EACH
 * cores, so that they and their partners are more than the cores. They do so only
 * beside the library's own thread, which moves the other lanes meanwhile, and looks whether the
 * owner is away for TWI_SLICE_AWAY_NS: then the next one has its slice, or all who are due are
 * woken, if the owner has exchanged next to nothing. And only while slices pay, and nobody else
 * keeps the cores. Else followers linger (engine_wait.h), and slices are tried again: after
 * AGAIN_NS, and after twice as long each time that they do not pay, up to AGAIN_MAX_NS. The other
 * process does not know that this one goes without: that must be short.
 *
 * All of it is written by the holder of the engine alone.
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
	_Atomic bool on;       /* this and the next: any thread may ask */
	_Atomic bool ringless; /* the owner has no ring: it polls the memory-polled lanes alone */
	uint32_t above;        /* with more threads in waits than these slices may begin */
	uint32_t owner;        /* the mark of its thread */
	uint32_t last_owner;   /* of the slice before this one */
	uint32_t owner_waits;  /* that it has begun in this slice */
	uint32_t news;         /* threads that have become due since its wait began */
	uint32_t due_count;
	struct twi_wait *fresh; /* the one that became due last in this slice; NULL: none, */
	uint32_t fresh_waits;   /* when the owner had begun so many waits */
	bool favoured;          /* somebody was woken out of turn: the owner is to give way once */
	struct twi_list due; /* struct twi_wait; in front the one that has been due for longest */
	int32_t pays;        /* slices that have paid less those that have not, within bounds */
	uint64_t slice_ns;   /* how long they are to be */
	uint64_t paid_ns;    /* in which a slice pays, by what the last ones saw */
	uint64_t begun_ns;   /* this one */
	uint64_t end_ns;     /* of the slice, when somebody is due */
	uint64_t favour_ns;  /* not before this time is one woken out of turn */
	uint64_t patience_ns;
	uint64_t missed_ns; /* since when it is known that the owner does not drive; 0: it is not */
	uint64_t seen_ns;   /* without slices: since when waits are counted, for ten slices, */
	uint64_t seen_waits;  /* and how many had begun then */
	uint32_t begin_most;  /* slices begin at so many, or fewer: sanitized tests are slow */
	uint64_t again_ns;    /* slices have not paid: not before this time */
	uint64_t again_in_ns; /* when they do not pay the next time: for how long */
	uint64_t random;
	uint64_t count;        /* of slices that have begun */
	uint32_t shared_turns; /* idle ones in a row in which another thread had the core */
};

void twi_slice_init(struct twi_slices *slices);

/*
 * A thread that begins a wait, or goes on with it, would drive, as nobody does. False: it is to
 * follow, because it has handed over, or the owner is about to come. The engine is held.
 */
bool twi_slice_may_lead(struct twi_engine *engine, const struct twi_wait *wait);

/* Any thread may ask. */
static inline bool twi_slices_on(const struct twi_slices *slices)
{
	return atomic_load_explicit(&slices->on, memory_order_relaxed);
}

/* Do slices go on whose owner has no ring? Any thread may ask. */
static inline bool twi_slices_ringless(const struct twi_slices *slices)
{
	return twi_slices_on(slices) &&
	       atomic_load_explicit(&slices->ringless, memory_order_relaxed);
}

/* Does the calling thread own a slice without a ring? The engine is held. */
bool twi_slice_is_ringless(const struct twi_engine *engine);

/* May a thread that can have no ring drive without one? Then it does. The engine is held. */
bool twi_slice_lead_ringless(struct twi_engine *engine, const struct twi_wait *wait);

/*
 * The operation of a sleeping follower, which is off all lists, has ended. True: it is due. The
 * engine is held.
 */
bool twi_slice_defer(struct twi_engine *engine, struct twi_wait *wait);

/* One that is due goes on without being woken. The engine is held. */
void twi_slice_withdraw(struct twi_engine *engine, struct twi_wait *wait);

/* The driver still waits and others are due: true when it has passed and is to follow. Held. */
bool twi_slice_pass(struct twi_engine *engine, const struct twi_wait *wait, uint64_t now_ns);

/*
 * An idle turn of the driver, which has waited for idle_ns. False: it is better to sleep. When the
 * thread that it waits for runs on the very same core it sleeps for a moment, by chance that one of
 * the two that does: the kernel wakes it on a core that is idle, if there is one.
 */
bool twi_slice_idle(struct twi_engine *engine, uint64_t idle_ns);

/* Does the owner, which does not drive at the moment, come back before others must? Held. */
bool twi_slice_owner_comes(struct twi_engine *engine);

/* It does not: others who are due go on. False: there are none. Held. */
bool twi_slice_owner_away(struct twi_engine *engine);

/* Wakes all who are due. The engine is held. */
void twi_slice_wake_all(struct twi_engine *engine);

#endif
