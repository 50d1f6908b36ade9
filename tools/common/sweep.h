/*
 * sweep.h - takes away the stats sockets that ended processes have left.
 */
#ifndef SWEEP_H
#define SWEEP_H

#include <stddef.h>

/*
 * Those of this user, of the job of that name or, for NULL, of all jobs of which nobody lives:
 * of a job that goes on they stay, as the trace of the ranks that died. ranks: only of ranks with a
 * smaller number, all of which have ended: for one that is about to, a second at most is waited; 0:
 * of all. It waits for a runtime that opens beside it, half a second at most.
 * Returns how many files are gone.
 */
size_t sweep_sockets(const char *job, long ranks);

#endif
