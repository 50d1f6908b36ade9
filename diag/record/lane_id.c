/*
 * lane_id.c - the rows of lane.def, for code that prints or chooses lanes.
 */
#include "diag/record/lane_id.h"

#include <stddef.h>

static const struct twi_lane_info lanes[TWI_LANE_COUNT] = {
#define TWI_LANE(id, name, reach, form, part, turn, local, help)                                   \
	{ #name, local, help, TWI_REACH_##reach, TWI_FORM_##form, part, turn },
#include "diag/record/lane.def"
#undef TWI_LANE
};

const struct twi_lane_info *twi_lane_describe(enum twi_lane_id lane)
{
	return lane < TWI_LANE_COUNT ? &lanes[lane] : NULL;
}

const char *twi_lane_name(enum twi_lane_id lane)
{
	return lane < TWI_LANE_COUNT ? lanes[lane].name : "unknown";
}

enum twi_lane_id twi_lane_at_turn(unsigned turn)
{
	unsigned lane = 0;

	while (lane + 1 < TWI_LANE_COUNT && lanes[lane].turn != turn)
		lane++;
	return (enum twi_lane_id)lane;
}
