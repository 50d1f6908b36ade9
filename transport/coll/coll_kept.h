/*
 * coll_kept.h - what a rank has written for others of its host outlives its group.
 *
 * A rank that has done its part closes the group while others of its host are still at theirs: they
 * read its region until they are through. So the region of a group that was closed in order is kept
 * until each of them has left the group, too, or is lost. Where the job itself ends first, nobody
 * can tell any more. Then it stays in the pool until the next job of this runtime has ended, or the
 * runtime is closed: others have it mapped.
 *
 * The engine is held in all calls.
 */
#ifndef TWI_COLL_KEPT_H
#define TWI_COLL_KEPT_H

#include <stdbool.h>
#include <stdint.h>

struct twi_coll_group;
struct twi_engine;
struct twi_rank_post;
struct twi_ranks;

/*
 * What will be needed to keep it, and to tell others that this rank has left, is there when the
 * group is set up: neither fails for want of memory. False: there is none.
 */
bool twi_coll_kept_make(struct twi_coll_group *coll);

/* Of that the room for what this rank tells another one of this host at its end, or NULL. */
struct twi_rank_post *twi_coll_kept_post(struct twi_coll_group *coll, uint32_t rank);

/* The group's region goes: now, or when nobody reads it any more. */
void twi_coll_region_end(struct twi_coll_group *coll);

/* A rank of the job has left the group of that number, whose collectives have ended here. */
void twi_coll_region_left(struct twi_ranks *ranks, uint32_t ctx, uint32_t job_rank);

/* A rank of the job is lost. */
void twi_coll_region_lost(struct twi_ranks *ranks, uint32_t job_rank);

/* The job ends. What the one before it has left is freed. */
void twi_coll_regions_end(struct twi_ranks *ranks);

/* What the last job has left is freed. */
void twi_coll_regions_drop(struct twi_engine *engine);

#endif
