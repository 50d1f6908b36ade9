/*
 * message.c - starts sends and receives, for users and for the library itself: it checks the
 * arguments and takes the engine, and the lane does the rest.
 */
#include "transport/op/message.h"

#include "diag/base/error.h"
#include "diag/record/span.h"
#include "transport/engine/engine.h"
#include "transport/op/call.h"
#include "transport/op/channel.h"
#include "transport/op/claim.h"
#include "transport/op/endpoint.h"
#include "transport/op/instant.h"
#include "transport/op/op.h"
#include "transport/op/op_options.h"
#include "transport/op/op_table.h"
#include "transport/op/outbound.h"
#include "transport/op/parts.h"
#include "transport/wire/frame.h"

bool twi_message_abort(struct tow_op *op, int status, bool force)
{
	struct tow_peer *peer = op->peer;
	bool roomless = op->roomless, ended;
	uint32_t context = op->match.context;
	uint64_t tag = op->tag;

	twi_assert_held(op->engine);
	twi_assert(op->stage != TWI_STAGE_COMPLETING); /* the peer may have gone since */
	if (twi_unlikely(peer == NULL)) {
		twi_message_end_any(op, status);
		return true;
	}
	ended = peer->lane->ops->abort(peer, op, status, force);
	if (twi_unlikely(roomless)) /* the next receive takes the message that had no room here */
		peer->lane->ops->look_again(peer, tag, context);
	return ended;
}

void twi_message_end_any(struct tow_op *op, int status)
{
	twi_assert_held(op->engine);
	twi_list_remove(&op->match.link);
	twi_list_remove(&op->seq_link);
	twi_claim_drop(op->engine, &op->claim);
	twi_op_complete(op, status, 0);
}

bool twi_message_is_over(struct tow_op *op, int status)
{
	if (op->stage != TWI_STAGE_COMPLETING && op->peer == NULL)
		twi_message_end_any(op, status);
	return op->stage == TWI_STAGE_COMPLETING;
}

/* After its deadline, an operation's payload is no longer touched. */
static void end_early(struct tow_op *op, int status)
{
	twi_message_abort(op, status, status == TOW_EDEADLINE);
}

const struct twi_op_ops twi_send_ops = { .kind = TWI_OP_SEND,
					 .noun = "send",
					 .span = TWI_SPAN_SEND,
					 .wait_kind = TWI_WAITED_SEND,
					 .abort = end_early };
const struct twi_op_ops twi_recv_ops = { .kind = TWI_OP_RECV,
					 .noun = "receive",
					 .span = TWI_SPAN_RECV,
					 .wait_kind = TWI_WAITED_RECV,
					 .abort = end_early };
const struct twi_op_ops twi_view_ops = { .kind = TWI_OP_RECV,
					 .noun = "receive",
					 .span = TWI_SPAN_RECV,
					 .wait_kind = TWI_WAITED_RECV,
					 .abort = end_early,
					 .release = twi_view_drop };

/*
 * The functions below are compiled once for each call that starts messages. In each of them kind,
 * space and view are constants, and the members of the description are in registers.
 */
#define PER_CALL_INLINE static inline __attribute__((always_inline))

PER_CALL_INLINE const struct twi_op_ops *ops_of(const struct twi_message *message)
{
	if (message->kind == TWI_OP_SEND)
		return &twi_send_ops;
	return message->view ? &twi_view_ops : &twi_recv_ops;
}

/* `mask` is that of tow_recv_match_start, or NULL. `parts` are those of a message, or NULL. */
PER_CALL_INLINE const char *call_of(const struct twi_message *message, const uint64_t *mask,
				    const struct twi_parts *parts)
{
	if (parts != NULL && message->kind == TWI_OP_SEND)
		return "tow_send_parts_start";
	if (mask != NULL || parts != NULL)
		return "tow_recv_match_start";
	return message->kind == TWI_OP_SEND ? "tow_send_start"
	       : message->view              ? "tow_recv_view_start"
					    : "tow_recv_start";
}

/* Says which argument is wrong, and why. */
static __attribute__((noinline, cold)) int refuse_message(const char *call, uint64_t bytes)
{
	if (bytes > TWI_WIRE_U63_MAX)
		return twi_error(TOW_EINVAL, "%s: bytes is %llu, the most is 2^63-1", call,
				 (unsigned long long)bytes);
	return twi_error(TOW_EINVAL, "%s: an argument is NULL", call);
}

