/*
 * told.h - measures the blocked time of a thread that learns of ends from the library's own thread.
 *
 * Such a thread starts operations with a callback or a queue. Then it sleeps on something of its
 * own (a condition variable, an event loop) until that is woken.
 *
 *	the thread   start . . . asleep . . . . . . . . | runs on
 *	                                                |
 *	library's                        look, callback, look
 *
 * Just before the library's thread reports operations that took long, it looks whether the other
 * thread is asleep. Just after, it looks whether that thread still is. If the thread was woken, and
 * has slept once since its start, all of its sleep was for this. A thread that sleeps on has slept
 * for something else, such as a device. A thread that is awake has computed.
 *
 * If the thread has slept more than once, its last sleep is known in part. While the library's
 * thread has nothing to do, it looks at the other thread from time to time. If the number of sleeps
 * is the same at the report, the thread has slept on since such a look.
 *
 * A thread that always sleeps on, and learns of no end itself, may start operations for other
 * threads, which sleep until they end. Nothing is known of those threads, nor where /proc has no
 * status of threads (proc(5)).
 */
#ifndef TWI_TOLD_H
#define TWI_TOLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct twi_engine;

#define TWI_TOLD_LEAST 1000000u /* an operation that took less is not worth a look, ns */

struct twi_told {
	_Atomic int thread; /* the last to start an operation whose end is reported; 0: none */
	_Atomic int hears;  /* the last to take results, or to drive its tow_fd; 0: none */
	_Atomic bool stale; /* the next start reads anew what the thread has done */
	/*
	 * At that reading, or at the last wake: engine time, time awake (or without a CPU), sleeps
	 * so far.
	 */
	_Atomic uint64_t from_ns, awake_ns, sleeps;
	/* The library's thread writes these: time blocked, and collectives reported. */
	_Atomic uint64_t blocked_ns;
	_Atomic uint32_t colls;
	_Atomic uint32_t doubts;    /* reports of which it is not known whether it was blocked */
	_Atomic uint64_t missed_ns; /* when it last slept on although there was news for it */
	uint64_t looked_ns;
	uint32_t looks;   /* looks that may be taken now */
	int awake;        /* the thread that `trusted` is about */
	uint32_t trusted; /* how often it may still sleep on: lately it was awake, or woken */
	uint32_t near;    /* how many more ends begin a new measurement: lately one took long */
	int peek_thread;  /* the thread seen asleep between reports; 0: none */
	uint64_t peek_sleeps, peek_ns; /* its sleeps then, and when that was seen first */
	int file, file_thread;         /* its status in /proc, if `opened` */
	bool opened;
};

/* An operation whose end is reported, as far as the report's account needs it. */
struct twi_told_long {
	uint64_t took_ns;
	uint8_t kind;     /* enum twi_waited */
	const void *peer; /* only compared; NULL: no peer by name */
};

/*
 * What the library's thread sees of the other thread before a report; `thread` 0: it could not
 * look.
 */
struct twi_told_look {
	int thread;
	bool asleep;
	uint64_t now_ns, awake_ns, sleeps;
};
void twi_told_before(struct twi_engine *engine, struct twi_told_look *look);
/* The report has been made; its longest operation is `longest`. The engine is held. */
void twi_told_after(struct twi_engine *engine, const struct twi_told_look *look,
		    const struct twi_told_long *longest);

/*
 * There is news for a thread that has a descriptor: records whether it sleeps on. It does not sleep
 * on if engine->drives has changed from `drives`. The library's thread calls it.
 */
void twi_told_missed(struct twi_engine *engine, uint64_t drives);

/*
 * In how long the library's thread, which sleeps, looks at the waiting thread; UINT64_MAX: never.
 */
uint64_t twi_told_peek_in(const struct twi_engine *engine, uint64_t now_ns);
/*
 * The library's thread has slept for that time and nothing has come: looks at the waiting thread.
 */
void twi_told_peek(struct twi_engine *engine, uint64_t now_ns);

/*
 * Reads what the calling thread has done so far, as it is to be told of an end. See twi_told_start
 * (op/polled.h).
 */
void twi_told_base(struct twi_engine *engine);

/* The library's thread reports the end of a collective. */
void twi_told_coll(struct twi_told *told);

/*
 * An end is reported while `near` is above 0: the next start begins a new measurement. The engine
 * is held.
 */
void twi_told_end(struct twi_told *told);

void twi_told_close(struct twi_told *told);

#endif
