/*
 * rpc_serve.c - the server's side of a call.
 *
 *	FREE -> RECEIVING -> RUNNING -> REPLYING -> ENDED -> FREE
 *	  \------------------/ (inline)
 *
 *	RECEIVING  the request's body is being fetched into the pool
 *	RUNNING    the handler has the call; only tow_reply_start ends this
 *	REPLYING   answered; waits for its stream, or until the answer was sent
 *	ENDED      no answer is to be sent any more; a GIVE_UP may be due
 */
#include <string.h>

#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/op/claim.h"
#include "transport/op/op_options.h"
#include "transport/op/op_span.h"
#include "transport/rpc/rpc.h"
#include "transport/rpc/rpc_failure.h"
#include "transport/rpc/rpc_records.h"

#define LONG_HANDLER_NS 50000u

/* Sends the refusals that are due, one after the other. */
void twi_serve_refusals(struct twi_rpc_peer *rp)
{
	twi_assert_held(rp->engine);
	while (rp->refused_count > 0 && rp->dead >= 0 && rp->ready &&
	       !twi_parcel_busy(&rp->spare)) {
		const struct twi_refused *refused = &rp->refused[rp->refused_head];
		struct twi_rpc_head head = { .type = TWI_RPC_RESPONSE, .id = refused->id };
		char text[TOW_CALL_TEXT_MAX];

		head.status = twi_refused_text(refused, text);

		rp->refused_head = (rp->refused_head + 1) % TOW_CALL_WINDOW;
		rp->refused_count--;
		if (twi_parcel_send(&rp->spare, rp, &head, text, strlen(text), TWI_SITE_NONE) < 0)
			return;
	}
}

/* A peer that keeps to its window never has more refusals due than the window allows. */
static void refuse_request(struct twi_rpc_peer *rp, const struct twi_refused *refused)
{
	rp->rpc->refused++;
	if (rp->refused_count == TOW_CALL_WINDOW) {
		twi_rpc_broken(rp, "it has more calls in flight than the window allows");
		return;
	}
	rp->refused[(rp->refused_head + rp->refused_count++) % TOW_CALL_WINDOW] = *refused;
	twi_serve_refusals(rp);
}

struct tow_call_in *twi_serve_find(struct twi_rpc_peer *rp, uint64_t id)
{
	twi_assert_held(rp->engine);
	for (struct twi_list *pos = rp->served.next; pos != &rp->served; pos = pos->next) {
		struct tow_call_in *in = twi_container_of(pos, struct tow_call_in, link);

		if (in->id == id)
			return in;
	}
	return NULL;
}

static struct twi_rpc_method *method_of(const struct tow_call_in *in)
{
	struct twi_rpc_method *method = &in->rpc->methods[in->method];

	return method->hash != 0 && method->generation == in->method_generation ? method : NULL;
}

static void free_in(struct tow_call_in *in)
{
	struct twi_rpc_method *method = method_of(in);
	struct twi_rpc_peer *rp = in->rp;

	if (method != NULL) {
		method->in_service--;
		method->held_bytes -= in->held;
		rp->in_service[in->method]--;
	}
	rp->serving--;
	if (in->slot != NULL)
		twi_rpc_slot_release(in->slot);
	twi_view_drop(&in->body.op);
	in->slot = NULL;
	in->stream = NULL;
	in->state = TWI_SERVE_FREE;
	twi_list_remove(&in->link);
	twi_list_push_front(&in->rpc->ins, &in->link);
	rp->holds--;
	twi_rpc_peer_settle(rp);
}

void twi_serve_settle(struct tow_call_in *in)
{
	struct twi_rpc_head head = { .type = TWI_RPC_GIVE_UP, .id = in->id };

	twi_assert_held(in->rpc->engine);
	if (in->state != TWI_SERVE_ENDED || twi_parcel_busy(&in->out) || in->body.busy)
		return;
	if (in->give_up_due) {
		in->give_up_due = false;
		if (twi_parcel_send(&in->out, in->rp, &head, NULL, 0, TWI_SITE_NONE) == TOW_OK)
			return;
	}
	if (in->stream != NULL && !twi_stream_release(in->stream))
		return;
	free_in(in);
}

