/*
 * coll_room.h - room in the pool for what a run stages: memory outside the pool that other ranks of
 * the host are to see.
 *
 * Where the pool is full, a run waits as long as earlier runs of its group have such room, since
 * they give it back. No run waits for a later one or for another group, so the first run of a group
 * waits for none, and no two ranks wait for each other.
 */
#ifndef TWI_COLL_ROOM_H
#define TWI_COLL_ROOM_H

#include "transport/coll/coll_run.h"

/*
 * TOW_OK; TOW_AGAIN, with `may_wait`: the run is polled, to ask again; TOW_EEXHAUSTED or another
 * failure of the pool.
 */
int twi_coll_room_take(struct twi_coll_run *run, uint64_t bytes, bool may_wait, void **out);

#endif
