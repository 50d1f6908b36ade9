/*
 * cell_drive.h - what an end of a cell (cell.h) does: it looks into its runtime's documents, and
 * drives its operations to their end in the way of the cell.
 */
#ifndef TWT_CELL_DRIVE_H
#define TWT_CELL_DRIVE_H

#include "cell.h"

/* --- documents --- */

uint64_t twt_counter(struct twt_end *end, const char *name);

/* Until a document's number is what it should be. */
void twt_until(struct twt_end *end, const char *path, const char *inner, const char *name,
	       uint64_t wanted);

/* Until no message waits for a receive: those that were taken back are gone here, too. */
void twt_until_none_waits(struct twt_end *end);

/* --- operations --- */

const struct tow_op_options *twt_begin(struct twt_end *end, struct twt_doing *doing,
				       uint64_t timeout_ns);

void twt_crew_start(struct twt_end *end);

void twt_crew_stop(struct twt_end *end);

/* The operation is not given back: of a view, until it has been looked at. */
int twt_await_kept(struct twt_end *end, struct twt_doing *doing, struct tow_result *result);

int twt_await(struct twt_end *end, struct twt_doing *doing, struct tow_result *result);

#endif
