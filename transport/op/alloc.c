/*
 * alloc.c - tow_alloc and tow_free: pool memory, with the waiting that exhaust=wait asks for.
 *
 * The pool cannot wait by itself. Room comes when the engine lets go of buffers in flight, and the
 * waiting thread may be the only one that drives the engine.
 */
#include <towline/towline.h>

#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/alloclog/alloclog.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_thread.h"
#include "transport/engine/handle.h"
#include "transport/engine/remains.h"
#include "transport/engine/runtime.h"

#define SLICE_NS (1000ull * 1000) /* of waiting, between two polls of the engine */

/* Repeats a request without room until there is some, or the time is over. */
static int wait_for_room(struct tow_runtime *runtime, size_t bytes, size_t align, void **out)
{
	struct twi_engine *engine = twi_runtime_engine(runtime);
	uint64_t start = twi_now_ns(), waited = 0;
	uint64_t most = engine->knobs.exhaust_wait_ns;
	int status = TOW_EEXHAUSTED;

	twi_count(engine->diag, TWI_C_pool_waits, 1);
	/* For observers that ask why this rank does not go on. */
	atomic_store_explicit(&engine->room.waiter_since_ns, start, memory_order_relaxed);
	atomic_store_explicit(&engine->room.waiter_bytes, bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&engine->room.waiters, 1, memory_order_relaxed);
	while (status == TOW_EEXHAUSTED && waited < most) {
		/* TOW_AGAIN: only another thread's free can help; sleep until one comes. */
		if (tow_progress(runtime) != TOW_OK)
			twi_pool_wait_room(engine->pool, twi_min(SLICE_NS, most - waited));
		status = twi_pool_try(engine->pool, bytes, align, out);
		waited = twi_now_ns() - start;
	}
	atomic_fetch_sub_explicit(&engine->room.waiters, 1, memory_order_relaxed);
	twi_count(engine->diag, TWI_C_pool_wait_ns, waited);
	if (status == TOW_OK)
		return TOW_OK;
	twi_count(engine->diag, TWI_C_pool_wait_timeouts, 1);
	return twi_error(TOW_EEXHAUSTED,
			 "tow_alloc: no room for %zu bytes within exhaust_wait_ns = %llu ns; raise "
			 "premap_memory_bytes to what /v1/pool recommends at least",
			 bytes, (unsigned long long)most);
}

TOW_PUBLIC int tow_alloc(struct tow_runtime *runtime, size_t bytes, size_t align, void **memory_out)
{
	int status = twi_runtime_check(runtime, "tow_alloc");
	struct twi_engine *engine;

	if (memory_out == NULL)
		return twi_error(TOW_EINVAL, "tow_alloc: memory_out is NULL");
	*memory_out = NULL;
	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	twi_error_thread.since_poll = false;
	status = twi_pool_alloc_at(engine->pool, bytes, align, TWI_SITE_HERE, memory_out);
	/* A callback holds the engine: no other thread could make room meanwhile. */
	if (twi_unlikely(status == TOW_EEXHAUSTED && twi_pool_waits(engine->pool) &&
			 !twi_engine_in_callback(engine))) {
		twi_error_undo(); /* the request may still succeed */
		status = wait_for_room(runtime, bytes, align, memory_out);
	}
	if (twi_likely(status >= 0)) {
		twi_diag_hold(engine->diag, 1);
		twi_alloclog_alloc(engine->alloclog, *memory_out, bytes, align, TWI_SITE_HERE);
	}
	return status;
}

/* Memory that a closed runtime has left behind can still be freed. */
static int free_closed(struct tow_runtime *runtime, void *memory)
{
	if (runtime != NULL && twi_handle_is(runtime, TWI_HANDLE_REMAINS))
		return twi_remains_free((const struct twi_handle *)(const void *)runtime, memory);
	return twi_handle_check(runtime, TWI_HANDLE_RUNTIME, "tow_free");
}

/* The runtime may be closed meanwhile, but that waits until this is over. */
static int free_open(struct tow_runtime *runtime, void *memory, struct twi_site site)
{
	int status = twi_runtime_check(runtime, "tow_free");
	struct twi_engine *engine;
	struct twi_alloclog_begun begun;
	bool leased;

	if (status < 0 || memory == NULL)
		return status;
	engine = twi_runtime_engine(runtime);
	begun = twi_alloclog_begin(engine->alloclog, memory);
	status = twi_pool_free_at(engine->pool, memory, &leased);
	if (twi_likely(status >= 0)) {
		twi_diag_hold(engine->diag, -1);
		if (twi_likely(!leased)) /* else the pool reports it to the log later */
			twi_alloclog_free(engine->alloclog, memory, begun, site);
	}
	return status;
}

TOW_PUBLIC int tow_free(struct tow_runtime *runtime, void *memory)
{
	struct twi_thread_record *record;
	int status;

	if (twi_unlikely(runtime == NULL || !twi_handle_is(runtime, TWI_HANDLE_RUNTIME)))
		return free_closed(runtime, memory);
	record = twi_thread_enter();
	status = free_open(runtime, memory, TWI_SITE_HERE);
	twi_thread_leave(record);
	if (twi_unlikely(status == TOW_ECLOSED)) /* it was closed between the two checks */
		return free_closed(runtime, memory);
	return status;
}
