/*
 * coll_kept.h - keeps the region of a closed group as long as other ranks of the host may read it.
 *
 * A rank that has done its part closes the group while other ranks of its host still read its
 * region: also when the group is broken, of which they may not have heard. So the region of a
 * closed group is kept until each of them has left the group, too, has said that it is broken, or
 * is lost. When the job itself ends first, this is no longer known. Then the region
 * stays in the pool until the next job of this runtime has ended, or the runtime closes: other
 * processes have it mapped.
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
 * Allocates all that is needed to keep the region, and to tell other ranks that this one has left.
 * The set-up of the group does it before it shows the region to the ranks `near`, so neither fails
 * later for want of memory. False: no memory.
 */
bool twi_coll_kept_make(struct twi_coll_group *coll, const uint32_t *near, uint32_t near_n);

/* `rank` of the group reads the region no more: it has left, has failed, is lost, or never did. */
void twi_coll_kept_over(struct twi_coll_group *coll, uint32_t rank);

/* Takes the prepared message to `rank` of this host about the group's end. NULL: none. */
struct twi_rank_post *twi_coll_kept_post(struct twi_coll_group *coll, uint32_t rank);

/* Frees the group's region: now, or when no rank reads it any more. */
void twi_coll_region_end(struct twi_coll_group *coll);

/* A rank of the job has left group `ctx`, whose collectives have ended here. */
void twi_coll_region_left(struct twi_ranks *ranks, uint32_t ctx, uint32_t job_rank);

/* A rank of the job is lost. */
void twi_coll_region_lost(struct twi_ranks *ranks, uint32_t job_rank);

/* The job ends. Frees what the job before it has left. */
void twi_coll_regions_end(struct twi_ranks *ranks);

/* Frees what the last job has left. */
void twi_coll_regions_drop(struct twi_engine *engine);

#endif
