/*
 * rpc_call.c - the client's side of a call.
 *
 *	FREE -> QUEUED -> SENT -----------> ENDED -> FREE   when its operation was released and
 *	                    \-> BODY -------/               nothing of it is under way any more
 *
 *	QUEUED  waits for OPEN, or for room in the peer's window
 *	BODY    the response has come; its body is being received
 *	ENDED   the operation is complete, or is when no lane has its memory; a CANCEL may be due
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/latency.h"
#include "transport/engine/engine.h"
#include "transport/op/op_span.h"
#include "transport/op/own_memory.h"
#include "transport/op/path.h"
#include "transport/rpc/rpc.h"
#include "transport/rpc/rpc_failure.h"
#include "transport/rpc/rpc_records.h"

#define INDEX_BITS 16

struct twi_call *twi_call_find(struct twi_rpc_peer *rp, uint64_t id)
{
	uint64_t index = id & ((1u << INDEX_BITS) - 1);
	struct twi_call *call = index < rp->rpc->records ? &rp->rpc->call_rows[index] : NULL;

	twi_assert_held(rp->engine);
	if (call == NULL || call->id != id || call->rp != rp || call->state == TWI_CALL_FREE)
		return NULL;
	return call;
}

static void free_call(struct twi_call *call)
{
	struct twi_rpc_peer *rp = call->rp;

	if (call->slot != NULL)
		twi_rpc_slot_release(call->slot);
	if (call->memory != NULL)
		twi_own_give(call->rpc->engine, call->memory);
	twi_view_drop(&call->in.op);
	call->slot = NULL;
	call->memory = NULL;
	call->stream = NULL;
	call->rp = NULL;
	call->state = TWI_CALL_FREE;
	twi_list_remove(&call->link);
	twi_list_push_front(&call->rpc->calls, &call->link);
	rp->holds--;
	twi_rpc_peer_settle(rp);
}

/* A server that has answered has no use for the request, of which it may still have a view. */
static bool has_request(const struct twi_call *call)
{
	return twi_rpc_io_held(&call->out.body) &&
	       !(call->answered && twi_rpc_io_viewed(&call->out.body));
}

/* Ends the operation of a call that is over, unless its request or response is still in use. */
static void complete_call(struct twi_call *call)
{
	if (!call->completing || twi_rpc_io_held(&call->in) || has_request(call))
		return;
	call->completing = false;
	if (call->why != NULL)
		twi_error(call->result.status, "%s", call->why);
	free(call->why);
	call->why = NULL;
	/* release: a thread that sees it reads `result` */
	atomic_store_explicit(&call->ended, true, memory_order_release);
	twi_op_complete(call->op, call->result.status, call->result.bytes);
}

void twi_call_settle(struct twi_call *call)
{
	struct twi_rpc_head head = { .type = TWI_RPC_CANCEL, .id = call->id };

	twi_assert_held(call->rpc->engine);
	complete_call(call);
	if (call->state != TWI_CALL_ENDED || twi_parcel_busy(&call->out) || call->in.busy)
		return;
	if (call->cancel_due) {
		call->cancel_due = false;
		if (twi_parcel_send(&call->out, call->rp, &head, NULL, 0, TWI_SITE_NONE) == TOW_OK)
			return;
	}
	if (call->op != NULL || call->out.body.busy)
		return;
	if (call->stream != NULL && !twi_stream_release(call->stream))
		return;
	free_call(call);
}

void twi_calls_let_go(struct twi_rpc_peer *rp)
{
	twi_assert_held(rp->engine);
	for (uint32_t i = 0; i < rp->rpc->records; i++) {
		struct twi_call *call = &rp->rpc->call_rows[i];

		if (call->rp == rp && call->completing) {
			complete_call(call);
			twi_assert(!call->completing);
		}
	}
}

/* The user has released the operation. */
static void on_release(struct tow_op *op)
{
	struct twi_call *call = op->owner;

	if (call == NULL) /* the call could not begin */
		return;
	call->op = NULL;
	if (call->stream != NULL)
		twi_stream_fail(call->stream, TOW_ECLOSED);
	twi_call_settle(call);
}

static uint64_t ns_between(uint64_t later, uint64_t earlier)
{
	return later > earlier ? later - earlier : 0;
}

