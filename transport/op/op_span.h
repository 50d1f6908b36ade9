/*
 * op_span.h - the spans of operations: of messages and device copies when they end, of waits for
 * any, and of the peers that they name. Asking whether a message is wanted is all that most pay.
 */
#ifndef TWI_OP_SPAN_H
#define TWI_OP_SPAN_H

#include "diag/record/latency.h"
#include "diag/record/span.h"
#include "transport/engine/engine.h"
#include "transport/op/endpoint.h"
#include "transport/op/op.h"

/* An operation that ended is never recorded; was passed over by sampling; is recorded. */
enum twi_op_span_is { TWI_OP_SPAN_NONE, TWI_OP_SPAN_PASSED, TWI_OP_SPAN_WANTED };

/*
 * Whether what has ended is to be written: status, result_bytes and latency_ns are set. For
 * twi_op_complete, which counts those that are passed; what has spans of its own has none here.
 */
static inline enum twi_op_span_is twi_op_span_is(const struct tow_op *op)
{
#ifndef TWI_NO_DIAGNOSTICS
	if (op->kind < TWI_OP_SEND || op->kind > TWI_OP_COPY || !twi_space_counts(op->space))
		return TWI_OP_SPAN_NONE;
	return twi_span_chosen(op->engine->diag, op->result_bytes, op->seq) || op->status < 0
		       ? TWI_OP_SPAN_WANTED
		       : TWI_OP_SPAN_PASSED;
#else
	(void)op;
	return TWI_OP_SPAN_NONE;
#endif
}

/* Of a send, receive or copy that has ended; a receive's latency is read again. */
void twi_op_span(struct tow_op *op);

/*
 * Whether a wait of so long is to be written: one for a collective is, others where they last, as a
 * short one is told by its message; all while everything is.
 */
#define TWI_WAIT_SPAN_NS 10000u
static inline bool twi_op_span_waited(const struct tow_op *op, uint64_t ns)
{
#ifndef TWI_NO_DIAGNOSTICS
	return ns >= TWI_WAIT_SPAN_NS || op->stamp.record != NULL || twi_span_all(op->engine->diag);
#else
	(void)op, (void)ns;
	return false;
#endif
}

/* A message has arrived: one that is counted in /v1/latency, with its parts as they are there. */
void twi_op_span_delivery(struct tow_peer *peer, const struct twi_latency_reading *reading,
			  uint64_t queue_ns, uint64_t match_ns);

/* Of a message's id its number, by which both sides choose the same ones. */
static inline uint64_t twi_rpc_seq(uint64_t id)
{
	return id >> 1;
}

/* A thread was blocked in tow_op_wait for it. */
void twi_op_span_wait(const struct tow_op *op, uint64_t start_ns, uint64_t end_ns, int status);

/* The peer's number in spans. */
uint32_t twi_op_span_peer(struct tow_peer *peer);

/* The first byte of a send leaves; a receive has met its message. The engine is held. */
static inline void twi_op_begun(struct tow_op *op)
{
	twi_assert_held(op->engine);
	op->begun_ns = twi_engine_batch_now(op->engine);
}

static inline uint32_t twi_span_ns(uint64_t ns)
{
	return (uint32_t)twi_min(ns, (uint64_t)UINT32_MAX);
}

/* From one time to a later one, 0 where they are not known or the wrong way round. */
static inline uint32_t twi_span_between(uint64_t from_ns, uint64_t to_ns)
{
	return from_ns != 0 && to_ns > from_ns ? twi_span_ns(to_ns - from_ns) : 0;
}

#endif
