/*
 * background.h - the library's own thread: it drives while no thread of the callers does.
 *
 *	          no thread has driven for a tick
 *	TICKING ------------------------------> takes over: polls until idle, arms its ring
 *	   ^  |                                       |
 *	   |  | the same wait goes on                 v
 *	   |  +--------> DOZING                    ASLEEP on its ring; no tick: 0 % of a CPU
 *	   |                | the wait is over        | an event, a deadline: takes over again
 *	   +----------------+-------------------------+ callers drive, or have left something behind
 *
 * A caller that leaves something in flight, and is expected to stay away, ends a tick early
 * (handoff.h): the thread takes over then.
 *
 * The thread costs the callers a plain store in each poll: it compares that counter once a tick
 * while they drive. When they come back after it has slept, it costs them one eventfd write. A
 * message costs nothing more. The thread gives way as any driving thread does, and does not come
 * back while they drive.
 *
 * Its ring stands apart from those of the callers (TWI_RING_BACKGROUND). The thread is no sleeper
 * in the engine's sense, as nothing is completed for it. `background_asleep` says that it wants a
 * wake. TWI_BG_ASLEEP: when something was left armed elsewhere, or left to do before `alarm_ns` of
 * the engine. TWI_BG_DOZING: when the last wait is over. Both are set while the engine is held, so
 * that no wake is missed. TWI_BG_NAPPING: when a caller hands over; that wake may be missed, as the
 * nap ends soon. The thread that gives the engine back while this one sleeps asks the
 * lanes, devices and collectives what is left to do. So no call has to know that it leaves
 * something.
 *
 * The thread starts with the first endpoint or device, blocks all signals, and ends at close. It
 * does not exist under a virtual clock, with the knob `background` 0, or in a forked child.
 */
#ifndef TWI_BACKGROUND_H
#define TWI_BACKGROUND_H

#include <stdbool.h>

struct twi_engine;

enum twi_background_sleep { TWI_BG_AWAKE, TWI_BG_ASLEEP, TWI_BG_NAPPING, TWI_BG_DOZING };

/*
 * Starts the thread if it is to be there and is not. True: it was started. The engine is held. If
 * no thread can be had, that is logged: the runtime works without.
 */
bool twi_background_start(struct twi_engine *engine);

/*
 * Waits until the thread that was just started has its ring. The ring is registered with the pool,
 * and after the seal that would be late. The engine is not held; in a callback it does not wait.
 */
void twi_background_settle(struct twi_engine *engine);

/*
 * Ends the thread, and waits for its end. The engine is not held; no other thread may be in a call.
 */
void twi_background_stop(struct twi_engine *engine);

/* Is the calling thread the one of this engine? */
bool twi_background_self(const struct twi_engine *engine);

/* Wakes the thread if it is there. The engine is held. */
void twi_background_wake(struct twi_engine *engine);

#endif