/* Moves the time that the request lay unread at the server from wire_ns to server_queue_ns. */
static void part_wire(struct twi_call *call)
{
	struct tow_call_result *result = &call->result;
	const struct twi_rpc_way way = {
		.at_ns = call->arrived_ns,
		.bytes = call->wish.request_bytes + result->bytes,
		.wire_ns = result->wire_ns,
		.unread_ns = call->unread_ns,
		.request_ns = result->request_one_way_ns,
		.answer_ns = result->response_one_way_ns,
		.error_ns = result->one_way_error_ns,
	};

	result->server_queue_ns = twi_rpc_usual_wait(&call->rp->usual, &way);
	result->wire_ns -= result->server_queue_ns;
	if (result->one_way_error_ns != UINT64_MAX)
		result->request_one_way_ns -= (int64_t)result->server_queue_ns;
}

/* Computes the parts of the latency of a call that the server has answered. */
static void measure_call(struct twi_call *call, uint64_t posted_ns)
{
	struct tow_call_result *result = &call->result;
	uint64_t server, latest, sent = call->out.sent_ns;
	struct twi_clock_estimate clock;
	bool known;

	/*
	 * The server's times are limited to the time that has passed here. They can exceed it,
	 * since both sides stamp what a poll has found with a time before the poll.
	 */
	result->serve_ns = twi_min(result->serve_ns, result->total_ns);
	result->match_ns = twi_min(result->match_ns, result->total_ns - result->serve_ns);
	server = result->match_ns + result->serve_ns;

	/*
	 * A header that is too long for one frame completes only when the server has it. The answer
	 * may be here before. The header was sent, at the latest, when the server's time began.
	 */
	if (sent == 0)
		sent = posted_ns;
	latest = twi_max(posted_ns, ns_between(call->arrived_ns, server));
	known = sent <= latest;
	sent = twi_min(sent, latest);
	result->queue_ns = ns_between(sent, posted_ns);
	result->wire_ns = ns_between(call->arrived_ns - sent, server);
	if (call->rp->peer != NULL && twi_link_clock(call->rp->peer, &clock)) {
		result->request_one_way_ns = twi_clock_ours(&clock, call->there_ns) - (int64_t)sent;
		result->response_one_way_ns =
			(int64_t)call->arrived_ns - twi_clock_ours(&clock, call->there_ns + server);
		result->one_way_error_ns = clock.error_ns;
	}
	if (known)
		part_wire(call);
}

/* The server's queue time. TWI_LATENCY_UNKNOWN: the server does not report it. */
static uint64_t server_queue_of(const struct twi_call *call)
{
	bool tells = call->rp->peer != NULL && twi_rpc_tells_unread(call->rp->peer);

	return tells ? call->result.server_queue_ns : TWI_LATENCY_UNKNOWN;
}

/* Records the latency by lane, peer and size of both directions, for /v1/latency. */
static void record_latency(const struct twi_call *call, struct tow_peer *peer)
{
	const struct tow_call_result *result = &call->result;
	const struct twi_latency_reading reading = {
		.kind = TWI_LATENCY_CALLS,
		.lane = peer->lane->ops->id,
		.id = call->id,
		.bytes = call->wish.request_bytes + result->bytes,
		.end_ns = call->arrived_ns,
		.parts_ns = { [TWI_LATENCY_TOTAL] = result->total_ns,
			      [TWI_LATENCY_QUEUE] = result->queue_ns,
			      [TWI_LATENCY_SERVER_QUEUE] = server_queue_of(call),
			      [TWI_LATENCY_WIRE] = result->wire_ns,
			      [TWI_LATENCY_MATCH] = result->match_ns,
			      [TWI_LATENCY_SERVE] = result->serve_ns },
	};

	twi_latency_note(call->rp->engine->diag, &peer->latency_row, peer->address, &reading);
	peer->called.total_ns += result->total_ns;
	peer->called.wire_ns += result->wire_ns;
}

static void record_call(struct twi_call *call, bool answered)
{
	const struct tow_call_result *result = &call->result;
	uint64_t parts[TWI_RPC_PARTS];

	for (unsigned i = 0; i < TWI_RPC_PARTS; i++)
		parts[i] = UINT64_MAX;
	if (answered) {
		parts[TWI_LATENCY_QUEUE] = result->queue_ns;
		parts[TWI_LATENCY_WIRE] = result->wire_ns;
		parts[TWI_LATENCY_SERVER_QUEUE] = server_queue_of(call);
		parts[TWI_LATENCY_MATCH] = result->match_ns;
		parts[TWI_LATENCY_SERVE] = result->serve_ns;
		parts[TWI_LATENCY_TOTAL] = result->total_ns;
	}
	if (result->one_way_error_ns != UINT64_MAX) {
		parts[TWI_RPC_THERE] = (uint64_t)twi_max(result->request_one_way_ns, (int64_t)0);
		parts[TWI_RPC_BACK] = (uint64_t)twi_max(result->response_one_way_ns, (int64_t)0);
	}
	twi_rpc_stats_record(call->rp, call->wish.hash, call->wish.name, true, result->status < 0,
			     parts);
	if (answered && call->rp->peer != NULL)
		record_latency(call, call->rp->peer);
}

