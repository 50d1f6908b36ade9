/* progress.c - the calls that move a runtime without waiting for an operation. */
#include <towline/runtime.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "transport/coll/coll_batch.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/engine_fd.h"
#include "transport/engine/poller.h"
#include "transport/engine/runtime.h"
#include "transport/op/polled.h"

TOW_PUBLIC int tow_progress(struct tow_runtime *runtime)
{
	int status = twi_runtime_check(runtime, "tow_progress");
	struct twi_engine *engine;
	unsigned events = 0;

	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	if (twi_engine_in_callback(engine) || !twi_engine_try_enter(engine))
		return TOW_AGAIN;
	status = twi_engine_bind_ring(engine);
	if (status == TOW_OK && engine->ring != NULL && engine->ring->watched)
		twi_polled_rest(engine);
	else
		twi_polled_begin(engine);
	if (status == TOW_OK) {
		if (engine->ring != NULL)
			twi_fd_clear(engine, engine->ring);
		events = twi_engine_poll(engine);
		twi_polled_news(events);
	}
	twi_polled_leave(engine, events, false);
	twi_engine_leave(engine);
	twi_polled_vain(engine, true);
	if (status < 0 && status != TOW_EBUSY)
		return status;
	return events > 0 ? TOW_OK : TOW_AGAIN;
}

TOW_PUBLIC int tow_flush(struct tow_runtime *runtime)
{
	int status = twi_runtime_check(runtime, "tow_flush");
	struct twi_engine *engine;

	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	if (twi_unlikely(atomic_load_explicit(&engine->colls_held, memory_order_relaxed)))
		twi_coll_batch_issue_all(engine);
	if (twi_engine_in_callback(engine))
		return TOW_AGAIN;
	twi_engine_enter(engine); /* its holder may have flushed just before */
	status = twi_engine_bind_ring(engine);
	if (status == TOW_OK)
		twi_engine_flush(engine);
	twi_engine_leave(engine);
	return status == TOW_EBUSY ? TOW_AGAIN : status;
}

TOW_PUBLIC int tow_fd(struct tow_runtime *runtime, int *fd_out)
{
	TWI_UNCANCELED;
	int status = twi_runtime_check(runtime, "tow_fd");
	struct twi_engine *engine;

	if (status < 0)
		return status;
	if (fd_out == NULL)
		return twi_error(TOW_EINVAL, "tow_fd: fd_out is NULL");
	engine = twi_runtime_engine(runtime);
	twi_engine_enter(engine);
	status = twi_engine_bind_ring(engine);
	if (status == TOW_EBUSY)
		twi_error(TOW_EBUSY,
			  "tow_fd: %d other threads use their rings now, or have a descriptor",
			  TWI_RINGS_MAX);
	if (status == TOW_OK && engine->ring == NULL)
		status = twi_error(TOW_ENOTSUP, "a simulated runtime has no descriptor");
	if (status == TOW_OK)
		status = twi_fd_open(engine, fd_out);
	if (status == TOW_OK) {
		/*
		 * Arms in this thread's ring what it is to wait for, also connections that it read
		 * directly.
		 */
		twi_engine_flush(engine);
		twi_engine_poll(engine);
	}
	twi_engine_leave(engine);
	return status;
}
