/*
 * span.h - what each thread did, and when: a ring of the last spans for each thread, always on.
 *
 *	struct twi_diag_block --- spans --- rows[TWI_SPAN_ROWS]   one cache line each
 *	                                    head                  spans written since it was made
 *
 * Only its thread writes a ring; any thread may read it meanwhile. A row that is overwritten while
 * it is read is found out (reserved is ahead of head while a row is being written) and counted as
 * lost, never shown in halves. A ring is made by its thread's first span and kept with the block.
 *
 * A span is written when it ends, so what is under way is not in a ring: the flight recorder asks
 * the operation table for that. Times are of twi_now_ns; a trace says how to get UNIX time of them.
 *
 * Messages of a few bytes take less time than two spans do. So of messages at most
 * TWI_SPAN_SMALL_MESSAGE bytes one in `span_sample` (a knob) is written, and all while a capture is
 * under way; of copies and registrations likewise, up to TWI_SPAN_SMALL. What was passed over is
 * counted (spans_sampled_out). All else is always written.
 *
 * Budget: twi_span_record 30 ns, and no allocation but a thread's first.
 */
#ifndef TWI_SPAN_H
#define TWI_SPAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "diag/record/diag.h"

/*
 * X(name in capitals, name, what `id`, `parent`, `bytes` and `detail` are)
 *
 * SEND, RECV	id: the RPC's id on the wire, the same on both sides. parent: the collective it is
 *		a step of, 0: none. queue_ns: from start to the first byte leaving (SEND), or
 *		from posted to matched (RECV: match_ns too). wire_ns: first byte to last.
 *		detail: 0 the program's own, 1 of a call, 2 of a group's ranks, 3 of
 *		another library (foreign.h): id is this rank's alone, queue_ns of a SEND is what
 *		its device and its peer took, match_ns of a RECV what its device took
 * CALL, SERVE	id: the call's. The client's and the server's side of one call. CALL has its parts:
 *		queue_ns, server_queue_ns, wire_ns, match_ns; what is left of it was served
 * COLL		from tow_coll_*_start to done. id: group's context << 32 | sequence in the
 *		group, the same on every rank. bytes: of this rank's result, or of what it gives
 *		where that is more (reduce-scatter). detail: its kind (enum twi_coll_kind).
 *		queue_ns: time within the start call. ranks: of the group.
 *		match_ns: how long the last rank came after this one. parent: the step it was
 *		started in
 * WAIT		a thread blocked in tow_op_wait: of less than 10 us only for a collective, or
 *		while a capture runs. id: that of the operation's own span; detail: its kind
 *		(enum twi_span_kind)
 * COPY		a fallback copy. detail: enum twi_reason
 * REGISTER	memory made known to a registrar. detail: enum twi_reason where it was late, else
 *		TWI_R_COUNT
 * DEVICE	a copy to (detail 0) or from (1) a device
 * STEP		a training step. id: its number
 * USER		tow_span_begin/end; parent: the USER or STEP span around it, by id
 * DELIVERY	a message on its way, as /v1/latency counts it, from start until it was there: to
 *		the nanosecond what was counted. id, bytes: the message's. queue_ns, match_ns,
 *		wire_ns: its parts. detail: 0 timed by its sender, 1 by its receiver; peer is the
 *		other one
 */
#define TWI_SPAN_MAP(X)                                                                            \
	X(SEND, "send")                                                                            \
	X(RECV, "recv")                                                                            \
	X(CALL, "call")                                                                            \
	X(SERVE, "serve")                                                                          \
	X(COLL, "collective")                                                                      \
	X(WAIT, "wait")                                                                            \
	X(COPY, "copy")                                                                            \
	X(REGISTER, "register")                                                                    \
	X(DEVICE, "device")                                                                        \
	X(STEP, "step")                                                                            \
	X(USER, "user")                                                                            \
	X(DELIVERY, "delivery")

enum twi_span_kind {
#define TWI_SPAN_ENUM(id, name) TWI_SPAN_##id,
	TWI_SPAN_MAP(TWI_SPAN_ENUM)
#undef TWI_SPAN_ENUM
		TWI_SPAN_KINDS
};

