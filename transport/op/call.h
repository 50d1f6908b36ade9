/*
 * call.h - how a public call on an endpoint or a peer begins: it is checked, and takes the engine.
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

/* Takes the engine with the calling thread's ring. Without a ring the next driver sends for us. */
static inline void twi_call_enter(struct twi_engine *engine)
{
	twi_engine_enter(engine);
	if (twi_likely(!twi_slices_on(&engine->slices)) || !twi_slice_is_ringless(engine))
		twi_engine_bind_ring(engine);
}

/*
 * The same for a call on `object`, which another thread may have closed since it was checked: then
 * the engine is given back, and the status is twi_handle_refuse's.
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

/* Moves the runtime once, as a test of an operation does; not in a callback. The engine is held. */
static inline void twi_call_drive(struct twi_engine *engine)
{
	if (!twi_engine_in_callback(engine) && twi_engine_bind_ring(engine) == TOW_OK)
		twi_engine_poll(engine);
}

#endif
