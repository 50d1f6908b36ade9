/*
 * forming.c - the calls of forming.h.
 */
#include "transport/job/forming.h"

#include <stdio.h>

#include "transport/engine/engine.h"
#include "transport/job/store_client.h"

void twi_forming_begin(struct twi_forming *forming, struct twi_engine *engine, uint32_t rank,
		       uint32_t size)
{
	*forming =
		(struct twi_forming){ .engine = engine, .known = { .rank = rank, .size = size } };
	twi_engine_enter(engine);
	forming->known.since_ns = twi_engine_clock(engine);
	twi_list_push_back(&engine->formings, &forming->link);
	twi_engine_leave(engine);
}

void twi_forming_end(struct twi_forming *forming)
{
	twi_engine_enter(forming->engine);
	twi_list_remove(&forming->link);
	forming->known.size = 0;
	twi_engine_leave(forming->engine);
}

void twi_forming_unreached(struct twi_forming *forming, const char *store, const char *why)
{
	struct twi_verdict_forming *known = &forming->known;

	twi_engine_enter(forming->engine);
	snprintf(known->store, sizeof(known->store), "%.*s", (int)sizeof(known->store) - 1, store);
	snprintf(known->unreached, sizeof(known->unreached), "%.*s",
		 (int)sizeof(known->unreached) - 1, why);
	twi_engine_leave(forming->engine);
}

void twi_forming_reached(struct twi_forming *forming, const char *store)
{
	twi_forming_unreached(forming, store, "");
}

void twi_forming_absent(struct twi_forming *forming, const struct twi_absent *absent)
{
	struct twi_verdict_forming *known = &forming->known;

	twi_engine_enter(forming->engine);
	known->unreached[0] = '\0';
	known->missing = absent->missing;
	known->refused = absent->refused;
	known->rank_count = 0;
	for (uint32_t i = 0; i < absent->count && i < TWI_FORMING_RANKS; i++)
		known->ranks[known->rank_count++] = absent->members[i];
	snprintf(known->text, sizeof(known->text), "%s", absent->text);
	twi_engine_leave(forming->engine);
}

void twi_forming_tell(const struct twi_engine *engine, struct twi_verdict_forming *out)
{
	const struct twi_list *first = twi_list_first(&engine->formings);

	twi_assert_held(engine);
	*out = (struct twi_verdict_forming){ 0 };
	if (first != NULL)
		*out = twi_container_of(first, struct twi_forming, link)->known;
}
