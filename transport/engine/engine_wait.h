/*
 * engine_wait.h - threads in tow_op_wait and tow_wait_any: which one drives, which one keeps watch,
 * who is woken.
 *
 *	driver    awake; polls with its own ring whenever nobody asks for the engine   at most one
 *	sentry    asleep on its ring, where everything is armed, until the alarm       at most one
 *	follower  asleep on a word of its own, until its operation ends or it is told to look
 *
 * So what arrives wakes one thread, however many have armed something before, and what ends wakes
 * who waits for it. A follower needs no ring, so any number of threads may wait.
 *
 * A follower lingers before it sleeps: it yields its core and looks at its word, again and again,
 * for a core with many such threads changes between them sooner than it wakes one of them. While
 * any lingers the driver lets go of the engine and yields between its polls. That is for threads
 * which all exchange: where operations take longer than a few times spin_ns, or somebody else keeps
 * the cores, a follower sleeps at once.
 *
 * The next driver takes the watch from the sentry, which sleeps on. When the driver has what it
 * waited for and others are left, somebody must take its place. A driver that was away only shortly
 * the last time (LAZY_NS) will be back before it pays to wake anybody: the library's own thread
 * looks once a tick whether it is, and has a follower take over if not. One that stays away longer
 * wakes its successor itself. A waiter that has waited for SENIOR_NS when another one begins lets
 * that one drive: who exchanges small messages is not to be served by one who waits for next week.
 *
 * A wait is for one operation or for several, and ends with the first that ends. It has an entry on
 * the list of each of them, so the thread that completes any finds it, and it sleeps on one word or
 * one ring however many they are. Where there are several the end is noted when it comes (`ended`):
 * a turn of the driver costs the same for one operation and for thousands.
 *
 * All of it is written by the holder of the engine alone, but for `word`, and what the sleeper's
 * own stack frame needs to come back.
 */
#ifndef TWI_ENGINE_WAIT_H
#define TWI_ENGINE_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <internal/list.h>

struct twi_engine;
struct twi_ring;
struct twi_waitable;

enum twi_wait_word {
	TWI_WAIT_ASLEEP,
	TWI_WAIT_LINGERS, /* as asleep, but it looks at the word by itself */
	TWI_WAIT_LOOK,    /* take the engine and see */
	TWI_WAIT_ENDED    /* an operation is done, and the wait taken off all lists */
};

/* One of the operations that a thread waits for: an entry on that operation's list. */
struct twi_wait_entry {
	struct twi_wait_entry *next; /* of the same operation's */
	struct twi_wait *wait;       /* NULL: named twice, linked once */
	struct twi_waitable *what;
};

/* A thread in twi_engine_wait or twi_engine_wait_any; on its stack. */
struct twi_wait {
	struct twi_list link; /* of the engine's */
	struct twi_wait_entry *entries;
	size_t count;
	uint64_t since_ns;
	uint64_t denied_ns;    /* when it could have no ring; 0: it was not so */
	struct twi_ring *ring; /* that it sleeps on; NULL: on `word` */
	bool ringed;           /* its thread has a ring */
	bool listed;           /* on the lists: see twi_wait_begin */
	bool asleep;
	bool memory;           /* what it waits for comes by a memory-polled lane */
	uint32_t mark;         /* its thread's */
	bool due;              /* see engine_slice.h */
	_Atomic bool ended;    /* of several: one of them */
	_Atomic uint32_t word; /* enum twi_wait_word */
};

/*
 * A wait begins and ends. The driver of one operation is on no list, as nobody looks for it there:
 * most waits come and go as that. A wait is put on the engine's list and on those of its operations
 * when it sleeps or another one takes the lead; one for several operations at once. The engine is
 * held.
 */
void twi_wait_begin(struct twi_engine *engine, struct twi_wait *wait);
void twi_wait_end(struct twi_engine *engine, struct twi_wait *wait);

/*
 * Makes the calling thread, which is not the driver, the driver, with its ring bound, if it may be:
 * there is none, or one that has waited for long. The engine is held.
 */
bool twi_wait_take_lead(struct twi_engine *engine, struct twi_wait *wait);

/*
 * Sleeps without a ring, at most until `until_ns`. True when an operation of its is done: the wait
 * is off the lists and the engine not held. Else the engine is held again.
 */
bool twi_wait_follow(struct twi_engine *engine, struct twi_wait *wait, uint64_t until_ns);

/* The driver goes to sleep on its ring, and has come back. The engine is held. */
void twi_wait_watch(struct twi_engine *engine, struct twi_wait *wait, uint64_t alarm_ns);
void twi_wait_watched(struct twi_engine *engine, struct twi_wait *wait);

/* Another ring drives from now on: the sentry sleeps on undisturbed. The engine is held. */
void twi_wait_relieve(struct twi_engine *engine);

/* An operation is done: wakes who waits for it. The engine is held. */
void twi_wait_tell(struct twi_engine *engine, struct twi_waitable *what);

/* A sleeping follower's operation has ended, and it is off all lists: it goes on. Engine held. */
void twi_wait_wake_ended(struct twi_engine *engine, struct twi_wait *wait);

/*
 * The engine is given back while waiters sleep; `news`: there is something to do that no sleeper
 * knows of. Sees to it that somebody does it.
 */
void twi_wait_cover(struct twi_engine *engine, bool news);

/* Has a sleeper take over the driving: false when none can. The engine is held. */
bool twi_wait_promote(struct twi_engine *engine);

/* Does a caller drive or keep watch? Any thread may ask. */
bool twi_wait_covered(struct twi_engine *engine);

#endif
