/*
 * span.h - what each thread did, and when: a ring of the last spans for each thread, always on.
 *
 *	struct twi_diag_block --- spans --- rows[TWI_SPAN_ROWS]   one cache line each
 *	                                    head                  spans written since it was made
 *
 * Only its thread writes a ring; any thread may read it meanwhile. If a row is overwritten while it
 * is read, the reader notices that, because `reserved` is ahead of `head` while a row is written.
 * Such a row is counted as lost and never shown in part. A ring is made by its thread's first span
 * and kept with the block.
 *
 * A span is written when it ends, so a ring has nothing that is under way. The flight recorder asks
 * the operation table for that. Times are of twi_now_ns; a trace says how to get UNIX time of them.
 *
 * Messages of a few bytes take less time than two spans do. So of messages of at most
 * TWI_SPAN_SMALL_MESSAGE bytes, one in `span_sample` (a knob) is written. The same holds for copies
 * and registrations of at most TWI_SPAN_SMALL bytes. While a capture is under way, all are written.
 * Spans that are passed over are counted (spans_sampled_out). Other kinds are always written.
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
 * X(name in capitals, name). What the members mean, by kind:
 *
 * SEND, RECV	id: the RPC's id on the wire, the same on both sides. parent: the collective that
 *		the message is a step of; 0: none. queue_ns: from start to the first byte leaving
 *		(SEND), or from posted to matched (RECV; match_ns too). wire_ns: first byte to
 *		last. detail: 0 of the program, 1 of a call, 2 of a group's ranks, 3 of another
 *		library (foreign.h). With detail 3, id is this rank's alone, queue_ns of a SEND
 *		is the time of its device and its peer, and match_ns of a RECV that of its device
 * CALL, SERVE	the client's and the server's side of one call. id: of the call. CALL has its
 *		parts: queue_ns, server_queue_ns, wire_ns, match_ns; the rest is time of serving
 * COLL		from tow_coll_*_start to done. id: group's context << 32 | sequence in the
 *		group, the same on every rank. bytes: of this rank's result, or of its input if
 *		that is larger (reduce-scatter). detail: its kind (enum twi_coll_kind). queue_ns:
 *		time within the start call. ranks: of the group. match_ns: how long the last rank
 *		came after this one. parent: the step in which it was started
 * WAIT		a thread blocked in tow_op_wait. A wait of less than 10 us is written only for a
 *		collective, or while a capture runs. id: of the operation's own span. detail: the
 *		kind of that span (enum twi_span_kind)
 * COPY		a fallback copy. detail: enum twi_reason
 * REGISTER	memory made known to a registrar. detail: enum twi_reason if it was late, else
 *		TWI_R_COUNT
 * DEVICE	a copy to (detail 0) or from (1) a device
 * STEP		a training step. id: its number
 * USER		tow_span_begin/end. parent: id of the USER or STEP span around it
 * DELIVERY	a message, from start until it was there: exactly the times that /v1/latency
 *		counts. id, bytes: of the message. queue_ns, match_ns, wire_ns: its parts.
 *		detail: 0 timed by its sender, 1 by its receiver; peer is the other one
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

/* One cache line, in a trace as in a row of a ring. */
struct twi_span {
	uint64_t start_ns, end_ns;
	uint64_t id;
	union {
		uint64_t parent;
		uint64_t server_queue_ns; /* CALL */
	};
	uint64_t bytes;
	uint32_t queue_ns; /* this and the next times: at most UINT32_MAX, which stands for more */
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
#define TWI_SPAN_SMALL_MESSAGE 65536u /* larger ones take so long that a span costs little */

const char *twi_span_kind_name(enum twi_span_kind kind);

/* Writes a span to this thread's ring. Without memory for a ring, telemetry_lost counts it. */
void twi_span_record(struct twi_diag *diag, const struct twi_span *span);

#define TWI_SPAN_SAMPLE 64u

/*
 * Whether a copy or registration of so many bytes that ends now is to be written: see above. Asked
 * once for each, before the clock is read for a span. 2 to 3 ns.
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
 * The same for operations with a number that both sides know, so that both choose the same ones.
 * Counts nothing.
 */
static inline bool twi_span_chosen(struct twi_diag *diag, uint64_t bytes, uint64_t number)
{
	uint32_t mask = atomic_load_explicit(&diag->span_mask, memory_order_relaxed);

	return bytes > TWI_SPAN_SMALL_MESSAGE || (number & mask) == 0;
}

/* True: nothing is passed over now. */
static inline bool twi_span_all(struct twi_diag *diag)
{
	return atomic_load_explicit(&diag->span_mask, memory_order_relaxed) == 0;
}

/*
 * Sets the knob span_sample, rounded up to a power of two. A capture under way overrides it.
 */
void twi_span_sample(struct twi_diag *diag, uint32_t one_in);

/* Begins or ends a capture. While a capture is under way, nothing is passed over. */
void twi_span_capture(struct twi_diag *diag, bool begin);

/* How many captures are under way. */
uint32_t twi_span_captures(struct twi_diag *diag);

/*
 * The number of a peer. `name` is as in /v1/peers; `rank` is its rank in the job, or -1. A name
 * keeps its number for as long as the diag lives. 0: there are too many (TWI_SPAN_PEERS).
 */
#define TWI_SPAN_PEERS 4096u
uint32_t twi_span_peer(struct twi_diag *diag, const char *name, int64_t rank);

/* The rank of a peer; -1: not known. */
int64_t twi_span_peer_rank(struct twi_diag *diag, const char *name);

#endif