static void finish_reply(struct tow_call_in *in, int status)
{
	struct tow_op *reply = in->reply;

	in->reply = NULL;
	in->state = TWI_SERVE_ENDED;
	if (in->stream != NULL)
		twi_stream_fail(in->stream, status == TOW_OK ? TOW_ECLOSED : status);
	if (reply != NULL)
		twi_op_complete(reply, status, status == TOW_OK ? in->reply_bytes : 0);
	twi_serve_settle(in);
}

static void on_replied(struct twi_parcel *parcel)
{
	struct tow_call_in *in = parcel->owner;
	int status = parcel->status;

	if (status < 0 && in->over != 0)
		status = in->over;
	if (in->state == TWI_SERVE_REPLYING)
		finish_reply(in, status == TOW_ETRUNCATED ? TOW_ECANCELED : status);
	else
		twi_serve_settle(in);
}

static void run_handler(struct tow_call_in *in)
{
	in->state = TWI_SERVE_RUNNING;
	in->begun_ns = twi_engine_clock(in->rpc->engine);
	in->handler(in, in->user); /* after this the call may be gone */
}

static void on_request(struct tow_op *op, const struct tow_result *result)
{
	struct tow_call_in *in = op->user;
	uint64_t fetched_ns;

	in->body.busy = false;
	if (in->state != TWI_SERVE_RECEIVING) { /* it was canceled */
		twi_serve_settle(in);
		return;
	}
	fetched_ns = op->start_ns + op->latency_ns;
	/* Data that arrives during an absence lies here unread. It may be the body, or the message
	 * that the client must answer before it sends the body. */
	in->unread_ns += twi_min(twi_engine_absent(in->rpc->engine, fetched_ns) - in->absent_ns,
				 fetched_ns - twi_min(fetched_ns, in->arrived_ns));
	in->arrived_ns = fetched_ns;
	in->request = op->data;
	if (result->status >= 0 && result->bytes == in->bytes) {
		run_handler(in);
		return;
	}
	in->state = TWI_SERVE_ENDED;
	if (in->rp->dead >= 0 && in->rp->peer != NULL)
		refuse_request(in->rp,
			       &(struct twi_refused){ .id = in->id,
						      .why = result->status == TOW_EEXHAUSTED
								     ? TWI_REFUSAL_POOL
								     : TWI_REFUSAL_BROKEN,
						      .have = in->bytes });
	twi_serve_settle(in);
}

static void fetch_body(struct tow_call_in *in, uint64_t tag)
{
	const struct twi_message message = { .kind = TWI_OP_RECV,
					     .view = true,
					     /* if the pool is full, the client is informed */
					     .impatient = true,
					     .space = TWI_SPACE_RPC,
					     .bytes = in->bytes,
					     .tag = tag };

	in->state = TWI_SERVE_RECEIVING;
	if (twi_rpc_io_start(&in->body, in->rp->peer, &message, on_request, in) < 0) {
		in->state = TWI_SERVE_ENDED;
		twi_serve_settle(in);
	}
}

static bool refused_as(struct twi_refused *out, enum twi_rpc_refusal why, uint64_t have,
		       uint64_t limit)
{
	out->why = why;
	out->have = have;
	out->limit = limit;
	return true;
}

/* Whether a request cannot be taken; *out says why. */
static bool is_refused(struct twi_rpc_peer *rp, const struct twi_rpc_method *method,
		       const struct twi_rpc_head *head, struct twi_refused *out)
{
	const struct tow_method_options *limits = method == NULL ? NULL : &method->options;
	uint64_t held = head->tag != 0 ? head->bytes : 0;
	uint32_t of_peer;

	if (method == NULL)
		return refused_as(out, TWI_REFUSAL_METHOD, 0, 0);
	if (head->a == 0)
		return refused_as(out, TWI_REFUSAL_LATE, 0, 0);
	if (head->bytes > limits->request_bytes_max)
		return refused_as(out, TWI_REFUSAL_TOO_LONG, head->bytes,
				  limits->request_bytes_max);
	if (rp->serving >= TOW_CALL_WINDOW || twi_list_empty(&rp->rpc->ins) ||
	    (head->inline_bytes > 0 && !twi_rpc_may_keep(rp)) ||
	    ((head->flags & TWI_RPC_STREAM) != 0 && twi_list_empty(&rp->rpc->streams)))
		return refused_as(out, TWI_REFUSAL_FULL, rp->serving, 0);
	if (limits->in_service != 0 && method->in_service >= limits->in_service)
		return refused_as(out, TWI_REFUSAL_METHOD_FULL, method->in_service,
				  limits->in_service);
	of_peer = rp->in_service[method - rp->rpc->methods];
	if (limits->in_service_peer != 0 && of_peer >= limits->in_service_peer)
		return refused_as(out, TWI_REFUSAL_METHOD_FULL, of_peer, limits->in_service_peer);
	if (held > limits->held_bytes_max || method->held_bytes > limits->held_bytes_max - held)
		return refused_as(out, TWI_REFUSAL_HELD, method->held_bytes + held,
				  limits->held_bytes_max);
	return false;
}

