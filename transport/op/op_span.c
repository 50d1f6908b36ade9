/*
 * op_span.c - see op_span.h.
 *
 * A message's `begun` is when the first byte of a large send left, or when a receive met its
 * message. A small send ends when it is framed, so all of its time is queueing. A small receive
 * ends when it meets its message.
 */
#include "transport/op/op_span.h"

uint32_t twi_op_span_peer(struct tow_peer *peer)
{
	if (peer == NULL)
		return 0;
	if (twi_unlikely(peer->span_peer == 0))
		peer->span_peer = twi_span_peer(peer->engine->diag, peer->address, -1);
	return peer->span_peer;
}

/*
 * The poll that finds a message may have read the time before the message was sent. In a trace the
 * receive would then end before its send. So the time is read again for the few receives that have
 * a span.
 */
static uint64_t end_of(struct tow_op *op)
{
	if (op->kind == TWI_OP_RECV)
		op->latency_ns = twi_engine_clock(op->engine) - op->start_ns;
	return op->start_ns + op->latency_ns;
}

void twi_op_span(struct tow_op *op)
{
	uint64_t end_ns = end_of(op);
	uint64_t begun_ns = op->begun_ns != 0 ? op->begun_ns : end_ns;
	struct twi_span span = {
		.start_ns = op->start_ns,
		.end_ns = end_ns,
		.id = op->rpc_id,
		.parent = op->span_parent,
		.bytes = op->result_bytes,
		.name = op->site.tag,
		.kind = op->ops->span,
		.lane = TWI_SPAN_NO_LANE,
		.status = (int8_t)op->status,
	};

	if (op->kind == TWI_OP_COPY) {
		span.detail = op->copy.direction;
	} else {
		span.queue_ns = twi_span_between(op->start_ns, begun_ns);
		span.wire_ns = twi_span_between(op->begun_ns, end_ns);
		span.match_ns = op->kind == TWI_OP_RECV ? span.queue_ns : 0;
		span.detail = op->space;
		if (op->kind == TWI_OP_SEND)
			span.bytes = op->bytes;
	}
	if (op->peer != NULL) {
		span.peer = twi_op_span_peer(op->peer);
		span.lane = (uint8_t)op->peer->lane->ops->id;
	}
	twi_span_record(op->engine->diag, &span);
}

void twi_op_span_delivery(struct tow_peer *peer, const struct twi_latency_reading *reading,
			  uint64_t queue_ns, uint64_t match_ns)
{
	uint64_t took_ns = reading->parts_ns[TWI_LATENCY_TOTAL];
	struct twi_span span = {
		.start_ns = reading->end_ns - twi_min(took_ns, reading->end_ns),
		.end_ns = reading->end_ns,
		.id = reading->id,
		.bytes = reading->bytes,
		.queue_ns = twi_span_ns(queue_ns),
		.wire_ns = twi_span_ns(reading->parts_ns[TWI_LATENCY_WIRE]),
		.match_ns = twi_span_ns(match_ns),
		.peer = twi_op_span_peer(peer),
		.kind = TWI_SPAN_DELIVERY,
		.lane = (uint8_t)reading->lane,
		.detail = reading->received,
	};

	twi_span_record(peer->engine->diag, &span);
}

void twi_op_span_wait(const struct tow_op *op, uint64_t start_ns, uint64_t end_ns, int status)
{
	struct twi_span span = {
		.start_ns = start_ns,
		.end_ns = end_ns,
		.id = op->rpc_id != 0 ? op->rpc_id : op->seq,
		.bytes = op->result_bytes,
		.name = op->site.tag,
		.kind = TWI_SPAN_WAIT,
		.lane = TWI_SPAN_NO_LANE,
		.detail = op->ops->span,
		.status = (int8_t)status,
	};

	twi_span_record(op->engine->diag, &span);
}
