/*
 * engine_drive.h - for those who drive: polling, waiting, waking sleepers, and rings that come and
 * go. Code that only starts something needs engine.h alone.
 */
#ifndef TWI_ENGINE_DRIVE_H
#define TWI_ENGINE_DRIVE_H

#include "transport/engine/engine.h"
#include "transport/engine/engine_wait.h"
#include "transport/engine/waitable.h"

/* Regions have come or gone: the ring of the holder follows. */
void twi_engine_keep_in_step(struct twi_engine *engine);

/* From now on every thread asks anew whether it has a ring here. */
void twi_engine_rebind(struct twi_engine *engine);

/* The ring in a slot goes, with all that was armed in it. */
void twi_engine_drop_ring(struct twi_engine *engine, unsigned index);

/* May another ring go? It may not while TWI_RINGS_MAX of them wait to be closed. */
bool twi_engine_may_drop_ring(const struct twi_engine *engine);

/* Moves every lane once, ends what is past its deadline. The engine is held and has a ring. */
unsigned twi_engine_poll(struct twi_engine *engine);

/* The same, for a caller that spins: lanes that are not polled in memory have their turn rarely. */
unsigned twi_engine_poll_memory(struct twi_engine *engine);

/* As twi_engine_enter, but not for longer than ns: false, it is kept for longer. */
bool twi_engine_enter_within(struct twi_engine *engine, uint64_t ns);

/*
 * Somebody has asked for the engine for a millisecond, while callbacks followed each other, which
 * those of a busy server do for ever: it gets it, and those that are left are its, or whose it is
 * next. *since_ns: when the first of these looks was; 0: there was none. The engine is held.
 */
bool twi_engine_is_asked(struct twi_engine *engine, uint64_t *since_ns);

/* When to poll again though nothing has come. */
uint64_t twi_engine_next_deadline(struct twi_engine *engine, uint64_t until_ns);

/* Runs the callbacks that are due. True when there were any. The engine is held. */
static inline bool twi_engine_run_callbacks(struct twi_engine *engine)
{
	return !twi_list_empty(&engine->callbacks) && engine->hooks.op->run_callbacks(engine);
}

/*
 * Drives until `what` is done or `until_ns` (engine time) has come; now_ns is the engine's time
 * now. TOW_OK, TOW_AGAIN or a failure.
 */
int twi_engine_wait(struct twi_engine *engine, struct twi_waitable *what, uint64_t now_ns,
		    uint64_t until_ns);

/* The same until one of `count` operations is done; `entries` name them and are the call's. */
int twi_engine_wait_any(struct twi_engine *engine, struct twi_wait_entry *entries, size_t count,
			uint64_t now_ns, uint64_t until_ns);

/* There is something to do: makes one of the sleeping threads look. The engine is held. */
void twi_engine_wake(struct twi_engine *engine);

/* An operation is done: wakes those who sleep for it. The engine is held. */
void twi_engine_tell(struct twi_engine *engine, struct twi_waitable *what);

void twi_engine_init(struct twi_engine *engine);
void twi_engine_fini(struct twi_engine *engine);

#endif