#define TWI_SPAN_NO_LANE 0xffu

/* One cache line; as a trace holds it, and as a ring's row does. */
struct twi_span {
	uint64_t start_ns, end_ns;
	uint64_t id;
	union {
		uint64_t parent;
		uint64_t server_queue_ns; /* CALL */
	};
	uint64_t bytes;
	uint32_t queue_ns; /* these at most UINT32_MAX, which stands for more */
	union {
		uint32_t wire_ns;
		uint32_t ranks; /* COLL */
	};
	uint32_t match_ns;
	uint32_t name; /* twi_tag_text: the user's name for it; 0: none */
	uint32_t peer; /* twi_span_peer; 0: none */
	uint8_t kind;
	uint8_t lane; /* enum twi_lane_id, or TWI_SPAN_NO_LANE */
	uint8_t detail;
	int8_t status; /* of enum tow_status */
};
_Static_assert(sizeof(struct twi_span) == 64, "a span is a cache line");

#define TWI_SPAN_ROWS          4096u /* a power of two: 256 KiB for each thread that ever records */
#define TWI_SPAN_SMALL         16384u
#define TWI_SPAN_SMALL_MESSAGE 65536u /* larger ones take so long that a span is no cost */

const char *twi_span_kind_name(enum twi_span_kind kind);

/* Writes it to this thread's ring. Without memory for one it is counted (telemetry_lost). */
void twi_span_record(struct twi_diag *diag, const struct twi_span *span);

#define TWI_SPAN_SAMPLE 64u

/*
 * Whether a message of so many bytes that ends now is to be written: see above. Asked once for each
 * message, before its clock is read for a span. 2 to 3 ns.
 */
static inline bool twi_span_wanted(struct twi_diag *diag, uint64_t bytes)
{
#ifndef TWI_NO_DIAGNOSTICS
	uint32_t mask = atomic_load_explicit(&diag->span_mask, memory_order_relaxed);
	struct twi_diag_block *block;

	if (bytes > TWI_SPAN_SMALL || mask == 0)
		return true;
	block = twi_diag_block_of(diag);
	if (twi_unlikely(block == NULL))
		return false;
	if (twi_likely(block->spans_pass != 0)) {
		block->spans_pass--;
		twi_cell_add(&block->counters[TWI_C_spans_sampled_out], 1);
		return false;
	}
	block->spans_pass = mask;
	return true;
#else
	(void)diag, (void)bytes;
	return false;
#endif
}

/*
 * The same for what has a number that both of its sides know: they choose the same ones. Counts
 * nothing.
 */
static inline bool twi_span_chosen(struct twi_diag *diag, uint64_t bytes, uint64_t number)
{
	uint32_t mask = atomic_load_explicit(&diag->span_mask, memory_order_relaxed);

	return bytes > TWI_SPAN_SMALL_MESSAGE || (number & mask) == 0;
}

/* Nothing is passed over now. */
static inline bool twi_span_all(struct twi_diag *diag)
{
	return atomic_load_explicit(&diag->span_mask, memory_order_relaxed) == 0;
}

/*
 * The knob span_sample, rounded up to a power of two; a capture that is under way stands above it.
 */
void twi_span_sample(struct twi_diag *diag, uint32_t one_in);

/* While there are captures under way nothing is passed over. */
void twi_span_capture(struct twi_diag *diag, bool begin);

/* How many are under way. */
uint32_t twi_span_captures(struct twi_diag *diag);

/*
 * A number for a peer: `name` as in /v1/peers, its rank in the job or -1. The same name has the
 * same number for as long as the diag lives; 0 when there are too many (TWI_SPAN_PEERS).
 */
#define TWI_SPAN_PEERS 4096u
uint32_t twi_span_peer(struct twi_diag *diag, const char *name, int64_t rank);

/* Its rank; -1: not known. */
int64_t twi_span_peer_rank(struct twi_diag *diag, const char *name);

#endif
