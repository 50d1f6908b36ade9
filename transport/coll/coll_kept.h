/*
 * coll_kept.h - what a rank has written for others of its host outlives its group.
 *
 * A rank that has done its part closes the group while others of its host are still at theirs: they
 * read its region until they are through. So the region of a group that was closed in order is kept
 * until each of them has left the group, too, or is lost. Where the job itself ends first, it stays
 * in the pool until the runtime is closed, as nobody could tell any more; others have it mapped.
 *
 * The engine is held in all calls.
 */
#ifndef TWI_COLL_KEPT_H
#define TWI_COLL_KEPT_H

#include <stdint.h>

struct twi_coll_group;
struct twi_ranks;

/* The group's region goes: now, or when nobody reads it any more. */
void twi_coll_region_end(struct twi_coll_group *coll);

/* A rank of the job has left the group of that number, whose collectives have ended here. */
void twi_coll_region_left(struct twi_ranks *ranks, uint32_t ctx, uint32_t job_rank);

/* A rank of the job is lost. */
void twi_coll_region_lost(struct twi_ranks *ranks, uint32_t job_rank);

/* The job ends. */
void twi_coll_regions_end(struct twi_ranks *ranks);

#endif
