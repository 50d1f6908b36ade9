/*
 * netlab_judge.h - runs a job in a world and compares what both sides counted. Any failure is a
 * failure of the cmocka test that calls it.
 */
#ifndef TWT_NETLAB_JUDGE_H
#define TWT_NETLAB_JUDGE_H

#include "netlab_side.h"

#define NL_LIMIT (60 * NL_SECOND)

void twt_nl_test(struct twt_nl_job *job, struct twt_nl_shape shape, twt_nl_script script,
		 void *arg);

/* Can there be such worlds on this system? Prints the reason when not. */
bool twt_nl_possible(void);

#endif
