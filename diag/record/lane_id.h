/*
 * lane_id.h - the numbers of the lanes, and their rows of lane.def. So diag can count by lane
 * without knowing what a lane is.
 */
#ifndef TWI_LANE_ID_H
#define TWI_LANE_ID_H

#include <stdint.h>

enum twi_lane_id {
#define TWI_LANE(id, ...) TWI_LANE_##id,
#include "diag/record/lane.def"
#undef TWI_LANE
	TWI_LANE_COUNT
};

/* How far a lane reaches. */
enum twi_reach { TWI_REACH_PROCESS, TWI_REACH_HOST, TWI_REACH_NETWORK };

/* The form of a lane's addresses, as far as a tow:// address can carry them. */
enum twi_form { TWI_FORM_NONE, TWI_FORM_NAME, TWI_FORM_INET, TWI_FORM_RAW };

/* A row of lane.def, which says what the members mean. */
struct twi_lane_info {
	const char *name, *local, *help;
	enum twi_reach reach;
	enum twi_form form;
	uint8_t part, turn;
};

/* The lane's row. NULL: there is no such lane. */
const struct twi_lane_info *twi_lane_describe(enum twi_lane_id lane);

/* "unknown" if there is no such lane. */
const char *twi_lane_name(enum twi_lane_id lane);

/* The lane that tow:// tries at this turn, from 0 to TWI_LANE_COUNT - 1. */
enum twi_lane_id twi_lane_at_turn(unsigned turn);

#endif
