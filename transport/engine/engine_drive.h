/*
 * engine_drive.h - for threads that drive: polling, waiting, waking sleepers, and making and
 * dropping rings. Code that only starts operations needs engine.h alone.
 */
#ifndef TWI_ENGINE_DRIVE_H
#define TWI_ENGINE_DRIVE_H

#include "transport/engine/engine.h"
#include "transport/engine/engine_wait.h"
#include "transport/engine/waitable.h"

/* Brings the holder's ring in step with the pool's regions. */
void twi_engine_keep_in_step(struct twi_engine *engine);

/* Makes every thread look up its ring in this engine anew. */
void twi_engine_rebind(struct twi_engine *engine);

/* Drops the ring in a slot, with all that was armed in it. */
void twi_engine_drop_ring(struct twi_engine *engine, unsigned index);

/* May another ring be dropped? It may not while TWI_RINGS_MAX rings wait to be closed. */
bool twi_engine_may_drop_ring(const struct twi_engine *engine);

/*
 * Moves every lane once, and ends operations past their deadline. Returns the number of events. The
 * engine is held.
 */
unsigned twi_engine_poll(struct twi_engine *engine);

/* The same for a caller that spins: most of its turns poll only the memory-polled lanes. */
unsigned twi_engine_poll_memory(struct twi_engine *engine);

/* Sends the messages that wait for others, and no acknowledgements. The engine is held. */
void twi_engine_flush_messages(struct twi_engine *engine);

/*
 * As twi_engine_enter, but waits for `ns` at most. False: another thread keeps the engine for
 * longer.
 */
bool twi_engine_enter_within(struct twi_engine *engine, uint64_t ns);

/*
 * Has another thread asked for the engine for a millisecond, while callbacks followed each other?
 * Callbacks of a busy server do so for ever. True: the caller gives the engine back, and the next
 * holders run the callbacks that are left. *since_ns: when the first of these looks was; 0: there
 * was none. The engine is held.
 */
bool twi_engine_is_asked(struct twi_engine *engine, uint64_t *since_ns);

/*
 * Is something in flight, while no thread waits, and none has a descriptor of its own to sleep on?
 * The engine is held.
 */
bool twi_engine_unattended(const struct twi_engine *engine);

/* When to poll again though nothing has come, at the latest until_ns. The engine is held. */
uint64_t twi_engine_next_deadline(struct twi_engine *engine, uint64_t until_ns);

/* Runs the callbacks that are due. True when there were any. The engine is held. */
static inline bool twi_engine_run_callbacks(struct twi_engine *engine)
{
	return !twi_list_empty(&engine->callbacks) && engine->hooks.op->run_callbacks(engine);
}

/*
 * Drives until `what` is done or `until_ns` (engine time) has come; now_ns is the engine's time
 * now. Returns TOW_OK or TOW_AGAIN.
 */
int twi_engine_wait(struct twi_engine *engine, struct twi_waitable *what, uint64_t now_ns,
		    uint64_t until_ns);

/* The same until one of `count` operations is done. `entries` name them, and belong to the call. */
int twi_engine_wait_any(struct twi_engine *engine, struct twi_wait_entry *entries, size_t count,
			uint64_t now_ns, uint64_t until_ns);

/* There is something to do: wakes sleeping threads to look. The engine is held. */
void twi_engine_wake(struct twi_engine *engine);

/* `what` is done: wakes the threads that sleep for it. The engine is held. */
void twi_engine_tell(struct twi_engine *engine, struct twi_waitable *what);

void twi_engine_init(struct twi_engine *engine);
void twi_engine_fini(struct twi_engine *engine);

#endif
