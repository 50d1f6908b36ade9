/*
 * coll_report.h - the document /v1/coll, and the records of collectives that it is made of.
 *
 * A runtime keeps its last TWI_COLL_RECORDS collectives in a ring of rows. A collective takes the
 * next row when it starts, and fills in the rest when it ends. Only the holder of the engine writes
 * rows, by plain stores. Two values are the exception: the thread that first waits for the
 * collective knows when it did so, and does not hold the engine. It stores each value at once, with
 * a mark of the collective in the upper bits. So a late store is not taken for one of the row's
 * next collective.
 *
 *	begin (tow_coll_*_start) ---> waited (tow_op_wait, _test) ---> end (finish_run, coll_run.c)
 *	        |                          any order                     |
 *	        +---- blocked: what this thread has spent in waits ------+
 *
 * Slack, as XProf defines it: wait's start - start's begin - time that the thread was blocked in
 * waits in between. A collective that took as long as its slack would have delayed no thread.
 */
#ifndef TWI_COLL_REPORT_H
#define TWI_COLL_REPORT_H

#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "transport/coll/coll_run.h"

#define TWI_COLL_RECORDS 256u

struct twi_coll_record {
	_Alignas(64) uint64_t id; /* number of the collective in this runtime, from 1; 0: none */
	uint64_t seq, bytes;
	uint64_t start_ns, moving_ns, entered_ns, done_ns; /* 0: not (yet) */
	_Atomic uint64_t waited, slack; /* mark << 48 | ns; waited: time since the start */
	const char *plan;
	uint32_t ctx;
	int status;
	uint8_t kind, type, reduce;
	uint8_t way; /* lane as in coll_account.h, once it has ended */
	bool ended, combined, named;
	char name[TWI_COLL_NAME]; /* the record is two cache lines */
};

struct twi_coll_log {
	uint64_t last; /* id */
	struct twi_coll_record rows[TWI_COLL_RECORDS];
};

/* coll_record.c; the engine is held, unless a comment says otherwise. */

/* Makes the runtime's ring, for the first group. Without memory there is none. */
void twi_coll_log_make(struct twi_engine *engine);
/* begin: starts a record for the call and its operation; `name` has TWI_COLL_NAME bytes. undo:
 * drops the record, because the start has failed. */
void twi_coll_record_begin(struct twi_coll_group *coll, const struct twi_coll_call *call,
			   const char *name, struct tow_op *op);
void twi_coll_record_undo(struct tow_op *op);

/* The next call of the group begins (series.h). The engine is held. */
void twi_coll_series_enter(const struct twi_engine *engine, struct twi_series *series, uint64_t seq,
			   uint64_t start_ns);
/* Ends the record of a run. `op` is the user's or a fused call's; NULL: the run has none. */
void twi_coll_record_end(struct twi_coll_run *run, struct tow_op *op, int status);
/* The span of a run. A fused call has one; its parts have none. */
struct twi_span twi_coll_span(const struct twi_coll_run *run, uint64_t end_ns, int status);
/* Whether a span of the run is recorded. */
bool twi_coll_span_wanted(const struct twi_coll_run *run);
/* Ends the record of an operation that has no run. */
void twi_coll_record_fail(struct tow_op *op, int status);
/* A thread waits for the operation, or tests it, now. The engine is not held. */
void twi_coll_waited(struct tow_op *op, uint64_t now_ns);

/* Reads both values of a row. False: no thread has waited, so they are not of its collective. */
bool twi_coll_record_waited(const struct twi_coll_record *record, uint64_t *waited_ns_out,
			    uint64_t *slack_ns_out);
/* Reads one value of a row. False: it is not of the row's collective. */
bool twi_coll_record_word(const struct twi_coll_record *record, const _Atomic uint64_t *word,
			  uint64_t *ns_out);

/* coll_report.c: writes /v1/coll; `arg` is the engine. */
void twi_coll_describe(void *arg, struct twi_emit *emit);

#endif
