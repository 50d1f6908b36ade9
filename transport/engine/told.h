/*
 * told.h - for how long a thread is blocked that is told of ends by the library's own thread: it
 * starts operations with a callback or a queue, and sleeps on something of its own (a condition
 * variable, an event loop) until that has been woken.
 *
 *	the thread   start . . . asleep . . . . . . . . | runs on
 *	                                                |
 *	library's                        look, callback, look
 *
 * Just before it tells of what has taken long, the library's thread looks whether that thread is
 * asleep, and just after whether it is no longer. If so, and it has slept once since its start, all
 * the time that it slept was for this. A thread that sleeps on has slept for something else, as a
 * device; one that is awake has computed. Of one that has slept more than once the last sleep is
 * known in part: while the library's thread has nothing to do it looks at it from time to time, and
 * a thread that has slept no more often when it is told has slept on since such a look.
 *
 * A thread that always sleeps on, and learns of no end itself, may start operations for others,
 * which sleep until they end: of that nothing is known, nor where /proc has no status of threads
 * (proc(5)).
 */
#ifndef TWI_TOLD_H
#define TWI_TOLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct twi_engine;

#define TWI_TOLD_LEAST 1000000u /* an operation that took less is not worth a look, ns */

struct twi_told {
	_Atomic int thread; /* that started last what it is to be told the end of; 0: none */
	_Atomic int hears;  /* that takes results, or drives its tow_fd, last; 0: none */
	_Atomic bool stale; /* its next start reads what it has done until then */
	/* Then, or when it was woken last: engine time, awake so far (or no CPU), sleeps so far. */
	_Atomic uint64_t from_ns, awake_ns, sleeps;
	/* The library's thread writes: so long it was blocked, of so many collectives told. */
	_Atomic uint64_t blocked_ns;
	_Atomic uint32_t colls;
	_Atomic uint32_t doubts;    /* times when it is not known whether it was blocked */
	_Atomic uint64_t missed_ns; /* when it slept last although there was news for it */
	uint64_t looked_ns;
	uint32_t looks;   /* that may be taken now */
	int awake;        /* the thread of which `trusted` speaks */
	uint32_t trusted; /* so often it may sleep on: lately it was awake, or woken by an end */
	uint32_t near;    /* so many ends are worth a new beginning: lately one took long */
	int peek_thread;  /* that was asleep when it was looked at meanwhile; 0: none was */
	uint64_t peek_sleeps, peek_ns; /* its sleeps then, and when that was seen first */
	int file, file_thread;         /* its status in /proc, where it is open */
	bool opened;
};

/* What an end is worth to who is told of it. */
struct twi_told_long {
	uint64_t took_ns;
	uint8_t kind;     /* enum twi_waited */
	const void *peer; /* compared alone; NULL: nobody by name */
};

/* The library's thread, before it tells; a look that did not come about says so by `thread` 0. */
struct twi_told_look {
	int thread;
	bool asleep;
	uint64_t now_ns, awake_ns, sleeps;
};
void twi_told_before(struct twi_engine *engine, struct twi_told_look *look);
/* Then it has told, among others of what took `longest`. The engine is held. */
void twi_told_after(struct twi_engine *engine, const struct twi_told_look *look,
		    const struct twi_told_long *longest);

/*
 * There is news for a thread that has a descriptor: does it sleep on? Not if it has driven since
 * `drives` of the engine. The library's thread.
 */
void twi_told_missed(struct twi_engine *engine, uint64_t drives);

/* The library's thread sleeps: how soon it looks at who waits, UINT64_MAX: that is not needed. */
uint64_t twi_told_peek_in(const struct twi_engine *engine, uint64_t now_ns);
/* It has slept so long, and nothing has come. */
void twi_told_peek(struct twi_engine *engine, uint64_t now_ns);

/* See twi_told_start (op/polled.h): the calling thread is to be told. What has it done so far? */
void twi_told_base(struct twi_engine *engine);

/* The library's thread tells it of a collective. */
void twi_told_coll(struct twi_told *told);

/* Somebody tells of an end, and `near` is above 0: what comes begins anew. The engine is held. */
void twi_told_end(struct twi_told *told);

void twi_told_close(struct twi_told *told);

#endif
