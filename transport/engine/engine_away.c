/* engine_away.c - adds up the times without a poll. See engine_away.h. */
#include "transport/engine/engine.h"
#include "transport/lanes/lane.h"

void twi_engine_push(struct twi_engine *engine)
{
	twi_assert_held(engine);
	engine->away.push_due = false;
	for (unsigned i = 0; i < engine->lane_count; i++) {
		if (engine->moving[i]->ops->push != NULL)
			engine->moving[i]->ops->push(engine->moving[i]);
	}
}

void twi_engine_look(struct twi_engine *engine, bool all)
{
	struct twi_away *away = &engine->away;
	uint64_t now = engine->now_ns;

	twi_assert_held(engine);
	if (now == 0) {
		if (!all)
			return; /* a turn that is too short to read the clock for it */
		now = twi_engine_batch_now(engine);
	}
	now = twi_max(now, away->looking_ns); /* another core's clock may be behind */
	if (now - away->looking_ns >= TWI_AWAY_NS)
		away->absent_ns += now - away->looking_ns;
	away->looked_ns = away->looking_ns;
	away->looking_ns = now;
}

void twi_engine_present(struct twi_engine *engine, uint64_t now_ns)
{
	twi_assert_held(engine);
	engine->away.looking_ns = twi_max(engine->away.looking_ns, now_ns);
}

uint64_t twi_engine_absent(const struct twi_engine *engine, uint64_t now_ns)
{
	uint64_t since = now_ns - twi_min(now_ns, engine->away.looking_ns);

	twi_assert_held(engine);
	return engine->away.absent_ns + (since >= TWI_AWAY_NS ? since : 0);
}

uint64_t twi_engine_unseen(const struct twi_engine *engine, uint64_t now_ns)
{
	twi_assert_held(engine);
	return engine->away.looked_ns == 0 ? 0 : now_ns - twi_min(now_ns, engine->away.looked_ns);
}

void twi_engine_time_looks(struct twi_engine *engine)
{
	twi_assert_held(engine);
	if (engine->away.timed)
		return;
	engine->away.timed = true;
	engine->away.looking_ns = engine->away.looked_ns = twi_engine_clock(engine);
}
