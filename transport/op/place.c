/*
 * place.c - tow_place: pool memory for allocators that replace a program's own.
 */
#include <towline/place.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/alloclog/alloclog.h"
#include "memreg/pool/pool_place.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

TOW_PUBLIC int tow_place(struct tow_runtime *runtime, size_t bytes, size_t align, void **memory_out)
{
	struct twi_engine *engine;
	uint64_t most;
	int status;

	if (memory_out == NULL)
		return twi_error(TOW_EINVAL, "tow_place: memory_out is NULL");
	*memory_out = NULL;
	status = twi_runtime_check(runtime, "tow_place");
	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	most = engine->knobs.premap_memory_bytes * engine->knobs.place_share / 100;
	status = twi_pool_place(engine->pool, bytes, align, most, memory_out);
	if (status == TOW_OK) {
		twi_diag_hold(engine->diag, 1);
		twi_count_two(engine->diag, TWI_C_placed_allocs, 1, TWI_C_placed_alloc_bytes,
			      bytes);
		twi_alloclog_alloc(engine->alloclog, *memory_out, bytes, align, TWI_SITE_HERE);
	} else if (status == TOW_EEXHAUSTED) {
		twi_count(engine->diag, TWI_C_place_refused_full, 1);
	} else if (status == TOW_EBUSY) {
		twi_count(engine->diag, TWI_C_place_refused_share, 1);
	}
	return status;
}

TOW_PUBLIC uint64_t tow_place_least(struct tow_runtime *runtime)
{
	return twi_runtime_check(runtime, "tow_place_least") < 0
		       ? UINT64_MAX
		       : twi_runtime_engine(runtime)->knobs.place_least_bytes;
}
