/*
 * fr_trace.h - writes what a rank's flight recorder has kept as a file for PyTorch's analyzer.
 *
 * The analyzer (torch.distributed.flight_recorder.fr_trace) reads pickles, one of each rank.
 */
#ifndef TOWSTAT_FR_TRACE_H
#define TOWSTAT_FR_TRACE_H

#include <jansson.h>

/*
 * Writes `folder`/rank_N. The analyzer stops at a message that does not name two ranks, and at an
 * entry of a group without known members. So these entries are left out and counted. Returns 0, or
 * -1 after printing why.
 */
int fr_trace_write(const char *folder, long rank, const json_t *document, size_t *left_out);

#endif