static void record_span(const struct twi_call *call, int status)
{
	const struct tow_call_result *result = &call->result;
	struct twi_span span = {
		.start_ns = call->op->start_ns,
		.end_ns = call->arrived_ns,
		.id = call->id,
		.bytes = call->wish.request_bytes + result->bytes,
		.server_queue_ns = result->server_queue_ns,
		.queue_ns = twi_span_ns(result->queue_ns),
		.wire_ns = twi_span_ns(result->wire_ns),
		.match_ns = twi_span_ns(result->match_ns),
		.kind = TWI_SPAN_CALL,
		.lane = TWI_SPAN_NO_LANE,
		.status = (int8_t)status,
	};

	twi_rpc_span(call->rp, call->wish.name, &span);
}

void twi_call_end(struct twi_call *call, int status, bool tell)
{
	struct twi_rpc_peer *rp = call->rp;
	struct tow_op *op = call->op;
	bool sent = call->state != TWI_CALL_QUEUED, answered = status == TOW_OK, held;

	twi_assert_held(call->rpc->engine);
	if (call->state == TWI_CALL_ENDED)
		return;
	if (status < 0)
		twi_call_explain(call, status); /* before the state changes */
	rp->holds++;
	call->state = TWI_CALL_ENDED;
	call->cancel_due = tell && sent;
	twi_list_remove(&call->link);
	rp->in_flight -= sent;
	held = twi_rpc_io_abort(&call->in);
	held = twi_parcel_abort(&call->out) || held;
	if (held)
		twi_op_unwatch(op); /* a lane ends it */
	if (held && status < 0)
		call->why = strdup(tow_error_message());
	if (call->stream != NULL && status < 0)
		twi_stream_fail(call->stream, status);
	else if (call->stream != NULL)
		twi_stream_close(call->stream);
	call->result.status = status;
	if (call->arrived_ns == 0)
		call->arrived_ns = twi_engine_clock(rp->engine);
	call->result.total_ns = ns_between(call->arrived_ns, op->start_ns);
	if (answered || status == TOW_EREMOTE)
		measure_call(call, op->start_ns);
	record_call(call, answered || status == TOW_EREMOTE);
	record_span(call, status);
	op->seq = call->id; /* the number by which waits name it */
	op->data = (void *)(uintptr_t)call->result.data;
	call->completing = true;
	twi_call_settle(call);
	twi_call_pump(rp);
	rp->holds--;
	twi_rpc_peer_settle(rp);
}

static void abort_call(struct tow_op *op, int status)
{
	twi_call_end(op->owner, status, true);
}

const struct twi_op_ops twi_call_ops = { .kind = TWI_OP_CALL,
					 .noun = "call",
					 .span = TWI_SPAN_CALL,
					 .wait_kind = TWI_WAITED_CALL,
					 .abort = abort_call,
					 .release = on_release };

uint64_t twi_rpc_call_id(const struct tow_op *op)
{
	const struct twi_call *call = op->owner;

	twi_assert_held(op->engine);
	return call != NULL ? call->id : 0;
}

/* The request, or a CANCEL, has been sent, or has failed. */
static void on_sent(struct twi_parcel *parcel)
{
	struct twi_call *call = parcel->owner;
	int status = parcel->status;

	/* If the server has refused or dropped the body, its answer says why. */
	if (call->state == TWI_CALL_SENT && status < 0 && status != TOW_ECANCELED &&
	    status != TOW_ETRUNCATED)
		twi_call_end(call, status, true);
	else
		twi_call_settle(call);
}

static void send_call(struct twi_call *call)
{
	uint64_t now = twi_engine_clock(call->rpc->engine), deadline = call->op->deadline_ns;
	bool promised = (call->wish.flags & TOW_CALL_LEND) != 0;
	struct twi_rpc_head head = {
		.type = TWI_RPC_REQUEST,
		.flags = call->stream != NULL ? TWI_RPC_STREAM : 0,
		.id = call->id,
		.method = call->wish.hash,
		.a = deadline == UINT64_MAX ? UINT64_MAX : ns_between(deadline, now),
	};
	int status;

	call->state = TWI_CALL_SENT;
	/*
	 * Without a deadline, the call can wait until the server does not use the request any more:
	 * until its answer, or if it is canceled, until no view shows the request.
	 */
	call->out.awaits_view = !promised && deadline == UINT64_MAX;
	call->out.lent = promised || deadline == UINT64_MAX;
	call->rp->in_flight++;
	twi_list_push_back(&call->rp->active, &call->link);
	status = twi_parcel_send(&call->out, call->rp, &head, call->wish.request,
				 call->wish.request_bytes, call->wish.site);
	if (status < 0)
		twi_call_end(call, status, false);
	else if (call->stream != NULL)
		twi_stream_pump_out(call->stream);
}