/*
 * Checks the options of a message without a handle. With a queue, such a start always makes an
 * operation. Otherwise no thread could tell whether the message was over at once, in which case no
 * result would come through the queue.
 */
static __attribute__((noinline)) int check_no_handle(enum twi_op_kind kind, const char *call,
						     const struct tow_op_options **options_io,
						     struct tow_op_options *known)
{
	const struct tow_op_options *options = *options_io;

	if (options != NULL && options->queue != NULL) {
		*known = *options;
		known->flags &= ~(uint64_t)TOW_OP_AT_ONCE;
		*options_io = known;
		return TOW_OK;
	}
	if (kind == TWI_OP_RECV && (options == NULL || options->done == NULL))
		return twi_error(TOW_EINVAL,
				 "%s: op_out is NULL, and there is neither a callback nor a "
				 "queue: the received message could not be found",
				 call);
	return TOW_OK;
}

/* Brings *options_io to the library's size, in `known` if it has another one. */
PER_CALL_INLINE int check_arguments(struct twi_engine *engine, const struct twi_message *message,
				    const uint64_t *mask, const struct twi_parts *parts,
				    const struct tow_op_options **options_io,
				    struct tow_op_options *known, bool forget, bool of_peer)
{
	const uint64_t allowed = of_peer ? TWI_OP_ALLOW_CHANNEL : 0;
	const char *call = call_of(message, mask, parts);
	int status;

	if (parts == NULL &&
	    twi_unlikely((message->data == NULL && message->bytes > 0 && !message->view) ||
			 message->bytes > TWI_WIRE_U63_MAX))
		return refuse_message(call, message->data == NULL ? 0 : message->bytes);
	status = twi_call_check(engine, call);
	if (status == TOW_OK)
		status = twi_op_options_with(
			engine, call,
			(message->kind == TWI_OP_RECV ? TOW_OP_TRUNCATE : TOW_OP_LEND) | allowed,
			options_io, known);
	return status == TOW_OK && forget ? check_no_handle(message->kind, call, options_io, known)
					  : status;
}

PER_CALL_INLINE int check_message(const struct tow_peer *peer, const struct twi_message *message,
				  const uint64_t *mask, const struct twi_parts *parts,
				  const struct tow_op_options **options_io,
				  struct tow_op_options *known, bool forget)
{
	int status = TOW_OK;

	/* The library sends its own control messages also to a peer that is closing. */
	if (message->space == TWI_SPACE_USER)
		status = twi_handle_check(peer, TWI_HANDLE_PEER, call_of(message, mask, parts));
	if (twi_unlikely(status < 0))
		return status;
	return check_arguments(peer->engine, message, mask, parts, options_io, known, forget, true);
}

/*
 * Checks the channel that the options name. It must be open, and this peer's. If `number` is not 0,
 * the channel must have that number.
 */
static __attribute__((noinline)) int check_channel(const struct tow_peer *peer,
						   const struct tow_channel *channel,
						   uint16_t number, const char *call)
{
	int status = twi_handle_check(channel, TWI_HANDLE_CHANNEL, call);

	if (status == TOW_OK && channel->peer != peer)
		return twi_error(TOW_EINVAL, "%s: options->channel is another peer's", call);
	if (status == TOW_OK && number != 0 && number != channel->number)
		return twi_error(TOW_EINVAL,
				 "%s: match->channel is %u, but options->channel is channel %u: "
				 "set only one of them",
				 call, number, channel->number);
	return status;
}

/* Fills in the operation from its message. */
PER_CALL_INLINE void fill_op(struct tow_op *op, struct tow_peer *peer,
			     const struct twi_message *message, const uint64_t *mask,
			     struct twi_parts *parts, uint16_t channel)
{
	twi_op_to_peer(op, peer);
	op->data = message->data;
	op->bytes = message->bytes;
	op->tag = message->tag;
	if (mask != NULL) {
		op->match.wild = true;
		op->match.tag_mask = *mask;
		op->tag &= *mask;
	}
	op->space = message->space;
	op->channel = channel;
	if (twi_unlikely(channel != 0))
		twi_list_init(&op->on_channel);
	op->match.context = twi_context_of(message->space, channel);
	if (message->view) {
		op->view = TWI_VIEW_WHOLE;
		op->truncate = TWI_TRUNCATE_NEVER; /* it takes any length */
		op->impatient = message->impatient;
	}
	op->lent |= message->lent;
	op->awaits_view = message->awaits_view;
	op->site = message->site;
	op->span_parent = message->parent;
	if (parts != NULL)
		twi_parts_attach(op, parts);
}

