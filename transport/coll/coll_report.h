/*
 * coll_report.h - what collectives have done: the document /v1/coll, and the records it is made of.
 *
 * A runtime keeps its last TWI_COLL_RECORDS collectives: a ring of rows, of which a collective
 * takes the next when it starts and fills the rest of when it ends. Only the holder of the engine
 * writes rows, by plain stores, but for two words: when the collective was first waited for is
 * known to the thread that waits, which does not hold the engine. It stores each word at once, with
 * a mark of the row's collective in its upper bits, so a late one is not taken for the row's next
 * owner's.
 *
 *	begin (tow_coll_*_start) ---> waited (tow_op_wait, _test) ---> end (finish in coll_run.c)
 *	        |                          any order                     |
 *	        +---- blocked: what this thread has spent in waits ------+
 *
 * Slack, as XProf defines it: wait's start - start's begin - time that the thread was blocked in
 * waits in between. It is what the collective could have taken without anybody noticing.
 */
#ifndef TWI_COLL_REPORT_H
#define TWI_COLL_REPORT_H

#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "transport/coll/coll_run.h"

#define TWI_COLL_RECORDS 256u

struct twi_coll_record {
	_Alignas(64) uint64_t id; /* of the collective in this runtime, from 1; 0: none */
	uint64_t seq, bytes;
	uint64_t start_ns, moving_ns, entered_ns, done_ns; /* 0: not (yet) */
	_Atomic uint64_t waited, slack; /* mark << 48 | ns; waited: since start */
	const char *plan;
	uint32_t ctx;
	int status;
	uint8_t kind, type, reduce;
	uint8_t way; /* of coll_account.h, once it has ended */
	bool ended, combined, named;
	char name[TWI_COLL_NAME]; /* two cache lines in all */
};

struct twi_coll_log {
	uint64_t last; /* id */
	struct twi_coll_record rows[TWI_COLL_RECORDS];
};

/* coll_record.c; the engine is held, but where said. */

/* The runtime's ring, at the first group; without memory there is none. */
void twi_coll_log_make(struct twi_engine *engine);
/* The user's operation stands for this call, of TWI_COLL_NAME bytes of name, from now on; a start
 * that fails is undone. */
void twi_coll_record_begin(struct twi_coll_group *coll, const struct twi_coll_call *call,
			   const char *name, struct tow_op *op);
void twi_coll_record_undo(struct tow_op *op);

/* The next call of the group begins (series.h). The engine is held. */
void twi_coll_series_enter(const struct twi_engine *engine, struct twi_series *series, uint64_t seq,
			   uint64_t start_ns);
/* The run is over; `op` is the user's, or a fused one's; NULL: nobody's. */
void twi_coll_record_end(struct twi_coll_run *run, struct tow_op *op, int status);
/* The span of a collective of this rank: of a fused one too, whose parts have none. */
struct twi_span twi_coll_span(const struct twi_coll_run *run, uint64_t end_ns, int status);
/* Whether there is to be a span of the run. */
bool twi_coll_span_wanted(const struct twi_coll_run *run);
/* It ends without a run. */
void twi_coll_record_fail(struct tow_op *op, int status);
/* Somebody waits for it, or tests it, now. The engine is not held. */
void twi_coll_waited(struct tow_op *op, uint64_t now_ns);

/* Both words of a row: false when they are not of the row's collective, as nobody has waited. */
bool twi_coll_record_waited(const struct twi_coll_record *record, uint64_t *waited_ns_out,
			    uint64_t *slack_ns_out);
/* A word of a row: false when it is not of the row's collective. */
bool twi_coll_record_word(const struct twi_coll_record *record, const _Atomic uint64_t *word,
			  uint64_t *ns_out);

/* coll_report.c: /v1/coll; arg is the engine. */
void twi_coll_describe(void *arg, struct twi_emit *emit);

#endif
