/*
 * sweep.h - removes the stats sockets of ended processes.
 */
#ifndef SWEEP_H
#define SWEEP_H

#include <stddef.h>

/*
 * Removes the sockets of this user's ended processes. It leaves those of a job in which a process
 * still lives, as the trace of the dead ranks.
 *
 * job: this job alone; NULL: all jobs. ranks: only ranks below this number, all of which have ended
 * or are about to: the call waits for them, for one second at most. 0: all ranks. The call also
 * waits for a runtime that opens in the same directory, for half a second at most. Returns the
 * number of removed files.
 */
size_t sweep_sockets(const char *job, long ranks);

#endif
