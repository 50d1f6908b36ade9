/*
 * memory.c - tow_mem_register and tow_mem_deregister: the user's own memory, registered once.
 */
#include <towline/pool.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/record/site.h"
#include "memreg/pool/pool_regions.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

TOW_PUBLIC int tow_mem_register(struct tow_runtime *runtime, void *memory, size_t bytes,
				uint64_t *handle_out)
{
	TWI_UNCANCELED;
	int status;

	if (handle_out == NULL)
		return twi_error(TOW_EINVAL, "tow_mem_register: handle_out is NULL");
	*handle_out = 0;
	status = twi_runtime_check(runtime, "tow_mem_register");
	if (status < 0)
		return status;
	return twi_pool_register(twi_runtime_engine(runtime)->pool, memory, bytes, TWI_SITE_HERE,
				 handle_out);
}

TOW_PUBLIC int tow_mem_deregister(struct tow_runtime *runtime, uint64_t handle)
{
	TWI_UNCANCELED;
	int status = twi_runtime_check(runtime, "tow_mem_deregister");

	if (status < 0)
		return status;
	return twi_pool_deregister(twi_runtime_engine(runtime)->pool, handle);
}
