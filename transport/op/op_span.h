/*
 * op_span.h - writes the spans of operations: of messages and device copies when they end, and of
 * waits. It also numbers the peers that spans name. Most messages pay only for the question whether
 * they get a span.
 */
#ifndef TWI_OP_SPAN_H
#define TWI_OP_SPAN_H

#include "diag/record/latency.h"
#include "diag/record/span.h"
#include "transport/engine/engine.h"
#include "transport/op/endpoint.h"
#include "transport/op/op.h"

/* The operation never has a span here; sampling has passed it over; its span is written. */
enum twi_op_span_is { TWI_OP_SPAN_NONE, TWI_OP_SPAN_PASSED, TWI_OP_SPAN_WANTED };

/*
 * Whether a span is written for an operation that has ended: status, result_bytes and latency_ns
 * are set. For twi_op_complete, which counts the operations that sampling passes over. Operations
 * that write their own spans have none here.
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

/* Writes the span of a send, receive or copy. For a receive, the clock is read once more. */
void twi_op_span(struct tow_op *op);

/*
 * Whether a span is written for a wait of `ns`. A wait for a collective always has one. Other waits
 * have one only if they are long, as the message's own span shows a short one. All waits have one
 * while every span is written.
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

/* Writes the span of a message that has arrived and is counted in /v1/latency, with its parts. */
void twi_op_span_delivery(struct tow_peer *peer, const struct twi_latency_reading *reading,
			  uint64_t queue_ns, uint64_t match_ns);

/* The message's number, from its id. Both sides sample by it, and so choose the same messages. */
static inline uint64_t twi_rpc_seq(uint64_t id)
{
	return id >> 1;
}

/* Writes the span of a thread that was blocked in tow_op_wait for the operation. */
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

/* The time between two times; 0 if one of them is not known, or they are in the wrong order. */
static inline uint32_t twi_span_between(uint64_t from_ns, uint64_t to_ns)
{
	return from_ns != 0 && to_ns > from_ns ? twi_span_ns(to_ns - from_ns) : 0;
}

#endif
