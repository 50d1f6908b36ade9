/*
 * fr_trace.h - what a rank's flight recorder has kept, as a file of PyTorch's: its analyzer
 * (torch.distributed.flight_recorder.fr_trace) reads pickles, one of each rank.
 */
#ifndef TOWSTAT_FR_TRACE_H
#define TOWSTAT_FR_TRACE_H

#include <jansson.h>

/*
 * Writes `folder`/rank_N. The analyzer stops at a message that does not name two ranks, and at an
 * entry of a group whose members are not told, so these are left out and counted. 0, or -1 after
 * saying why.
 */
int fr_trace_write(const char *folder, long rank, const json_t *document, size_t *left_out);

#endif
