/*
 * cell_run.h - a cell (cell.h) from begin to end: its memory, its two ends, the counters of both
 * when they are through.
 */
#ifndef TWT_CELL_RUN_H
#define TWT_CELL_RUN_H

#include "cell_drive.h"

#include <arpa/inet.h>
#include <sys/socket.h>

/* --- memory --- */

void twt_data_fill(uint8_t *at, size_t bytes, unsigned seed);

const char *twt_data_judge(const uint8_t *at, size_t bytes, unsigned seed);

/* --- a cell from begin to end --- */

/* One connection, dialed by rank 0: where both do, how many come up is a matter of timing. */
void twt_group_connect(struct twt_end *end);

/* In the cell's process; returns its exit status. */
int twt_cell_run(struct twt_cell *cell);

#endif