/*
 * Whether a send is under way when the lane returns. Its clock is read after that (outbox.h), where
 * the reading costs the message nothing.
 */
PER_CALL_INLINE bool is_early(const struct tow_peer *peer, const struct twi_message *message,
			      const struct tow_op_options *options)
{
	return message->kind == TWI_OP_SEND && peer->lane->ops->memory_polled &&
	       (options == NULL || options->timeout_ns == TOW_FOREVER);
}

/* Gives the operation to the lane. TOW_OK, or the operation is discarded. The engine is held. */
PER_CALL_INLINE int start_op(struct tow_peer *peer, const struct twi_message *message,
			     struct tow_op *op, struct tow_op **op_out)
{
	int status = TOW_OK;

	if (message->kind == TWI_OP_SEND && message->space != TWI_SPACE_LINK)
		twi_peer_touch(peer, op->start_ns);
	if (message->kind == TWI_OP_SEND && message->op == NULL)
		status = twi_claim_room(peer, op->bytes);
	if (twi_unlikely(status < 0)) {
		twi_op_discard(op);
		return status;
	}
	op->forgotten = op_out == NULL;
	if (op_out != NULL)
		*op_out = op;
	else
		twi_op_forget(op);
	/* before the lane has it: a message that completes at once removes its deadline */
	if (twi_unlikely(op->deadline_ns != UINT64_MAX))
		twi_op_watch(op);
	if (message->kind == TWI_OP_SEND)
		peer->lane->ops->send(peer, op);
	else
		peer->lane->ops->recv(peer, op);
	if (message->bytes >= TWI_HANDOFF_BULK && message->kind == TWI_OP_SEND &&
	    message->space == TWI_SPACE_USER && !peer->engine->in_callback)
		twi_handoff_restart(&peer->engine->handoff, twi_engine_clock(peer->engine));
	return TOW_OK;
}

/* --- without an operation, if the caller has allowed that --- */

static void give_result(const struct tow_op_options *options, const char *call,
			struct tow_result *result)
{
	result->size = sizeof(*result);
	result->user = options->user;
	if (twi_likely(options->result->size == sizeof(*result)))
		*options->result = *result;
	else
		TWI_SIZED_OUT(tow_result, call, result, options->result);
}

/* Sends a small message that may go now. A function: starts of operations do not pay for it. */
static bool send_at_once(struct tow_peer *peer, struct twi_outbound *out,
			 const struct tow_op_options *options)
{
	bool early = peer->lane->ops->memory_polled;

	out->start_ns = early ? twi_engine_seen(peer->engine) : twi_engine_batch_now(peer->engine);
	twi_peer_touch(peer, out->start_ns);
	if (!peer->lane->ops->send_at_once(peer, out))
		return false;
	if (early)
		(void)twi_engine_batch_now(peer->engine); /* for the next twi_engine_seen */
	if (twi_unlikely(options->result != NULL)) {
		struct tow_result result = { .bytes = out->bytes,
					     .tag = out->tag,
					     .rpc_id = twi_peer_rpc_id(peer, out->seq, true),
					     .peer = peer };

		give_result(options, "tow_send_start", &result);
	}
	return true;
}

/* Receives a small message that has arrived. */
static bool recv_at_once(struct tow_peer *peer, struct twi_instant *instant,
			 const struct tow_op_options *options)
{
	struct tow_result result;

	instant->truncate = (options->flags & TOW_OP_TRUNCATE) != 0;
	if (!peer->lane->ops->recv_at_once(peer, instant))
		return false;
	result = (struct tow_result){
		.bytes = twi_min(instant->message_bytes, instant->bytes),
		.tag = instant->message_tag,
		.rpc_id = twi_peer_rpc_id(peer, instant->seq, false),
		.peer = peer,
		.data = instant->data,
		.dropped_bytes =
			instant->message_bytes - twi_min(instant->message_bytes, instant->bytes),
	};
	give_result(options, "tow_recv_start", &result);
	return true;
}

