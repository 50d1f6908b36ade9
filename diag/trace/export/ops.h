/*
 * ops.h - a rank's operations as XProf knows such: pairs of ops on a device's line.
 *
 *	tow_coll_*_start            --> send, recv (a point)            what the start call took
 *	tow_op_wait                 --> send-done (a point), recv-done  what waiting for it took
 *	other waits for the network --> recv-done or send-done alone, which have no slack of
 *	                                their own, but are no time in which the program could have
 *	                                computed, either
 *
 * From these XProf reckons (docs/traces.md): observed = end of recv-done - start of send; stall =
 * all of it; slack = start of recv-done - start of send - all ops between. So no two ops may share
 * a time: what overlaps (calls of a batch, waits of several threads) is cut into pieces, one after
 * another (ops_line.h). Pieces between send and recv-done are `wait`, the first of them send-done.
 *
 * Ops belong together by a *rendezvous*: one for each group of ranks, kind, name, size, and which
 * of those under way at once. A collective nobody waited for has a recv-done of no length at its
 * end. Of several waits for one the last is recv-done.
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
	/* Of the rank that is being done: until when it is taken, and who is next in line. */
	size_t busy_rank;
	uint64_t busy_until;
	uint32_t next;
};

struct twi_op {
	uint64_t start_ns, end_ns;
	uint32_t rendezvous; /* from 1 */
	uint8_t what;
};

/* Which of its ops are on the line. */
struct twi_op_said {
	bool sent, send_done;
};

/* A collective: what its messages and waits are put together with. */
struct twi_op_coll {
	const struct twi_span *span;
	uint32_t rendezvous;                 /* 0: there was no room for it */
	const struct twi_span *first, *wait; /* waits for it: the first, and the last */
	struct twi_op_said said;
};

struct twi_ops_rank {
	size_t op_count, op_room, coll_count;
	struct twi_op *ops;        /* by start; none begins before the one before it has ended */
	struct twi_op_coll *colls; /* by start */
	size_t *by_id;             /* indexes of colls, by id and start */
};

/* Of all ranks of a trace. */
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

/* The collective with that id that was started last before `at_ns`; NULL: none. */
struct twi_op_coll *twi_ops_coll(const struct twi_ops_rank *rank, uint64_t id, uint64_t at_ns);

/* "send", "recv", "send-done", "recv-done", "wait"; "ALL_REDUCE" as MegaScale spells a transfer. */
const char *twi_op_what_name(unsigned what);
const char *twi_rendezvous_transfer(const struct twi_rendezvous *rendezvous);

#endif
