/*
 * engine_away.h - how long nobody polled. What a poll finds has come since the poll before it
 * began: while somebody polls that is a few us, but a callback that computes, or a program that
 * does not drive, leaves messages in sockets and rings meanwhile. A sleep is no absence, as what
 * comes ends it.
 *
 *	poll            poll: its callback computes              poll
 *	 |               |                                        |-- it finds a message
 *	 looked_ns ...   looked_ns                                looking_ns
 *	                 |<----------- unseen, at most ---------->|
 *
 * Only who needs to know has polls timed: where no clock was read anyway it is read then.
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
	uint64_t looking_ns; /* when the last poll began, of those of which that is known */
	uint64_t looked_ns;  /* the one before it */
	uint64_t absent_ns;  /* for how long nobody was there, in all, up to looking_ns */
};

/*
 * The engine is held in all of them.
 *
 *	time_looks  from now on polls are timed
 *	look        a poll begins; `all`: of all lanes, for which the clock may be read
 *	unseen      how long before now_ns what this poll has found can have come, at most
 *	absent      for how long nobody was there, by now_ns, since the start
 *	present     the engine is awake since now_ns, after a sleep in which it would have heard
 */
void twi_engine_time_looks(struct twi_engine *engine);
void twi_engine_look(struct twi_engine *engine, bool all);
uint64_t twi_engine_unseen(const struct twi_engine *engine, uint64_t now_ns);
uint64_t twi_engine_absent(const struct twi_engine *engine, uint64_t now_ns);
void twi_engine_present(struct twi_engine *engine, uint64_t now_ns);

/*
 * Between two callbacks of which one has taken long: what it has requested goes now, and not when
 * all of them are through.
 */
void twi_engine_push(struct twi_engine *engine);

#endif
