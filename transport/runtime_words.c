/*
 * runtime_words.c - checks the knob whose words only transport knows, and takes those of the log.
 */
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/coll/plan/plan.h"
#include "transport/engine/engine.h"
#include "transport/engine/poller.h"
#include "transport/engine/runtime.h"
#include "transport/job/bootstrap.h"
#include "transport/op/path.h"

int twi_runtime_words(const struct twi_engine *engine)
{
	if (engine->knobs.coll_plan[0] != '\0' && twi_plan_find(engine->knobs.coll_plan) == NULL) {
		char names[TWI_PLAN_NAMES_BYTES];

		twi_plan_names(names);
		return twi_error(TOW_EINVAL, "coll_plan = '%s' is no plan; there are: %s",
				 engine->knobs.coll_plan, names);
	}
	return TOW_OK;
}

int twi_runtime_log(struct twi_engine *engine, const struct twi_bootstrap *bootstrap)
{
	const struct twi_knobs *knobs = &engine->knobs;

	twi_diag_log_level(engine->diag, (int)knobs->log_level);
	if (bootstrap->status == TOW_OK && bootstrap->world_size != 1)
		twi_log_rank(engine->diag, bootstrap->rank);
	return twi_log_open(engine->diag, knobs->log, knobs->log_callback, knobs->log_user);
}