void twi_call_pump(struct twi_rpc_peer *rp)
{
	struct twi_list *entry;

	twi_assert_held(rp->engine);
	while (rp->ready && rp->dead >= 0 && rp->in_flight < rp->window &&
	       (entry = twi_list_first(&rp->queued)) != NULL) {
		twi_list_remove(entry);
		send_call(twi_container_of(entry, struct twi_call, link));
	}
}

static void say_text(struct twi_call *call, const char *text)
{
	snprintf(call->result.text, sizeof(call->result.text), "%s", text);
}

void twi_call_given_up(struct twi_rpc_peer *rp, uint64_t id)
{
	struct twi_call *call = twi_call_find(rp, id);

	twi_assert_held(rp->engine);
	if (call == NULL || call->state == TWI_CALL_ENDED)
		return;
	say_text(call, "the server has given the call up");
	twi_call_end(call, TOW_ECANCELED, false);
}

static void on_body(struct tow_op *op, const struct tow_result *result)
{
	struct twi_call *call = op->user;

	call->in.busy = false;
	if (call->state != TWI_CALL_BODY) {
		twi_call_settle(call);
		return;
	}
	call->arrived_ns = op->start_ns + op->latency_ns;
	call->result.data = op->data;
	if (result->status >= 0 && result->bytes != call->result.bytes) {
		twi_rpc_broken(call->rp, "a body has another length than its header said");
		twi_call_end(call, TOW_EPROTOCOL, true);
		return;
	}
	if (result->status == TOW_ECANCELED)
		say_text(call, "the server has taken its response back");
	twi_call_end(call, result->status >= 0 ? TOW_OK : result->status, result->status < 0);
}

static void fetch_response(struct twi_call *call, const struct twi_rpc_head *head)
{
	const struct twi_message message = {
		.kind = TWI_OP_RECV,
		.view = (call->wish.flags & TOW_CALL_VIEW) != 0,
		/* The server holds the request until the answer is taken:
		   calls that waited for room could wait for each other. */
		.impatient = true,
		.space = TWI_SPACE_RPC,
		.data = call->wish.response,
		.bytes = head->bytes,
		.tag = head->tag,
		.site = call->wish.site
	};
	int status;

	call->state = TWI_CALL_BODY;
	status = twi_rpc_io_start(&call->in, call->rp->peer, &message, on_body, call);
	if (status < 0)
		twi_call_end(call, status, true);
}

/* Copies the server's text about a failure, with control characters replaced. */
static void take_text(struct twi_call *call, const uint8_t *text, uint64_t bytes)
{
	uint64_t n = twi_min(bytes, (uint64_t)TOW_CALL_TEXT_MAX - 1);

	for (uint64_t i = 0; i < n; i++)
		call->result.text[i] = (char)(text[i] < ' ' || text[i] == 0x7f ? '.' : text[i]);
	call->result.text[n] = '\0';
}

static bool known_failure(int status)
{
	return status == TOW_EREMOTE || status == TOW_ENOTSUP || status == TOW_EBUSY ||
	       status == TOW_EINVAL || status == TOW_EEXHAUSTED || status == TOW_EDEADLINE;
}

/* Takes a response that lies behind the header. True: the slot is kept. */
static bool take_inline(struct twi_call *call, struct twi_rpc_slot *slot, uint64_t bytes)
{
	const uint8_t *data = slot->data + TWI_RPC_HEAD_BYTES;
	bool keep = false;

	call->result.bytes = bytes;
	call->result.data = call->wish.response;
	if ((call->wish.flags & TOW_CALL_VIEW) == 0) {
		if (bytes <= call->wish.response_bytes)
			twi_path_copy_eager(call->rpc->engine, call->wish.response, data, bytes);
		twi_call_end(call, bytes <= call->wish.response_bytes ? TOW_OK : TOW_ETRUNCATED,
			     false);
		return false;
	}
	if (bytes == 0) {
		;
	} else if (twi_rpc_may_keep(call->rp)) {
		call->slot = slot;
		call->result.data = data;
		keep = true;
	} else {
		call->memory = twi_rpc_keep_copy(call->rp, data, bytes);
		call->result.data = call->memory;
		if (call->memory == NULL) {
			twi_call_end(call, TOW_EEXHAUSTED, false);
			return false;
		}
	}
	twi_call_end(call, TOW_OK, false);
	return keep;
}

