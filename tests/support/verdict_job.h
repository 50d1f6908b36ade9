/*
 * verdict_job.h - a job with a fault in it: ranks in processes, one of which does what the fault
 * says after some healthy steps (verdict_rank.h). verdict_ask.h asks them for their verdicts.
 *
 * Every wait is bounded. Ranks end by themselves where the fault lets them, or are killed by pid.
 */
#ifndef TWT_VERDICT_JOB_H
#define TWT_VERDICT_JOB_H

#include "store_port.h"
#include "verdict_rank.h"

/* --- the job --- */

void twt_vj_begin(struct twt_vj_job *job);

/* Rank 0 has said that its lane is not there. */
bool twt_vj_refused(const struct twt_vj_job *job);

bool twt_vj_reached(const struct twt_vj_job *job, int steps);

/* Plants what is not the victim's own doing. False: that cannot be had here. */
bool twt_vj_plant(struct twt_vj_job *job);

/* True: all ranks have ended well, but for those that a fault does not let. */
bool twt_vj_end(struct twt_vj_job *job);

#endif
