/*
 * forming.h - what a rank knows of the others while it waits for them in tow_group_open.
 *
 * The verdict reads this record to answer why the job does not begin
 * (diag/judge/verdict_forming.c).
 *
 *	rank 0's store, its clients ---> forming, on the engine's list ---> the verdict
 *
 * The record exists only while the rank waits. A rank whose job is complete has none.
 */
#ifndef TWI_FORMING_H
#define TWI_FORMING_H

#include <internal/list.h>

#include "diag/judge/verdict.h"

struct twi_absent;
struct twi_engine;

struct twi_forming {
	struct twi_list link; /* on engine->formings */
	struct twi_engine *engine;
	struct twi_verdict_forming known;
};

/* All calls but twi_forming_tell take the engine. begin and end enclose the wait. */
void twi_forming_begin(struct twi_forming *forming, struct twi_engine *engine, uint32_t rank,
		       uint32_t size);
void twi_forming_end(struct twi_forming *forming);

/* unreached: rank 0's store cannot be reached, and why. reached: it has been reached at `store`. */
void twi_forming_unreached(struct twi_forming *forming, const char *store, const char *why);
void twi_forming_reached(struct twi_forming *forming, const char *store);

/* Takes the store's report on the missing ranks. */
void twi_forming_absent(struct twi_forming *forming, const struct twi_absent *absent);

/*
 * Returns the record of the wait that began first; *out has size 0 where there is none. The engine
 * is held.
 */
void twi_forming_tell(const struct twi_engine *engine, struct twi_verdict_forming *out);

#endif