static struct tow_call_in *take_record(struct twi_rpc_peer *rp, struct twi_rpc_method *method,
				       const struct twi_rpc_head *head,
				       const struct twi_rpc_slot *slot)
{
	uint64_t arrived_ns = slot->arrived_ns;
	struct tow_call_in *in =
		twi_container_of(twi_list_first(&rp->rpc->ins), struct tow_call_in, link);

	twi_list_remove(&in->link);
	twi_list_push_back(&rp->served, &in->link);
	rp->holds++;
	rp->serving++;
	rp->in_service[method - rp->rpc->methods]++;
	method->in_service++;
	in->rp = rp;
	in->id = head->id;
	in->method = (unsigned)(method - rp->rpc->methods);
	in->method_generation = method->generation;
	in->hash = method->hash;
	twi_rpc_name_set(in->name, method->name);
	in->handler = method->handler;
	in->user = method->user;
	in->slot = NULL;
	in->request = NULL;
	in->bytes = head->bytes;
	in->held = head->tag != 0 ? head->bytes : 0;
	method->held_bytes += in->held;
	in->arrived_ns = arrived_ns;
	in->unread_ns = slot->unread_ns;
	in->absent_ns = twi_engine_absent(rp->engine, arrived_ns);
	in->deadline_ns = head->a < UINT64_MAX - arrived_ns ? arrived_ns + head->a : UINT64_MAX;
	in->give_up_due = in->reply_waits = false;
	in->over = 0;
	in->reply = NULL;
	in->out.done = on_replied;
	in->out.owner = in;
	in->stream = NULL;
	atomic_store_explicit(&in->canceled, false, memory_order_relaxed);
	atomic_store_explicit(&in->peer, rp->peer, memory_order_relaxed);
	if ((head->flags & TWI_RPC_STREAM) != 0)
		in->stream = twi_stream_acquire(rp, head->id, NULL, in);
	return in;
}

bool twi_serve_request(struct twi_rpc_peer *rp, struct twi_rpc_slot *slot,
		       const struct twi_rpc_head *head)
{
	struct twi_rpc_method *method = twi_rpc_method_find(rp->rpc, head->method);
	struct twi_refused refused = { .id = head->id };
	struct tow_call_in *in;

	twi_assert_held(rp->engine);
	if (rp->dead < 0) /* nobody would get the answer */
		return false;
	if (is_refused(rp, method, head, &refused)) {
		refuse_request(rp, &refused);
		return false;
	}
	in = take_record(rp, method, head, slot);
	if (head->tag != 0) {
		fetch_body(in, head->tag);
		return false;
	}
	if (head->bytes > 0) {
		in->slot = slot;
		in->request = slot->data + TWI_RPC_HEAD_BYTES;
	}
	run_handler(in);
	return head->bytes > 0;
}

static void set_canceled(struct tow_call_in *in)
{
	atomic_store_explicit(&in->canceled, true, memory_order_relaxed);
}

/* The client has canceled the call, or cannot be reached. */
static void abandon_call(struct tow_call_in *in, int status)
{
	set_canceled(in);
	switch (in->state) {
	case TWI_SERVE_RECEIVING:
		in->state = TWI_SERVE_ENDED;
		twi_rpc_io_abort(&in->body);
		if (in->stream != NULL)
			twi_stream_fail(in->stream, status);
		twi_serve_settle(in);
		break;
	case TWI_SERVE_RUNNING:
		if (in->stream != NULL)
			twi_stream_fail(in->stream, status);
		break;
	case TWI_SERVE_REPLYING:
		if (!twi_parcel_abort(&in->out)) {
			finish_reply(in, status);
			break;
		}
		if (in->over == 0)
			in->over = status;
		if (in->reply != NULL)
			twi_op_unwatch(in->reply);
		break;
	default:
		break;
	}
}

