/*
 * rpc_start.c - the public calls of the client's side, which check the arguments.
 */
#include <string.h>

#include "diag/base/error.h"
#include "diag/base/sized.h"
#include "transport/engine/engine.h"
#include "transport/engine/handle.h"
#include "transport/op/claim.h"
#include "transport/op/queue.h"
#include "transport/rpc/rpc.h"
#include "transport/rpc/rpc_records.h"

static int check_call(struct tow_peer *peer, const struct twi_call_wish *wish,
		      const struct tow_call_options *options)
{
	int status = twi_handle_check(peer, TWI_HANDLE_PEER, "tow_call_start");

	if (status < 0)
		return status;
	if (wish->name[0] == '\0' || (wish->request == NULL && wish->request_bytes > 0) ||
	    (wish->response == NULL && wish->response_bytes > 0))
		return twi_error(TOW_EINVAL,
				 "tow_call_start: an argument is NULL, or the method has no name");
	if ((options->flags & ~(TOW_CALL_VIEW | TOW_CALL_STREAM | TOW_CALL_LEND)) != 0)
		return twi_error(TOW_EINVAL, "tow_call_start: flags has unknown bits, %#x",
				 options->flags);
	if (wish->request_bytes > TWI_RPC_BODY_MAX)
		return twi_error(TOW_EINVAL, "tow_call_start: request_bytes is %llu",
				 (unsigned long long)wish->request_bytes);
	if (twi_engine_forked(peer->engine))
		return twi_error(TOW_EFORKED, "tow_call_start: this process is a forked child");
	if (peer->engine->failing)
		return twi_error(TOW_ECLOSED, "tow_call_start: the runtime is being closed");
	return options->queue == NULL ? TOW_OK
				      : twi_queue_check(options->queue, peer->engine, options->done,
							"tow_call_start");
}

static int start_call(struct tow_peer *peer, const struct twi_call_wish *wish,
		      const struct tow_call_options *options, struct tow_op **op_out)
{
	const struct tow_op_options op_options = { .size = sizeof(op_options),
						   .timeout_ns = options->timeout_ns,
						   .done = options->done,
						   .user = options->user,
						   .queue = options->queue };
	struct twi_engine *engine = peer->engine;
	struct tow_op *op;
	int status;

	twi_engine_enter(engine);
	if (!twi_handle_is(peer, TWI_HANDLE_PEER)) { /* another thread has closed it meanwhile */
		twi_engine_leave(engine);
		return twi_handle_refuse(peer, TWI_HANDLE_PEER, "tow_call_start");
	}
	op = twi_op_acquire(engine, &twi_call_ops, &op_options);
	if (op == NULL) {
		twi_engine_leave(engine);
		return TOW_EBUSY;
	}
	*op_out = op; /* set before it can complete */
	twi_engine_bind_ring(engine);
	status = twi_claim_room(peer, wish->request_bytes);
	if (status == TOW_OK)
		status = twi_call_begin(peer, wish, op);
	if (status < 0) {
		twi_op_discard(op);
		*op_out = NULL;
	}
	twi_engine_leave(engine);
	return status;
}

/* All but the call site, which only the public function can see. */
static int start_at(struct tow_peer *peer, const char *method, struct twi_call_wish *wish,
		    const struct tow_call_options *options, struct tow_op **op_out)
{
	static const struct tow_call_options usual = TOW_CALL_OPTIONS_INIT;
	struct tow_call_options known;
	struct tow_op *unused;
	int status;

	if (op_out != NULL)
		*op_out = NULL;
	status = TWI_SIZED_IN(tow_call_options, "tow_call_start", options, &known);
	if (status < 0)
		return status;
	options = options == NULL ? &usual : options;
	if (op_out == NULL && options->queue != NULL)
		op_out = &unused;
	if (op_out == NULL)
		return twi_error(TOW_EINVAL, "tow_call_start: op_out is NULL");
	if (method != NULL && strlen(method) >= sizeof(wish->name))
		return twi_error(TOW_EINVAL, "tow_call_start: a method's name has up to %d bytes",
				 TOW_METHOD_NAME_MAX - 1);
	twi_rpc_name_set(wish->name, method == NULL ? "" : method);
	wish->hash = twi_rpc_hash(wish->name);
	status = check_call(peer, wish, options);
	if (status < 0)
		return status;
	wish->flags = options->flags;
	return start_call(peer, wish, options, op_out);
}

TOW_PUBLIC int tow_call_start(struct tow_peer *peer, const char *method, const void *request,
			      uint64_t request_bytes, void *response, uint64_t response_bytes,
			      const struct tow_call_options *options, struct tow_op **op_out)
{
	struct twi_call_wish wish = { .request = request,
				      .request_bytes = request_bytes,
				      .response = response,
				      .response_bytes = response_bytes,
				      .site = TWI_SITE_HERE };

	return start_at(peer, method, &wish, options, op_out);
}

TOW_PUBLIC int tow_call(struct tow_peer *peer, const char *method, const void *request,
			uint64_t request_bytes, void *response, uint64_t response_bytes,
			uint64_t timeout_ns, struct tow_call_result *result_out)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	struct twi_call_wish wish = { .request = request,
				      .request_bytes = request_bytes,
				      .response = response,
				      .response_bytes = response_bytes,
				      .site = TWI_SITE_HERE };
	struct tow_op *op;
	int status = twi_handle_check(peer, TWI_HANDLE_PEER, "tow_call");

	if (status < 0)
		return status;
	if (twi_engine_in_callback(peer->engine))
		return twi_error(TOW_EINVAL, "tow_call in a completion callback or handler");
	if (result_out != NULL &&
	    twi_sized_check_out(TWI_SIZED_tow_call_result, "tow_call", result_out) < 0)
		return TOW_EINVAL;
	options.timeout_ns = timeout_ns;
	status = start_at(peer, method, &wish, &options, &op);
	if (status < 0)
		return status;
	status = tow_op_wait(op, TOW_FOREVER); /* the call itself has the deadline */
	if (result_out != NULL)
		tow_call_result(op, result_out);
	tow_op_release(op);
	return status;
}

/* The record of a call's operation, or NULL. */
static struct twi_call *call_of(struct tow_op *op)
{
	if (op == NULL ||
	    (atomic_load_explicit(&op->wait.state, memory_order_acquire) & TWI_OP_USED) == 0)
		return NULL;
	return op->ops == &twi_call_ops ? op->owner : NULL;
}

TOW_PUBLIC int tow_call_result(struct tow_op *op, struct tow_call_result *result_out)
{
	struct twi_call *call = call_of(op);
	int status;

	if (call == NULL)
		return twi_error(TOW_EINVAL, "tow_call_result: the operation is no call");
	status = twi_sized_check_out(TWI_SIZED_tow_call_result, "tow_call_result", result_out);
	if (status < 0)
		return status;
	if (twi_engine_forked(op->engine))
		return twi_error(TOW_EFORKED, "tow_call_result in a forked child");
	/* acquire: pairs with the release in twi_call_end */
	if (!atomic_load_explicit(&call->ended, memory_order_acquire))
		return TOW_AGAIN;
	return TWI_SIZED_OUT(tow_call_result, "tow_call_result", &call->result, result_out);
}

TOW_PUBLIC struct tow_stream *tow_call_stream(struct tow_op *op)
{
	struct twi_call *call = call_of(op);

	return call == NULL ? NULL : call->stream;
}
