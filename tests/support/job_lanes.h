/*
 * job_lanes.h - the rows of lanes.def, variants too, over which ranks of a job can talk on this
 * host.
 *
 *	for (unsigned i = 0; i < TWT_LANES; i++)
 *		if (twt_job_lane(i))
 *			...twt_lanes[i].address[0], with twt_job_lane_options(i, &options)...
 */
#ifndef TWT_JOB_LANES_H
#define TWT_JOB_LANES_H

#include "cell_cover.h"

/* Whether the lane is there; where it should be and is not, that is said. */
bool twt_job_lane(unsigned lane);

/* What a variant asks of a runtime. Encryption needs a job key beside it. */
void twt_job_lane_options(unsigned lane, struct tow_options *options);

#endif
