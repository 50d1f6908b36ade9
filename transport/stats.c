/*
 * stats.c - the documents of a runtime as texts for its own program.
 */
#include <stdlib.h>

#include <towline/stats.h>

#include "diag/base/cancel.h"
#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/serve/render.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

TOW_PUBLIC int tow_stats_get(struct tow_runtime *runtime, const char *path, char **text_out)
{
	TWI_UNCANCELED;
	int status = twi_runtime_check(runtime, "tow_stats_get");
	struct twi_engine *engine;
	struct twi_emit emit;

	if (status < 0)
		return status;
	if (path == NULL || text_out == NULL)
		return twi_error(TOW_EINVAL, "tow_stats_get: path or text_out is NULL");
	*text_out = NULL;
	engine = twi_runtime_engine(runtime);
	/* The stats thread may hold the documents and wait for the engine, held by this thread. */
	if (twi_engine_in_callback(engine))
		return twi_error(TOW_EINVAL, "tow_stats_get in a completion callback");
	twi_emit_init(&emit);
	status = twi_registry_render(engine->diag, path, &emit);
	if (status == TOW_OK)
		status = twi_emit_take(&emit, text_out);
	twi_emit_fini(&emit);
	return status;
}

TOW_PUBLIC void tow_stats_release(char *text)
{
	free(text);
}
