/*
 * coll_room.h - room in the pool for what a run stages: memory outside the pool that other ranks of
 * the host are to see.
 *
 * Where the pool is full, a run waits as long as earlier runs of its group have such room, since
 * they give it back. If then there is none even for the smallest pieces, the oldest run of the
 * group has a reserve, which lies behind the group's region; the others wait until they are the
 * oldest. No run waits for a later one or for another group. So the oldest one waits for none, and
 * no two ranks wait for each other.
 */
#ifndef TWI_COLL_ROOM_H
#define TWI_COLL_ROOM_H

#include "transport/coll/coll_run.h"

#define TWI_COLL_RESERVE 16384u /* bytes */

/*
 * TOW_OK; TOW_AGAIN, with `may_wait`: the run is polled, to ask again; TOW_EEXHAUSTED or another
 * failure of the pool.
 */
int twi_coll_room_take(struct twi_coll_run *run, uint64_t bytes, bool may_wait, void **out);

/* Takes the reserve. TOW_OK; TOW_AGAIN: it is polled, to ask again; TOW_EEXHAUSTED: too small. */
int twi_coll_room_reserve(struct twi_coll_run *run, uint64_t bytes, void **out);

/* Gives back all that the run has. */
void twi_coll_room_give(struct twi_coll_run *run);

#endif
