/*
 * coll_room.c - room for what a run stages. See coll_room.h.
 */
#include "transport/coll/coll_room.h"

#include <stdlib.h>

#include "transport/coll/coll_local.h"
#include "transport/op/own_memory.h"
#include <towline/status.h>

/* What the earlier runs of the group do. */
struct earlier {
	bool any, starved, have_room;
};

static struct earlier look_at_earlier(const struct twi_coll_run *run)
{
	struct earlier out = { false, false, false };
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &run->coll->runs) {
		const struct twi_coll_run *other = twi_container_of(pos, struct twi_coll_run, link);

		if (other->seq >= run->seq)
			continue;
		out.any = true;
		out.starved |= other->starved;
		out.have_room |= other->staged != NULL || other->ring != NULL;
	}
	return out;
}

static int wait_for_room(struct twi_coll_run *run)
{
	run->starved = true;
	twi_coll_run_poll(run);
	return TOW_AGAIN;
}

int twi_coll_room_take(struct twi_coll_run *run, uint64_t bytes, bool may_wait, void **out)
{
	struct twi_engine *engine = run->coll->engine;
	struct earlier earlier = look_at_earlier(run);
	bool again = run->starved;
	int status = TOW_EEXHAUSTED;

	if (again && !earlier.starved) /* quietly: its need is counted already */
		status = twi_own_try(engine, bytes, 64, out);
	else if (!earlier.starved)
		status = twi_own_share(engine, bytes, 64, run->site, out);
	run->starved = false;
	if (status != TOW_EEXHAUSTED || !may_wait)
		return status;
	if (earlier.starved || earlier.have_room)
		return wait_for_room(run);
	/* Now for the message. */
	return again ? twi_own_share(engine, bytes, 64, run->site, out) : status;
}

static uint8_t *reserve_of(const struct twi_coll_group *coll)
{
	return (uint8_t *)(coll->region + 1);
}

int twi_coll_room_reserve(struct twi_coll_run *run, uint64_t bytes, void **out)
{
	if (bytes > TWI_COLL_RESERVE || run->coll->region == NULL)
		return TOW_EEXHAUSTED;
	if (look_at_earlier(run).any)
		return wait_for_room(run);
	*out = reserve_of(run->coll);
	return TOW_OK;
}

void twi_coll_room_give(struct twi_coll_run *run)
{
	struct twi_coll_group *coll = run->coll;

	twi_own_give(coll->engine, run->staged);
	if (run->ring != NULL && run->ring != reserve_of(coll))
		twi_own_give(coll->engine, run->ring);
	free(run->aside);
	run->staged = run->ring = run->aside = NULL;
}
