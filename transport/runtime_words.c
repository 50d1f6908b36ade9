/*
 * runtime_words.c - the knobs whose values are words, and what they may be; those of the log.
 */
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/coll/plan/plan.h"
#include "transport/engine/engine.h"
#include "transport/engine/poller.h"
#include "transport/engine/runtime.h"
#include "transport/job/bootstrap.h"
#include "transport/op/path.h"

int twi_runtime_words(struct twi_engine *engine, enum twi_exhaust *exhaust_out)
{
	enum twi_poller_choice poller;
	enum twi_zerocopy zerocopy;

	if (!twi_exhaust_parse(engine->knobs.exhaust, exhaust_out))
		return twi_error(TOW_EINVAL, "exhaust = '%s' is none of grow, copy, wait, fail",
				 engine->knobs.exhaust);
	if (!twi_zerocopy_parse(engine->knobs.zerocopy, &zerocopy))
		return twi_error(TOW_EINVAL, "zerocopy = '%s' is none of auto, always, never",
				 engine->knobs.zerocopy);
	engine->zerocopy = (uint8_t)zerocopy;
	if (!twi_poller_parse(engine->knobs.poller, &poller))
		return twi_error(TOW_EINVAL, "poller = '%s' is none of auto, io_uring, epoll",
				 engine->knobs.poller);
	engine->poller_choice = (uint8_t)poller;
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
	const struct tow_options *knobs = &engine->knobs;

	twi_diag_log_level(engine->diag, (int)knobs->log_level);
	if (bootstrap->status == TOW_OK && bootstrap->world_size != 1)
		twi_log_rank(engine->diag, bootstrap->rank);
	return twi_log_open(engine->diag, knobs->log, knobs->log_callback, knobs->log_user);
}
