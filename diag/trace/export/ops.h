/*
 * ops.h - turns a rank's operations into what XProf knows: pairs of ops on a device's line.
 *
 *	tow_coll_*_start            --> send, recv (a point)            the time of the start call
 *	tow_op_wait                 --> send-done (a point), recv-done  the time of waiting for it
 *	other waits for the network --> recv-done or send-done alone, which have no slack of
 *	                                their own. But the program could not compute in this
 *	                                time either
 *
 * From these XProf computes (docs/traces.md): observed = end of recv-done - start of send; stall =
 * all ops of the collective; slack = start of recv-done - start of send - all ops between them. So
 * ops must not overlap. Times that overlap (calls of a batch, waits of several threads) are cut
 * into pieces, one after another (ops_line.h). Pieces between send and recv-done are `wait`, but
 * the first of them is send-done.
 *
 * A *rendezvous* joins the ops of a collective. There is one for each group of ranks, kind, name
 * and size, and for each of several that are under way at once. If no thread waited for a
 * collective, its recv-done is at its end and takes no time. Of several waits, the last is
 * recv-done.
 */
#ifndef TWI_OPS_H
#define TWI_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/trace/export/names.h"
#include "diag/trace/export/ops_name.h"
#include "diag/trace/trace.h"

enum twi_op_what {
	TWI_OP_SEND,
	TWI_OP_RECV,
	TWI_OP_SEND_DONE,
	TWI_OP_RECV_DONE,
	TWI_OP_WAIT,
	TWI_OP_WHATS
};

struct twi_rendezvous {
	char name[TWI_RENDEZVOUS_BYTES]; /* ops_name.h */
	bool collective;                 /* else a wait for a message or call */
	uint8_t kind;                    /* enum twi_coll_kind */
	uint32_t ranks;
	uint64_t bytes;
	/* For the current rank: until when it is in use, and the next one of the same key. */
	size_t busy_rank;
	uint64_t busy_until;
	uint32_t next;
};

struct twi_op {
	uint64_t start_ns, end_ns;
	uint32_t rendezvous; /* from 1 */
	uint8_t what;
};

/* Which ops of a collective are on the line. */
struct twi_op_said {
	bool sent, send_done;
};

/* A collective: joins its messages and waits. */
struct twi_op_coll {
	const struct twi_span *span;
	uint32_t rendezvous;                 /* 0: none was free */
	const struct twi_span *first, *wait; /* its first and its last wait */
	struct twi_op_said said;
};

struct twi_ops_rank {
	size_t op_count, op_room, coll_count;
	struct twi_op *ops;        /* by start; none begins before the previous one has ended */
	struct twi_op_coll *colls; /* by start */
	size_t *by_id;             /* indexes of colls, by id and start */
};

/* The ops of all ranks of a trace. */
struct twi_ops {
	size_t rank_count, rendezvous_count, rendezvous_room;
	struct twi_ops_rank *ranks;
	struct twi_rendezvous *rendezvous; /* from 1 */
	struct twi_names keys;
	uint32_t *first; /* by number of a key */
	struct twi_op_names names;
	uint64_t left_out; /* operations without a rendezvous */
};

/* TOW_OK or TOW_ENOMEM. The trace must outlive it. */
int twi_ops_make(const struct twi_trace *trace, struct twi_ops *out);
void twi_ops_fini(struct twi_ops *ops);

/* The last collective with that id that started at `at_ns` or before; NULL: none. */
struct twi_op_coll *twi_ops_coll(const struct twi_ops_rank *rank, uint64_t id, uint64_t at_ns);

/* "send", "recv", "send-done", "recv-done", "wait"; "ALL_REDUCE" is a transfer of MegaScale. */
const char *twi_op_what_name(unsigned what);
const char *twi_rendezvous_transfer(const struct twi_rendezvous *rendezvous);

#endif
