/*
 * call.h - how a public call on an endpoint or a peer begins: it checks its arguments, and takes
 * the engine.
 */
#ifndef TWI_CALL_H
#define TWI_CALL_H

#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/handle.h"

/* TOW_EFORKED in a forked child; TOW_ECLOSED while the runtime is being closed. */
static inline int twi_call_check(const struct twi_engine *engine, const char *call)
{
	if (twi_unlikely(twi_engine_forked(engine)))
		return twi_error(TOW_EFORKED, "%s: this process is a forked child", call);
	/* Only a callback can see this. */
	if (twi_unlikely(engine->failing))
		return twi_error(TOW_ECLOSED, "%s: the runtime is being closed", call);
	return TOW_OK;
}

/* Takes the engine with the calling thread's ring. Without a ring the next driver sends for it. */
static inline void twi_call_enter(struct twi_engine *engine)
{
	twi_engine_enter(engine);
	if (twi_likely(!twi_slices_on(&engine->slices)) || !twi_slice_is_ringless(engine))
		twi_engine_bind_ring(engine);
}

/*
 * Takes the engine for a call on `object`, which another thread may have closed since it was
 * checked. In that case this gives the engine back and returns the status of twi_handle_refuse.
 */
static inline int twi_call_enter_with(struct twi_engine *engine, const void *object,
				      enum twi_handle_kind kind, const char *call)
{
	twi_call_enter(engine);
	if (twi_likely(twi_handle_is(object, kind)))
		return TOW_OK;
	twi_engine_leave(engine);
	return twi_handle_refuse(object, kind, call);
}

/*
 * Polls the runtime once, as a test of an operation does, unless a callback runs. The engine is
 * held.
 */
static inline void twi_call_drive(struct twi_engine *engine)
{
	if (!twi_engine_in_callback(engine) && twi_engine_bind_ring(engine) == TOW_OK)
		twi_engine_poll(engine);
}

#endif
