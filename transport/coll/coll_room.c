/*
 * coll_room.c - room for what a run stages. See coll_room.h.
 */
#include "transport/coll/coll_room.h"

#include "transport/op/own_memory.h"
#include <towline/status.h>

/* Whether an earlier run of the group waits for room, or has some. */
static bool is_behind(const struct twi_coll_run *run, bool *starved_out)
{
	struct twi_list *pos, *next;
	bool behind = false;

	*starved_out = false;
	twi_list_for_each_safe (pos, next, &run->coll->runs) {
		const struct twi_coll_run *other = twi_container_of(pos, struct twi_coll_run, link);

		if (other->seq >= run->seq)
			continue;
		*starved_out |= other->starved;
		behind |= other->starved || other->staged != NULL;
	}
	return behind;
}

int twi_coll_room_take(struct twi_coll_run *run, uint64_t bytes, bool may_wait, void **out)
{
	struct twi_engine *engine = run->coll->engine;
	bool again = run->starved, starved, behind = is_behind(run, &starved);
	int status = TOW_EEXHAUSTED;

	if (again && !starved) /* quietly: its need is counted already */
		status = twi_own_try(engine, bytes, 64, out);
	else if (!starved)
		status = twi_own_share(engine, bytes, 64, run->site, out);
	run->starved = status == TOW_EEXHAUSTED && behind && may_wait;
	if (run->starved) {
		twi_coll_run_poll(run);
		return TOW_AGAIN;
	}
	if (again && status == TOW_EEXHAUSTED) /* for the message */
		status = twi_own_share(engine, bytes, 64, run->site, out);
	return status;
}
