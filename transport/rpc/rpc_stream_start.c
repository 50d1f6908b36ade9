/*
 * rpc_stream_start.c - the public calls on streams, which check the arguments.
 */
#include "diag/base/error.h"
#include "diag/record/span.h"
#include "transport/engine/engine.h"
#include "transport/op/claim.h"
#include "transport/op/message.h"
#include "transport/op/op_options.h"
#include "transport/rpc/rpc.h"
#include "transport/rpc/rpc_records.h"

/* A push or pull that still waits is removed. One that is under way ends the whole call, since
 * later pieces cannot go on without it. */
static void abort_piece(struct tow_op *op, int status)
{
	struct tow_stream *stream = op->owner;

	if (!twi_list_empty(&op->link)) {
		twi_op_complete(op, status, 0);
		twi_stream_pump_out(stream);
		twi_stream_settle_owner(stream);
	} else {
		twi_stream_break_call(stream, status);
	}
}

static const struct twi_op_ops push_ops = { .kind = TWI_OP_CALL,
					    .noun = "push",
					    .span = TWI_SPAN_CALL,
					    .wait_kind = TWI_WAITED_STREAM,
					    .abort = abort_piece };
static const struct twi_op_ops pull_ops = { .kind = TWI_OP_CALL,
					    .noun = "pull",
					    .span = TWI_SPAN_CALL,
					    .wait_kind = TWI_WAITED_STREAM,
					    .abort = abort_piece };
static const struct twi_op_ops pull_view_ops = { .kind = TWI_OP_CALL,
						 .noun = "pull",
						 .span = TWI_SPAN_CALL,
						 .wait_kind = TWI_WAITED_STREAM,
						 .abort = abort_piece,
						 .release = twi_view_drop };

static int check_piece(const struct tow_stream *stream, const struct tow_op_options **options_io,
		       struct tow_op_options *known, struct tow_op **op_out, uint64_t allowed,
		       const char *call)
{
	struct tow_op *unused;
	int status;

	if (op_out != NULL)
		*op_out = NULL;
	if (stream == NULL)
		return twi_error(TOW_EINVAL, "%s: an argument is NULL", call);
	if (twi_engine_forked(stream->rpc->engine))
		return twi_error(TOW_EFORKED, "%s: this process is a forked child", call);
	status = twi_op_options_with(stream->rpc->engine, call, allowed, options_io, known);
	if (status == TOW_OK && twi_op_place(op_out, &unused, *options_io) == NULL)
		return twi_error(TOW_EINVAL, "%s: an argument is NULL", call);
	return status;
}

static int start_piece(struct tow_stream *stream, struct twi_list *list, struct tow_op *op)
{
	op->owner = stream;
	twi_op_to_peer(op, stream->rp->peer);
	if (stream->failed != 0 || (list == &stream->pushes && stream->closed)) {
		twi_op_complete(op, stream->failed != 0 ? stream->failed : TOW_ECLOSED, 0);
		return TOW_OK;
	}
	twi_list_push_back(list, &op->link);
	twi_op_watch(op);
	if (list == &stream->pushes)
		twi_stream_pump_out(stream);
	else
		twi_stream_pump_in(stream);
	return TOW_OK;
}

TOW_PUBLIC int tow_stream_push_start(struct tow_stream *stream, const void *data, uint64_t bytes,
				     const struct tow_op_options *options, struct tow_op **op_out)
{
	struct tow_op_options known;
	int status =
		check_piece(stream, &options, &known, op_out, TOW_OP_LEND, "tow_stream_push_start");
	struct twi_engine *engine;
	struct tow_op *op, *unused;

	if (status < 0)
		return status;
	op_out = twi_op_place(op_out, &unused, options);
	if (data == NULL || bytes == 0 || bytes > TWI_RPC_BODY_MAX)
		return twi_error(TOW_EINVAL, "tow_stream_push_start: a piece of %llu bytes",
				 (unsigned long long)bytes);
	engine = stream->rpc->engine;
	twi_engine_enter(engine);
	op = twi_op_acquire(engine, &push_ops, options);
	if (op == NULL) {
		twi_engine_leave(engine);
		return TOW_EBUSY;
	}
	op->data = (void *)(uintptr_t)data;
	op->bytes = bytes;
	op->site = TWI_SITE_HERE;
	*op_out = op;
	twi_engine_bind_ring(engine);
	if (stream->ending)
		status = twi_error(TOW_EINVAL, "tow_stream_push_start after tow_stream_end");
	else if (stream->rp->peer != NULL)
		status = twi_claim_room(stream->rp->peer, bytes);
	if (status == TOW_OK)
		start_piece(stream, &stream->pushes, op);
	else
		twi_op_discard(op);
	*op_out = status == TOW_OK ? op : NULL;
	twi_engine_leave(engine);
	return status;
}

TOW_PUBLIC int tow_stream_pull_start(struct tow_stream *stream, void *data, uint64_t bytes,
				     const struct tow_op_options *options, struct tow_op **op_out)
{
	struct tow_op_options known;
	int status = check_piece(stream, &options, &known, op_out, 0, "tow_stream_pull_start");
	struct twi_engine *engine;
	struct tow_op *op, *unused;

	if (status < 0)
		return status;
	op_out = twi_op_place(op_out, &unused, options);
	if (bytes > TWI_RPC_BODY_MAX)
		return twi_error(TOW_EINVAL, "tow_stream_pull_start: bytes is %llu",
				 (unsigned long long)bytes);
	engine = stream->rpc->engine;
	twi_engine_enter(engine);
	op = twi_op_acquire(engine, data == NULL ? &pull_view_ops : &pull_ops, options);
	if (op == NULL) {
		twi_engine_leave(engine);
		return TOW_EBUSY;
	}
	op->data = data;
	op->bytes = bytes;
	op->view = data == NULL;
	op->site = TWI_SITE_HERE;
	*op_out = op;
	twi_engine_bind_ring(engine);
	start_piece(stream, &stream->pulls, op);
	twi_engine_leave(engine);
	return TOW_OK;
}

static int check_stream(const struct tow_stream *stream, const char *call)
{
	if (stream == NULL)
		return twi_error(TOW_EINVAL, "%s: stream is NULL", call);
	if (twi_engine_forked(stream->rpc->engine))
		return twi_error(TOW_EFORKED, "%s: this process is a forked child", call);
	return TOW_OK;
}

TOW_PUBLIC int tow_stream_end(struct tow_stream *stream)
{
	int status = check_stream(stream, "tow_stream_end");

	if (status < 0)
		return status;
	twi_engine_enter(stream->rpc->engine);
	twi_engine_bind_ring(stream->rpc->engine);
	stream->ending = true;
	twi_stream_pump_out(stream);
	twi_engine_leave(stream->rpc->engine);
	return TOW_OK;
}

TOW_PUBLIC int tow_stream_abort(struct tow_stream *stream)
{
	int status = check_stream(stream, "tow_stream_abort");
	struct twi_engine *engine;

	if (status < 0)
		return status;
	engine = stream->rpc->engine;
	twi_engine_enter(engine);
	twi_engine_bind_ring(engine);
	twi_stream_break_call(stream, TOW_ECANCELED);
	twi_engine_leave(engine);
	return TOW_OK;
}
