/*
 * cuda_api.c - finds the functions of the CUDA driver. See cuda_api.h.
 */
#include "transport/device/cuda_api.h"

#include <dlfcn.h>
#include <stdbool.h>

#include "diag/base/error.h"
#include <internal/base.h>
#include <towline/status.h>

#define DRIVER_LIBRARY "libcuda.so.1"

/* ISO C has no cast from dlsym's result to a function pointer. */
union found {
	void *object;
	void (*function)(void);
	twi_cu_result (*proc_v2)(const char *name, void **out, int version,
				 unsigned long long flags, int *status_out);
	twi_cu_result (*proc)(const char *name, void **out, int version, unsigned long long flags);
};

struct row {
	const char *name, *symbol;
	int since;
	size_t offset;
	bool optional;
};

static const struct row rows[] = {
#define ROW(name, since, symbol, parameters)                                                       \
	{ #name, #symbol, since, offsetof(struct twi_cuda_api, name), false },
	TWI_CUDA_MAP(ROW)
#undef ROW
#define ROW(name, since, symbol, parameters)                                                       \
	{ #name, #symbol, since, offsetof(struct twi_cuda_api, name), true },
		TWI_CUDA_OPTIONAL_MAP(ROW)
#undef ROW
};

static void *find_symbol(void *library, const struct row *row)
{
	union found v2 = { .object = dlsym(library, "cuGetProcAddress_v2") };
	union found v1 = { .object = dlsym(library, "cuGetProcAddress") };
	void *function = NULL;
	int status;

	if (v2.object != NULL &&
	    v2.proc_v2(row->name, &function, row->since, 0, &status) == TWI_CU_OK &&
	    function != NULL)
		return function;
	function = NULL;
	if (v2.object == NULL && v1.object != NULL &&
	    v1.proc(row->name, &function, row->since, 0) == TWI_CU_OK && function != NULL)
		return function;
	return dlsym(library, row->symbol);
}

const char *twi_cuda_name(const struct twi_cuda_api *api, twi_cu_result result)
{
	const char *name = NULL;

	if (api->cuGetErrorName(result, &name) != TWI_CU_OK || name == NULL)
		return "an error without a name";
	return name;
}

int twi_cuda_load(const char *library, struct twi_cuda_api *out)
{
	const char *path = library != NULL ? library : DRIVER_LIBRARY;
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	twi_cu_result result;

	*out = (struct twi_cuda_api){ 0 };
	if (handle == NULL)
		return twi_error(TOW_ENOTSUP, "device cuda: no driver: %s; install NVIDIA's driver",
				 dlerror());
	for (unsigned i = 0; i < twi_array_count(rows); i++) {
		void *function = find_symbol(handle, &rows[i]);

		if (function == NULL && !rows[i].optional)
			return twi_error(TOW_ENOTSUP,
					 "device cuda: %.200s has no %s; it is too old, or no "
					 "driver of CUDA",
					 path, rows[i].name);
		*(void **)(void *)((char *)out + rows[i].offset) = function;
	}
	result = out->cuInit(0);
	if (result == TWI_CU_OK)
		result = out->cuDriverGetVersion(&out->version);
	if (result != TWI_CU_OK)
		return twi_error(TOW_ENOTSUP, "device cuda: the driver does not start: %s (%d)",
				 twi_cuda_name(out, result), result);
	return TOW_OK;
}
