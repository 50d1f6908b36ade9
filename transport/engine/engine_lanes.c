/*
 * engine_lanes.c - which lanes the knob `lanes` allows. See lane.h.
 */
#include <stdio.h>
#include <string.h>

#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/lanes/lane.h"

static bool is_lane(const char *name, size_t bytes, enum twi_lane_id id)
{
	const char *known = twi_lane_name(id);

	return strlen(known) == bytes && strncmp(known, name, bytes) == 0;
}

/* "loop, tcp, ..." */
static void known_lanes(char *out, size_t room)
{
	size_t fill = 0;

	for (unsigned i = 0; i < TWI_LANE_COUNT && fill < room; i++)
		fill += (size_t)snprintf(out + fill, room - fill, "%s%s", i > 0 ? ", " : "",
					 twi_lane_name((enum twi_lane_id)i));
}

int twi_lanes_check(const char *knob)
{
	const char *at = knob;
	char names[16 * TWI_LANE_COUNT];

	while (*knob != '\0') {
		size_t bytes = strcspn(at, ",");
		bool known = false;

		for (unsigned i = 0; i < TWI_LANE_COUNT; i++)
			known |= is_lane(at, bytes, (enum twi_lane_id)i);
		if (!known) {
			known_lanes(names, sizeof(names));
			return twi_error(TOW_EINVAL, "lanes = '%s': '%.*s' is none of %s", knob,
					 (int)bytes, at, names);
		}
		if (at[bytes] == '\0')
			break;
		at += bytes + 1;
	}
	return TOW_OK;
}

bool twi_lane_is_inner(enum twi_lane_id id)
{
	return id == TWI_LANE_AUTO || twi_lane_describe(id)->reach == TWI_REACH_PROCESS;
}

bool twi_lanes_allow(const char *knob, enum twi_lane_id id)
{
	const char *at = knob;

	if (twi_lane_is_inner(id) || *knob == '\0')
		return true;
	for (;;) {
		size_t bytes = strcspn(at, ",");

		if (is_lane(at, bytes, id))
			return true;
		if (at[bytes] == '\0')
			return false;
		at += bytes + 1;
	}
}

void twi_lanes_pack(struct twi_engine *engine)
{
	engine->lane_count = 0;
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		if (engine->lanes[i] != NULL && engine->lanes[i]->used)
			engine->moving[engine->lane_count++] = engine->lanes[i];
	}
}

void twi_lane_use(struct twi_lane *lane)
{
	twi_assert_held(lane->engine);
	if (lane->used)
		return;
	lane->used = true;
	twi_lanes_pack(lane->engine);
}
