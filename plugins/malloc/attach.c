/*
 * attach.c - attaches the first runtime that the process opens.
 *
 * The loader finds the calls here before those of the library, and each calls the library's. In a
 * program that opens no runtime, nothing is placed.
 */
#include "plugins/malloc/malloc_preload.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include <towline/place.h>

#include "plugins/malloc/place.h"

typedef int (*open_call)(const struct tow_options *options, struct tow_runtime **runtime_out);
typedef int (*close_call)(struct tow_runtime *runtime);

static void *next_call(const char *name)
{
	void *call;

	twm_enter();
	call = dlsym(RTLD_NEXT, name);
	twm_leave();
	if (call == NULL)
		abort(); /* this object needs libtowline.so, so the call exists */
	return call;
}

TWM_PUBLIC int tow_runtime_open(const struct tow_options *options, struct tow_runtime **runtime_out)
{
	open_call call;
	int status;

	*(void **)&call = next_call("tow_runtime_open");
	twm_enter();
	status = call(options, runtime_out);
	if (status == TOW_OK)
		twm_attach(*runtime_out);
	twm_leave();
	return status;
}

TWM_PUBLIC int tow_runtime_close(struct tow_runtime *runtime)
{
	close_call call;
	int status;
	bool was;

	*(void **)&call = next_call("tow_runtime_close");
	was = twm_detach(runtime);
	twm_enter();
	status = call(runtime);
	/* The runtime is still open: others share it, or a callback tried to close it. */
	if (was && tow_place_least(runtime) != UINT64_MAX)
		twm_attach(runtime);
	twm_leave();
	return status;
}

TWM_PUBLIC int towline_malloc_attach(struct tow_runtime *runtime)
{
	if (runtime == NULL)
		return TOW_EINVAL;
	return twm_attach(runtime) ? TOW_OK : TOW_EBUSY;
}

TWM_PUBLIC void towline_malloc_detach(struct tow_runtime *runtime)
{
	twm_detach(runtime);
}

TWM_PUBLIC size_t towline_malloc_placed(const void *memory)
{
	return twm_placed_bytes(memory);
}
