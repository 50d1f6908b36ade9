/*
 * cpu_quota.h - a control group with a quota of CPU time, into which a test puts a process. It
 * takes rights that tests seldom have: where they are missing, twt_quota_begin says so.
 */
#ifndef TWT_CPU_QUOTA_H
#define TWT_CPU_QUOTA_H

#include <stdbool.h>
#include <sys/types.h>

struct twt_quota {
	char folder[512]; /* "": there is none */
};

/* `percent` of one CPU for `pid` from now on. False: such a group cannot be had here. */
bool twt_quota_begin(struct twt_quota *quota, pid_t pid, unsigned percent);

/* What was put in has ended. */
void twt_quota_end(struct twt_quota *quota);

#endif