void twi_serve_canceled(struct twi_rpc_peer *rp, uint64_t id)
{
	struct tow_call_in *in = twi_serve_find(rp, id);

	twi_assert_held(rp->engine);
	if (in != NULL)
		abandon_call(in, TOW_ECANCELED);
}

void twi_serve_lost(struct tow_call_in *in, int status)
{
	twi_assert_held(in->rpc->engine);
	abandon_call(in, status);
}

void twi_serve_let_go(struct tow_call_in *in)
{
	twi_assert_held(in->rpc->engine);
	if (in->state == TWI_SERVE_REPLYING && in->over != 0)
		finish_reply(in, in->over);
}

void twi_serve_break(struct tow_call_in *in, int status)
{
	struct twi_rpc_head head = { .type = TWI_RPC_GIVE_UP, .id = in->id };

	twi_assert_held(in->rpc->engine);
	if (in->state == TWI_SERVE_REPLYING) {
		in->give_up_due = true;
		abandon_call(in, status);
	} else if (in->state == TWI_SERVE_RUNNING &&
		   !atomic_load_explicit(&in->canceled, memory_order_relaxed)) {
		twi_parcel_send(&in->out, in->rp, &head, NULL, 0, TWI_SITE_NONE);
		abandon_call(in, status);
	}
}

static void abort_reply(struct tow_op *op, int status)
{
	twi_serve_break(op->owner, status);
}

static const struct twi_op_ops reply_ops = {
	.kind = TWI_OP_CALL, .noun = "reply", .span = TWI_SPAN_CALL, .abort = abort_reply
};

/* Records the parts of a call's latency that this side knows. */
static void record_call(struct tow_call_in *in)
{
	uint64_t parts[TWI_RPC_PARTS];

	for (unsigned i = 0; i < TWI_RPC_PARTS; i++)
		parts[i] = UINT64_MAX;
	parts[TWI_LATENCY_MATCH] = in->begun_ns - in->arrived_ns;
	parts[TWI_LATENCY_SERVE] = in->posted_ns - in->begun_ns;
	parts[TWI_LATENCY_TOTAL] = in->posted_ns - in->arrived_ns;
	twi_rpc_stats_record(in->rp, in->hash, in->name, false, in->code != 0, parts);
}

static void record_span(const struct tow_call_in *in)
{
	struct twi_span span = {
		.start_ns = in->arrived_ns,
		.end_ns = in->posted_ns,
		.id = in->id,
		.bytes = in->bytes + in->reply_bytes,
		.queue_ns = twi_span_between(in->arrived_ns, in->begun_ns),
		.match_ns = twi_span_between(in->arrived_ns, in->begun_ns),
		.kind = TWI_SPAN_SERVE,
		.lane = TWI_SPAN_NO_LANE,
		.status = in->code == 0 ? TOW_OK : TOW_EREMOTE,
	};

	twi_rpc_span(in->rp, in->name, &span);
}

static void send_reply(struct tow_call_in *in)
{
	struct twi_rpc_head head = { .type = TWI_RPC_RESPONSE,
				     .id = in->id,
				     .status = in->code == 0 ? TOW_OK : TOW_EREMOTE,
				     .code = in->code,
				     .a = in->arrived_ns,
				     .b = in->begun_ns - in->arrived_ns,
				     .c = in->posted_ns - in->begun_ns };
	int status;

	if (in->rp->peer != NULL && twi_rpc_tells_unread(in->rp->peer))
		head.unread = twi_rpc_unread_put(in->unread_ns);

	in->reply_waits = false;
	/* Handlers that run next could delay the reply: it is pushed after a long handler. */
	if (in->rpc->engine->in_callback && in->posted_ns - in->begun_ns >= LONG_HANDLER_NS)
		in->rpc->engine->away.push_due = true;
	status = twi_parcel_send(&in->out, in->rp, &head, in->data, in->reply_bytes,
				 in->reply->site);
	if (status < 0)
		finish_reply(in, status);
}

void twi_serve_drained(struct tow_call_in *in)
{
	twi_assert_held(in->rpc->engine);
	if (in->state == TWI_SERVE_REPLYING && in->reply_waits)
		send_reply(in);
}

