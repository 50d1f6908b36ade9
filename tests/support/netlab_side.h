/*
 * netlab_side.h - a side from its first call to its last: opens its runtime, connects or accepts,
 * moves messages, questions and answers (netlab_messages.h) until both have all, and closes.
 */
#ifndef TWT_NETLAB_SIDE_H
#define TWT_NETLAB_SIDE_H

#include "netlab_messages.h"

#include <sys/mman.h>

/* A side, as twt_nl_world_open wants it; arg is a struct twt_nl_job that is shared memory. */
int twt_nl_run_side(int side, void *arg);

struct twt_nl_job *twt_nl_job_open(uint64_t seed);

void twt_nl_job_close(struct twt_nl_job *job);

#endif
