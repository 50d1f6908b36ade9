/*
 * rpc_span.c - the spans of calls that have ended, and of those under way.
 */
#include "diag/base/hash.h"
#include "diag/record/tag.h"
#include "transport/engine/engine.h"
#include "transport/op/op_span.h"
#include "transport/rpc/rpc.h"
#include "transport/rpc/rpc_records.h"

static void name_sides(const struct twi_rpc_peer *rp, const char *method, struct twi_span *span)
{
	if (rp->peer != NULL) {
		span->peer = twi_op_span_peer(rp->peer);
		span->lane = (uint8_t)rp->peer->lane->ops->id;
	}
	span->name = twi_tag_name(method);
}

void twi_rpc_span(struct twi_rpc_peer *rp, const char *method, struct twi_span *span)
{
	struct twi_diag *diag = rp->rpc->engine->diag;
	/* The low bits of an id are a row of a table, which many calls use in turn. */
	uint64_t number = twi_hash_spread(span->id) >> 32;

	twi_assert_held(rp->engine);
	if (span->status >= 0 && !twi_span_chosen(diag, span->bytes, number)) {
		twi_count(diag, TWI_C_spans_sampled_out, 1);
		return;
	}
	name_sides(rp, method, span);
	twi_span_record(diag, span);
}

static void call_begun(const struct twi_list *link, struct twi_span *span)
{
	const struct twi_call *call = twi_container_of(link, const struct twi_call, link);

	*span = (struct twi_span){
		.start_ns = call->op->start_ns,
		.id = call->id,
		.bytes = call->wish.request_bytes,
		.queue_ns = twi_span_between(call->op->start_ns, call->out.sent_ns),
		.kind = TWI_SPAN_CALL,
		.lane = TWI_SPAN_NO_LANE,
	};
	name_sides(call->rp, call->wish.name, span);
}

static void serve_begun(const struct twi_list *link, struct twi_span *span)
{
	const struct tow_call_in *in = twi_container_of(link, const struct tow_call_in, link);

	*span = (struct twi_span){
		.start_ns = in->arrived_ns,
		.id = in->id,
		.bytes = in->bytes,
		.kind = TWI_SPAN_SERVE,
		.lane = TWI_SPAN_NO_LANE,
	};
	name_sides(in->rp, in->name, span);
}

/* Writes spans of one list of one peer. Returns the new count. */
static size_t list_begun(const struct twi_list *list,
			 void (*fill)(const struct twi_list *link, struct twi_span *span),
			 struct twi_span *out, size_t room, size_t count)
{
	for (const struct twi_list *pos = list->next; pos != list; pos = pos->next, count++) {
		if (count < room)
			fill(pos, &out[count]);
	}
	return count;
}

size_t twi_rpc_begun(const struct twi_engine *engine, struct twi_span *out, size_t room,
		     size_t count)
{
	const struct twi_rpc *rpc = engine->rpc;

	twi_assert_held(engine);
	if (rpc == NULL)
		return count;
	for (const struct twi_list *pos = rpc->peers.next; pos != &rpc->peers; pos = pos->next) {
		const struct twi_rpc_peer *rp = twi_container_of(pos, struct twi_rpc_peer, link);

		count = list_begun(&rp->queued, call_begun, out, room, count);
		count = list_begun(&rp->active, call_begun, out, room, count);
		count = list_begun(&rp->served, serve_begun, out, room, count);
	}
	return count;
}
