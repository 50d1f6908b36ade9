/*
 * coll_moves.h - what one call of an entry moves at this rank, for its account (coll_account.h).
 */
#ifndef TWI_COLL_MOVES_H
#define TWI_COLL_MOVES_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/lane_id.h"

struct twi_coll_times;

struct twi_coll_move {
	uint64_t sent, received;
	uint8_t lane;
};

/* All zero: not computed yet. */
struct twi_coll_moves {
	bool known; /* each message has a connected peer, so its lane is known */
	uint8_t way, count;
	uint64_t in_place_bytes; /* of other ranks' memory */
	struct twi_coll_move rows[TWI_LANE_COUNT];
	/* the group's times of this kind and lane; NULL: not found yet */
	struct twi_coll_times *times;
};

#endif