static void reply_op(struct tow_call_in *in, struct tow_op *op)
{
	in->state = TWI_SERVE_REPLYING;
	in->posted_ns = twi_engine_clock(in->rpc->engine);
	in->reply = op;
	in->out.lent = op->lent;
	op->owner = in;
	twi_op_to_peer(op, in->rp->peer);
	record_call(in);
	record_span(in);
	if (in->rp->dead < 0 || atomic_load_explicit(&in->canceled, memory_order_relaxed)) {
		finish_reply(in, in->rp->dead < 0 ? in->rp->dead : TOW_ECANCELED);
		return;
	}
	twi_op_watch(op);
	in->reply_waits = in->stream != NULL && !twi_stream_drained(in->stream);
	if (!in->reply_waits)
		send_reply(in);
	else
		in->data = twi_parcel_keep(&in->out, in->rpc, in->data, in->reply_bytes);
}

static int check_reply(struct tow_call_in *call, const void *data, uint64_t bytes,
		       const struct tow_op_options **options_io, struct tow_op_options *known)
{
	if (call == NULL || (data == NULL && bytes > 0))
		return twi_error(TOW_EINVAL, "tow_reply_start: an argument is NULL");
	if (bytes > TWI_RPC_BODY_MAX)
		return twi_error(TOW_EINVAL, "tow_reply_start: bytes is %llu",
				 (unsigned long long)bytes);
	if (twi_engine_forked(call->rpc->engine))
		return twi_error(TOW_EFORKED, "tow_reply_start: this process is a forked child");
	return twi_op_options_with(call->rpc->engine, "tow_reply_start", TOW_OP_LEND, options_io,
				   known);
}

TOW_PUBLIC int tow_reply_start(struct tow_call_in *call, int32_t code, const void *data,
			       uint64_t bytes, const struct tow_op_options *options,
			       struct tow_op **op_out)
{
	struct tow_op *op, *unused;
	struct tow_op_options known;
	struct twi_engine *engine;
	int status = check_reply(call, data, bytes, &options, &known);

	op_out = op_out == NULL ? &unused : op_out;
	*op_out = NULL;
	if (status < 0)
		return status;
	engine = call->rpc->engine;
	twi_engine_enter(engine);
	op = twi_op_acquire(engine, &reply_ops, options);
	if (op == NULL) {
		twi_engine_leave(engine);
		return TOW_EBUSY;
	}
	op->site = TWI_SITE_HERE;
	*op_out = op;
	twi_engine_bind_ring(engine);
	if (call->state != TWI_SERVE_RUNNING)
		status = twi_error(TOW_EINVAL, "tow_reply_start: the call has been answered");
	else if (call->rp->peer != NULL && code == 0)
		status = twi_claim_room(call->rp->peer, bytes);
	if (status == TOW_OK) {
		call->code = code;
		call->data = data;
		call->reply_bytes =
			code == 0 ? bytes : twi_min(bytes, (uint64_t)TOW_CALL_TEXT_MAX - 1);
		reply_op(call, op);
		if (op_out == &unused && !twi_op_is_queued(op))
			tow_op_release(op);
	} else {
		twi_op_discard(op);
		*op_out = NULL;
	}
	twi_engine_leave(engine);
	return status;
}

TOW_PUBLIC const void *tow_call_request(const struct tow_call_in *call, uint64_t *bytes_out)
{
	if (bytes_out != NULL)
		*bytes_out = call == NULL ? 0 : call->bytes;
	return call == NULL ? NULL : call->request;
}

TOW_PUBLIC struct tow_peer *tow_call_peer(const struct tow_call_in *call)
{
	return call == NULL ? NULL : atomic_load_explicit(&call->peer, memory_order_relaxed);
}

TOW_PUBLIC bool tow_call_canceled(const struct tow_call_in *call)
{
	return call == NULL || atomic_load_explicit(&call->canceled, memory_order_relaxed) ||
	       tow_call_remaining_ns(call) == 0;
}

TOW_PUBLIC uint64_t tow_call_remaining_ns(const struct tow_call_in *call)
{
	uint64_t now;

	if (call == NULL || atomic_load_explicit(&call->canceled, memory_order_relaxed))
		return 0;
	if (call->deadline_ns == UINT64_MAX)
		return TOW_FOREVER;
	now = twi_engine_clock(call->rpc->engine);
	return call->deadline_ns > now ? call->deadline_ns - now : 0;
}

TOW_PUBLIC struct tow_stream *tow_call_in_stream(struct tow_call_in *call)
{
	return call == NULL ? NULL : call->stream;
}
