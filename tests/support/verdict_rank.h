/*
 * verdict_rank.h - a rank of a job with a fault in it: some healthy steps, then, if it is the
 * victim, what the fault says (verdict_job.h, verdict_faults.h).
 */
#ifndef TWT_VERDICT_RANK_H
#define TWT_VERDICT_RANK_H

#include "verdict_faults.h"

int twt_vj_rank_main(const struct twt_vj_job *job, int rank);

#endif
