/*
 * message_times.h - the parts of one message's time, as its sender knows them.
 *
 *	start          framed            begun                  end
 *	  |--- queue ----|----- match -----|-------- wire --------|
 *	     credit, room   no receive posted    under way
 *
 * A small message is framed and under way at once, so it has no match time. If an operation was
 * never queued, its `framed_ns` is its start, so that no clock is read for it.
 */
#ifndef TWI_MESSAGE_TIMES_H
#define TWI_MESSAGE_TIMES_H

#include "diag/record/latency.h"
#include "transport/engine/engine.h"
#include "transport/op/endpoint.h"
#include "transport/op/op.h"
#include "transport/op/op_span.h"

/* The operation leaves its queue: call this before its stage changes. */
static inline void twi_op_framed(struct twi_engine *engine, struct tow_op *op)
{
	op->framed_ns = op->stage == TWI_STAGE_QUEUED ? twi_engine_batch_now(engine) : op->start_ns;
}

static inline uint64_t twi_op_queue_ns(const struct tow_op *op)
{
	return op->framed_ns - twi_min(op->start_ns, op->framed_ns);
}

/* The time for which it was offered and not requested. UNKNOWN: the lane does not learn of that. */
static inline uint64_t twi_op_match_ns(const struct tow_op *op)
{
	return op->begun_ns == 0 ? TWI_LATENCY_UNKNOWN
				 : op->begun_ns - twi_min(op->framed_ns, op->begun_ns);
}

/*
 * The latencies among which a message is counted. A call is timed as a whole and not by its
 * messages. The library's own messages are in no user-visible latency.
 */
static inline enum twi_latency_kind twi_latency_kind_of(uint8_t space)
{
	return space == TWI_SPACE_USER    ? TWI_LATENCY_MESSAGES
	       : space == TWI_SPACE_GROUP ? TWI_LATENCY_COLLS
	       : space == TWI_SPACE_LINK  ? TWI_LATENCY_OWN
					  : TWI_LATENCY_NONE;
}

/* Adds a message to the link's sums for the states of ranks. The engine is held. */
static inline void twi_peer_carried(struct tow_peer *peer,
				    const struct twi_latency_reading *reading)
{
	if (reading->kind != TWI_LATENCY_OWN)
		twi_carried_note(reading->received ? &peer->carried_in : &peer->carried_out,
				 reading->end_ns, reading->bytes,
				 reading->parts_ns[TWI_LATENCY_WIRE]);
}

/* Counts a message to or from `peer` that took total_ns; its parts are cut to fit into that. */
static inline void twi_peer_timed(struct tow_peer *peer, struct twi_engine *engine,
				  struct twi_latency_reading *reading, uint64_t total_ns,
				  uint64_t queue_ns, uint64_t match_ns)
{
	uint64_t queue = queue_ns == TWI_LATENCY_UNKNOWN ? 0 : twi_min(queue_ns, total_ns);
	uint64_t match = match_ns == TWI_LATENCY_UNKNOWN ? 0 : twi_min(match_ns, total_ns - queue);

	reading->parts_ns[TWI_LATENCY_TOTAL] = total_ns;
	reading->parts_ns[TWI_LATENCY_QUEUE] =
		queue_ns == TWI_LATENCY_UNKNOWN ? TWI_LATENCY_UNKNOWN : queue;
	reading->parts_ns[TWI_LATENCY_WIRE] = total_ns - queue - match;
	reading->parts_ns[TWI_LATENCY_MATCH] =
		match_ns == TWI_LATENCY_UNKNOWN ? TWI_LATENCY_UNKNOWN : match;
	reading->parts_ns[TWI_LATENCY_SERVER_QUEUE] = TWI_LATENCY_UNKNOWN;
	reading->parts_ns[TWI_LATENCY_SERVE] = TWI_LATENCY_UNKNOWN;
	twi_latency_note(engine->diag, &peer->latency_row, peer->address, reading);
#ifndef TWI_NO_DIAGNOSTICS
	twi_peer_carried(peer, reading);
	if (twi_span_chosen(engine->diag, reading->bytes, twi_rpc_seq(reading->id)))
		twi_op_span_delivery(peer, reading, queue, match);
#endif
}

/*
 * The same for a message that began at start_ns and is acknowledged now, after its receiver held
 * the acknowledgement back for kept_ns. kept_ns is the peer's figure, so it is cut to the time that
 * has really passed.
 */
static inline void twi_peer_heard(struct tow_peer *peer, struct twi_engine *engine,
				  struct twi_latency_reading *reading, uint64_t start_ns,
				  uint64_t kept_ns, uint64_t queue_ns, uint64_t match_ns)
{
	uint64_t now = twi_engine_now(engine);
	uint64_t since = now - twi_min(start_ns, now), kept = twi_min(kept_ns, since);

	reading->end_ns = now - kept;
	twi_peer_timed(peer, engine, reading, since - kept, queue_ns, match_ns);
}

#endif
