/*
 * background.h - the library's own thread: it drives while no thread of the caller's does.
 *
 *	          nobody has driven for a tick
 *	TICKING ------------------------------> takes over: polls until idle, arms its ring
 *	   ^  |                                       |
 *	   |  | the same wait goes on                 v
 *	   |  +--------> DOZING                    ASLEEP on its ring; no tick: 0 % of a CPU
 *	   |                | the wait is over        | an event, a deadline: takes over again
 *	   +----------------+-------------------------+ callers drive, or have left something behind
 *
 * What it costs the callers: a plain store in each poll, which it compares once a tick while they
 * drive; one eventfd write when they come back after it has slept; nothing for each message. It
 * gives way as any driving thread does, and does not come back while they drive.
 *
 * Its ring stands apart from those of the callers (TWI_RING_BACKGROUND). It is no sleeper in the
 * engine's sense (nothing is completed for it); `background_asleep` says that it wants a wake:
 * TWI_BG_ASLEEP when something was left armed elsewhere, or left to do before `alarm_ns` of the
 * engine; TWI_BG_DOZING when the last wait is over. Both are set while the engine is held, so that
 * none is missed. What is left to do is asked of lanes, devices and collectives by the thread that
 * gives the engine back while this one sleeps: no start has to know that it leaves something.
 *
 * It starts with the first endpoint, blocks all signals, ends at close, and does not exist under a
 * virtual clock, with the knob `background` 0, or in a forked child.
 */
#ifndef TWI_BACKGROUND_H
#define TWI_BACKGROUND_H

#include <stdbool.h>

struct twi_engine;

enum twi_background_sleep { TWI_BG_AWAKE, TWI_BG_ASLEEP, TWI_BG_DOZING };

/*
 * Starts it if it is to be there and is not: true when it did. The engine is held. A thread that
 * cannot be had is logged: the runtime works without.
 */
bool twi_background_start(struct twi_engine *engine);

/*
 * Waits until the one just started has its ring, which is registered with the pool: after the seal
 * that would be late. The engine is not held; in a callback nothing is waited for.
 */
void twi_background_settle(struct twi_engine *engine);

/* Ends it and waits for its end. The engine is not held; no other thread may be in a call. */
void twi_background_stop(struct twi_engine *engine);

/* Is the calling thread the one of this engine? */
bool twi_background_self(const struct twi_engine *engine);

/* Wakes it if it is there. The engine is held. */
void twi_background_wake(struct twi_engine *engine);

#endif
