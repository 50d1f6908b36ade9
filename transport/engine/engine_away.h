/*
 * engine_away.h - for how long no thread polled.
 *
 * All that a poll finds has come since the previous poll began. While a thread polls, that is a few
 * us. But a callback that computes, or a program that does not drive, leaves messages in sockets
 * and rings meanwhile. A sleep is no absence, as an arrival ends it.
 *
 *	poll            poll: its callback computes              poll
 *	 |               |                                        |-- it finds a message
 *	looked_ns ...   looked_ns                                looking_ns
 *	                |<----------- unseen, at most ---------->|
 *
 * Polls are timed only after a caller has asked for it (time_looks). Then a poll of all lanes reads
 * the clock, unless it was read anyway.
 */
#ifndef TWI_ENGINE_AWAY_H
#define TWI_ENGINE_AWAY_H

#include <stdbool.h>
#include <stdint.h>

struct twi_engine;

#define TWI_AWAY_NS 100000u /* shorter times without a poll are no absence */

struct twi_away {
	bool timed;
	bool push_due;       /* a callback has taken long (twi_engine_push) */
	uint64_t looking_ns; /* when the last timed poll began */
	uint64_t looked_ns;  /* when the timed poll before it began */
	uint64_t absent_ns;  /* total time without polls, up to looking_ns */
};

/*
 * The engine is held in all of them.
 *
 *	time_looks  polls are timed from now on
 *	look        a poll begins; `all`: of all lanes, for which the clock may be read
 *	unseen      the longest time before now_ns at which this poll's findings can have come
 *	absent      total time without polls until now_ns, since timing began
 *	present     the engine is awake since now_ns; arrivals would have ended the sleep before
 */
void twi_engine_time_looks(struct twi_engine *engine);
void twi_engine_look(struct twi_engine *engine, bool all);
uint64_t twi_engine_unseen(const struct twi_engine *engine, uint64_t now_ns);
uint64_t twi_engine_absent(const struct twi_engine *engine, uint64_t now_ns);
void twi_engine_present(struct twi_engine *engine, uint64_t now_ns);

/*
 * Called between two callbacks when one has taken long. Sends what that callback has requested now,
 * and not after the last callback.
 */
void twi_engine_push(struct twi_engine *engine);

#endif