bool twi_call_answered(struct twi_rpc_peer *rp, struct twi_rpc_slot *slot,
		       const struct twi_rpc_head *head, uint64_t arrived_ns)
{
	struct twi_call *call = twi_call_find(rp, head->id);

	twi_assert_held(rp->engine);
	if (call == NULL || call->state != TWI_CALL_SENT) {
		/* the call is over; the server takes a body back when CANCEL comes */
		rp->rpc->dropped++;
		return false;
	}
	call->answered = true;
	call->arrived_ns = arrived_ns;
	call->there_ns = head->a;
	call->unread_ns = twi_rpc_unread_get(head->unread);
	call->result.match_ns = twi_min(head->b, (uint64_t)INT64_MAX / 2);
	call->result.serve_ns = twi_min(head->c, (uint64_t)INT64_MAX / 2);
	if (head->status < 0) {
		bool known = known_failure(head->status);

		call->result.code = head->code;
		take_text(call, slot->data + TWI_RPC_HEAD_BYTES, head->inline_bytes);
		if (!known || head->tag != 0)
			twi_rpc_broken(rp, "it has an unknown failure code");
		twi_call_end(call, known ? head->status : TOW_EPROTOCOL, head->tag != 0);
		return false;
	}
	if (head->tag == 0)
		return take_inline(call, slot, head->bytes);
	call->result.bytes = head->bytes;
	if ((call->wish.flags & TOW_CALL_VIEW) == 0 && head->bytes > call->wish.response_bytes) {
		twi_call_end(call, TOW_ETRUNCATED, true);
		return false;
	}
	fetch_response(call, head);
	return false;
}

static void set_up(struct twi_call *call, struct twi_rpc_peer *rp, struct tow_op *op)
{
	call->rp = rp;
	rp->holds++;
	call->id = (((call->id >> INDEX_BITS) + 1) << INDEX_BITS) | call->index;
	call->op = op;
	call->out.done = on_sent;
	call->out.owner = call;
	call->out.sent_ns = 0;
	call->cancel_due = call->answered = false;
	call->arrived_ns = call->there_ns = call->unread_ns = 0;
	call->result = (struct tow_call_result){ .size = sizeof(call->result),
						 .one_way_error_ns = UINT64_MAX };
	atomic_store_explicit(&call->ended, false, memory_order_relaxed);
	call->state = TWI_CALL_QUEUED;
	op->owner = call;
	twi_op_to_peer(op, rp->peer);
}

static int take_record(struct tow_peer *peer, uint32_t flags, struct twi_call **out)
{
	struct twi_rpc_peer *rp = twi_rpc_peer_of(peer);
	struct twi_list *entry;
	struct twi_call *call;

	if (rp == NULL)
		return peer->link_state == NULL ? TOW_ENOTSUP : TOW_ENOMEM;
	entry = twi_list_first(&rp->rpc->calls);
	if (entry == NULL)
		return twi_error(TOW_EBUSY, "all %u calls are in use; release finished ones",
				 rp->rpc->records);
	call = twi_container_of(entry, struct twi_call, link);
	call->rp = rp;
	call->stream = NULL;
	if ((flags & TOW_CALL_STREAM) != 0) {
		call->stream = twi_stream_acquire(rp, 0, call, NULL);
		if (call->stream == NULL)
			return twi_error(TOW_EBUSY, "all %u streams are in use", TWI_RPC_STREAMS);
	}
	twi_list_remove(entry);
	*out = call;
	return TOW_OK;
}

int twi_call_begin(struct tow_peer *peer, const struct twi_call_wish *wish, struct tow_op *op)
{
	struct twi_call *call = NULL;
	int status = take_record(peer, wish->flags, &call);

	twi_assert_held(peer->engine);
	if (status < 0)
		return status;
	set_up(call, call->rp, op);
	call->wish = *wish;
	if (call->stream != NULL)
		call->stream->id = call->id;
	twi_op_watch(op);
	twi_list_push_back(&call->rp->queued, &call->link);
	if (call->rp->dead < 0)
		twi_call_end(call, call->rp->dead, false);
	else
		twi_call_pump(call->rp);
	if (call->state == TWI_CALL_QUEUED)
		twi_rpc_reopen(call->rp);
	if (call->state == TWI_CALL_QUEUED) /* the caller may reuse a small request now */
		call->wish.request =
			twi_parcel_keep(&call->out, call->rpc, wish->request, wish->request_bytes);
	return TOW_OK;
}
