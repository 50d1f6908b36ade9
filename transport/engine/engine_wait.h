/*
 * engine_wait.h - threads in tow_op_wait and tow_wait_any: which one drives, which one keeps watch,
 * and which ones are woken.
 *
 *	driver    awake; polls with its own ring whenever no thread asks for the engine  at most one
 *	sentry    asleep on its ring, where everything is armed, until the alarm         at most one
 *	follower  asleep on a word of its own, until its operation ends or it must look
 *
 * So an arrival wakes one thread, however many have armed something before. The end of an operation
 * wakes the threads that wait for it. A follower needs no ring, so any number of threads may wait.
 *
 * A follower lingers before it sleeps: it yields its core and looks at its word, again and again. A
 * core with many such threads changes between them sooner than it wakes one of them. While any
 * thread lingers, the driver lets go of the engine and yields between its polls. Lingering is for
 * threads that all exchange. If operations take longer than a few times spin_ns, or another program
 * keeps the cores, a follower sleeps at once.
 *
 * The next driver takes the watch from the sentry, which sleeps on. When a driver's wait has ended
 * and others are left, another thread must take its place. A driver that was away only shortly the
 * last time (LAZY_NS) will be back before it pays to wake a thread. The library's own thread checks
 * that once a tick, and has a follower take over if the driver is not back. A driver that stays
 * away longer wakes its successor itself.
 *
 * A driver that has waited for SENIOR_NS when another wait begins lets that one drive. A thread
 * that exchanges small messages is not to depend on one that waits for next week.
 *
 * A wait is for one operation or for several, and ends with the first that ends. It has an entry on
 * the list of each operation, so the thread that completes any of them finds the wait. It sleeps on
 * one word or one ring however many operations there are. A wait for several has its end noted when
 * it comes (`ended`). So a turn of the driver costs the same for one operation and for thousands.
 *
 * Only the holder of the engine writes this state, except for `word`, which a lingering thread
 * writes, too.
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
	TWI_WAIT_LINGERS, /* as ASLEEP, but the thread looks at the word itself */
	TWI_WAIT_LOOK,    /* it must take the engine and look */
	TWI_WAIT_ENDED    /* an operation is done; the wait is off all lists */
};

/* One of the operations that a thread waits for: an entry on that operation's list. */
struct twi_wait_entry {
	struct twi_wait_entry *next; /* the next one of the same operation */
	struct twi_wait *wait;       /* NULL: the operation is named twice, linked once */
	struct twi_waitable *what;
};

/* A thread in twi_engine_wait or twi_engine_wait_any; on its stack. */
struct twi_wait {
	struct twi_list link; /* on engine->waiting; on the queue of slices while it is due */
	struct twi_wait_entry *entries;
	size_t count;
	uint64_t since_ns;
	uint64_t denied_ns;    /* when it was refused a ring; 0: it was not */
	struct twi_ring *ring; /* the ring that it sleeps on; NULL: it sleeps on `word` */
	bool ringed;           /* its thread has a ring */
	bool listed;           /* it is on the lists: see twi_wait_begin */
	bool asleep;
	bool memory;           /* what it waits for comes by a memory-polled lane */
	uint32_t mark;         /* mark of its thread */
	bool due;              /* see engine_slice.h */
	_Atomic bool ended;    /* one of several operations has ended */
	_Atomic uint32_t word; /* enum twi_wait_word */
};

/*
 * Begin and end a wait. The driver of one operation is on no list, as no thread looks for it there:
 * most waits are never on a list. A wait is put on the engine's list, and on those of its
 * operations, when it sleeps or another thread takes the lead. A wait for several operations is put
 * there at once. The engine is held.
 */
void twi_wait_begin(struct twi_engine *engine, struct twi_wait *wait);
void twi_wait_end(struct twi_engine *engine, struct twi_wait *wait);

/*
 * Makes the calling thread, which does not drive, the driver, with its ring bound. It does so if
 * there is no driver, or if the driver has waited for long. The engine is held.
 */
bool twi_wait_take_lead(struct twi_engine *engine, struct twi_wait *wait);

/*
 * Sleeps without a ring, at most until `until_ns`. True: an operation of the wait is done, the wait
 * is off the lists, and the engine is not held. False: the engine is held again.
 */
bool twi_wait_follow(struct twi_engine *engine, struct twi_wait *wait, uint64_t until_ns);

/*
 * watch: the driver is about to sleep on its ring, until alarm_ns at the latest. watched: it has
 * woken up. The engine is held.
 */
void twi_wait_watch(struct twi_engine *engine, struct twi_wait *wait, uint64_t alarm_ns);
void twi_wait_watched(struct twi_engine *engine, struct twi_wait *wait);

/* Another ring drives from now on: arrivals do not wake the sentry any more. The engine is held. */
void twi_wait_relieve(struct twi_engine *engine);

/* `what` is done: wakes the threads that wait for it. The engine is held. */
void twi_wait_tell(struct twi_engine *engine, struct twi_waitable *what);

/*
 * Lets a sleeping follower go on: its operation has ended, and its wait is off all lists. The
 * engine is held.
 */
void twi_wait_wake_ended(struct twi_engine *engine, struct twi_wait *wait);

/*
 * The engine is given back while waiters sleep: makes sure that a thread does what is left to do.
 * `news`: there is something to do that no sleeper knows of. The engine is held.
 */
void twi_wait_cover(struct twi_engine *engine, bool news);

/* Wakes a sleeper to take over the driving. False: none can. The engine is held. */
bool twi_wait_promote(struct twi_engine *engine);

/* Does a caller drive or keep watch? Any thread may ask. */
bool twi_wait_covered(struct twi_engine *engine);

#endif