PER_CALL_INLINE bool is_done_at_once(struct tow_peer *peer, const struct twi_message *message,
				     const uint64_t *mask, const struct twi_parts *parts,
				     const struct tow_op_options *options, uint16_t channel)
{
	uint64_t bits = mask == NULL ? UINT64_MAX : *mask;

	if (message->op != NULL || message->view || options == NULL ||
	    (options->flags & TOW_OP_AT_ONCE) == 0 || (parts != NULL && message->data == NULL))
		return false;
	if (message->kind == TWI_OP_SEND) {
		if (message->waits && message->bytes > peer->eager_bytes)
			return false;
		struct twi_outbound out = { .data = message->data,
					    .bytes = message->bytes,
					    .tag = message->tag,
					    .space = message->space,
					    .channel = channel };

		return peer->lane->ops->send_at_once != NULL && send_at_once(peer, &out, options);
	}
	if (options->result != NULL && message->space == TWI_SPACE_USER &&
	    peer->lane->ops->recv_at_once != NULL) {
		struct twi_instant instant = { .data = message->data,
					       .bytes = message->bytes,
					       .tag = message->tag & bits,
					       .mask = bits,
					       .site = message->site,
					       .context = twi_context_of(TWI_SPACE_USER, channel) };

		return recv_at_once(peer, &instant, options);
	}
	return false;
}

PER_CALL_INLINE int start_message(struct tow_peer *peer, const struct twi_message *message,
				  const uint64_t *mask, struct twi_parts *parts,
				  const struct tow_op_options *options, struct tow_op **op_out)
{
	struct twi_engine *engine;
	struct tow_op_options known;
	struct tow_op *op;
	uint16_t channel = message->channel;
	int status = check_message(peer, message, mask, parts, &options, &known, op_out == NULL);

	if (op_out != NULL)
		*op_out = NULL;
	if (twi_unlikely(status < 0))
		return status;
	engine = peer->engine;
	if (message->space == TWI_SPACE_USER)
		status = twi_call_enter_with(engine, peer, TWI_HANDLE_PEER,
					     call_of(message, mask, parts));
	else
		twi_call_enter(engine);
	if (twi_unlikely(status < 0))
		return status;
	if (options != NULL && twi_unlikely(options->channel != NULL)) {
		status = check_channel(peer, options->channel, channel,
				       call_of(message, mask, parts));
		if (status < 0) {
			twi_engine_leave(engine);
			return status;
		}
		channel = options->channel->number;
	}
	if (is_done_at_once(peer, message, mask, parts, options, channel)) {
		if (parts != NULL)
			twi_parts_destroy(parts);
		twi_engine_leave(engine);
		return TOW_OK;
	}
	op = message->op;
	if (op != NULL)
		twi_op_embed(op, engine, ops_of(message), options);
	else
		op = is_early(peer, message, options)
			     ? twi_op_acquire_early(engine, ops_of(message), options)
			     : twi_op_acquire(engine, ops_of(message), options);
	if (twi_likely(op != NULL)) {
		fill_op(op, peer, message, mask, parts, channel);
		status = start_op(peer, message, op, op_out);
	} else {
		status = TOW_EBUSY;
	}
	twi_engine_leave(engine);
	return status;
}

int twi_message_start(struct tow_peer *peer, const struct twi_message *message,
		      const struct tow_op_options *options, struct tow_op **op_out)
{
	return start_message(peer, message, NULL, NULL, options, op_out);
}

int twi_message_start_wild(struct tow_peer *peer, const struct twi_message *message, uint64_t mask,
			   const struct tow_op_options *options, struct tow_op **op_out)
{
	return start_message(peer, message, &mask, NULL, options, op_out);
}

int twi_message_start_parts(struct tow_peer *peer, const struct twi_message *message,
			    const uint64_t *mask, struct twi_parts *parts,
			    const struct tow_op_options *options, struct tow_op **op_out)
{
	twi_assert(parts != NULL); /* else it is unknown which calls are compiled in here */
	return start_message(peer, message, mask, parts, options, op_out);
}

/*
 * Makes an operation whose peer is not known yet, with a lease on its memory that is on no list.
 * NULL: *status_out says why.
 */
static struct tow_op *make_peerless(struct twi_engine *engine, const struct twi_message *message,
				    const uint64_t *mask, struct twi_parts *parts,
				    const struct tow_op_options *options, struct tow_op **op_out,
				    int *status_out)
{
	struct tow_op_options known;
	struct tow_op *op;

	twi_assert_held(engine);
	*status_out = check_arguments(engine, message, mask, parts, &options, &known,
				      op_out == NULL, false);
	if (*status_out < 0)
		return NULL;
	op = twi_op_acquire(engine, ops_of(message), options);
	if (op == NULL) {
		*status_out = TOW_EBUSY;
		return NULL;
	}
	fill_op(op, NULL, message, mask, parts, message->channel);
	op->match.tag = op->tag;
	op->wait.memory_polled = engine->memory_peers > 0;
	if (parts != NULL)
		twi_parts_lease(NULL, op);
	else if (!op->view && op->bytes > 0)
		twi_claim_memory(op);
	op->forgotten = op_out == NULL;
	if (op_out != NULL)
		*op_out = op;
	else
		twi_op_forget(op);
	if (op->deadline_ns != UINT64_MAX)
		twi_op_watch(op);
	return op;
}

int twi_message_start_any(struct tow_endpoint *endpoint, const struct twi_message *message,
			  uint64_t mask, struct twi_parts *parts,
			  const struct tow_op_options *options, struct tow_op **op_out)
{
	int status;
	struct tow_op *op =
		make_peerless(endpoint->engine, message, &mask, parts, options, op_out, &status);

	if (op == NULL)
		return status;
	op->match.any = true;
	op->endpoint = endpoint;
	op->engine->hooks.match->post(op);
	return TOW_OK;
}

int twi_message_hold(struct twi_engine *engine, const struct twi_message *message,
		     const uint64_t *mask, struct twi_parts *parts,
		     const struct tow_op_options *options, struct twi_list *held, void *owner,
		     struct tow_op **op_out)
{
	int status;
	struct tow_op *op = make_peerless(engine, message, mask, parts, options, op_out, &status);

	if (op == NULL)
		return status;
	op->stage = TWI_STAGE_HELD;
	op->owner = owner;
	if (op->kind == TWI_OP_RECV)
		op->match.order = ++engine->ops->recvs;
	twi_list_push_back(held, &op->match.link);
	return TOW_OK;
}

void twi_message_attach(struct tow_op *op, struct tow_peer *peer)
{
	twi_assert_held(op->engine);
	twi_assert(op->stage == TWI_STAGE_HELD);
	twi_list_remove(&op->match.link);
	op->owner = NULL;
	twi_op_to_peer(op, peer);
	if (op->claim.kind != TWI_CLAIM_NONE)
		twi_claim_list(peer, op);
	if (op->kind == TWI_OP_SEND) {
		op->stage = TWI_STAGE_NEW;
		twi_peer_touch(peer, twi_engine_batch_now(op->engine));
		peer->lane->ops->send(peer, op);
	} else {
		peer->lane->ops->recv(peer, op);
	}
}

TOW_PUBLIC int tow_send_start(struct tow_peer *peer, const void *data, uint64_t bytes, uint64_t tag,
			      const struct tow_op_options *options, struct tow_op **op_out)
{
	const struct twi_message message = { .kind = TWI_OP_SEND,
					     .data = (void *)(uintptr_t)data,
					     .bytes = bytes,
					     .tag = tag,
					     .site = TWI_SITE_HERE };

	return start_message(peer, &message, NULL, NULL, options, op_out);
}

TOW_PUBLIC int tow_recv_start(struct tow_peer *peer, void *data, uint64_t bytes, uint64_t tag,
			      const struct tow_op_options *options, struct tow_op **op_out)
{
	const struct twi_message message = {
		.kind = TWI_OP_RECV, .data = data, .bytes = bytes, .tag = tag, .site = TWI_SITE_HERE
	};

	return start_message(peer, &message, NULL, NULL, options, op_out);
}

TOW_PUBLIC int tow_recv_view_start(struct tow_peer *peer, uint64_t tag,
				   const struct tow_op_options *options, struct tow_op **op_out)
{
	const struct twi_message message = { .kind = TWI_OP_RECV,
					     .view = true,
					     .bytes = TWI_WIRE_U63_MAX,
					     .tag = tag,
					     .site = TWI_SITE_HERE };

	return start_message(peer, &message, NULL, NULL, options, op_out);
}
