/*
 * rpc_parcel.c - sends a payload descriptor: a header with its body. See rpc.h.
 */
#include "transport/engine/engine.h"
#include "transport/op/endpoint.h"
#include "transport/op/path.h"
#include "transport/rpc/rpc.h"

static void part_done(struct twi_parcel *parcel, int status)
{
	if (status < 0 && parcel->status >= 0)
		parcel->status = status;
	if (!twi_parcel_busy(parcel))
		parcel->done(parcel);
}

static void head_done(struct tow_op *op, const struct tow_result *result)
{
	struct twi_parcel *parcel = op->user;

	parcel->head.busy = false;
	if (result->status >= 0)
		parcel->sent_ns = op->start_ns + op->latency_ns;
	part_done(parcel, result->status);
}

static void body_done(struct tow_op *op, const struct tow_result *result)
{
	struct twi_parcel *parcel = op->user;

	parcel->body.busy = false;
	part_done(parcel, result->status);
}

int twi_parcel_send(struct twi_parcel *parcel, struct twi_rpc_peer *rp, struct twi_rpc_head *head,
		    const void *data, uint64_t bytes, struct twi_site site)
{
	struct twi_message message = { .kind = TWI_OP_SEND, .space = TWI_SPACE_RPC, .site = site };
	bool apart = bytes > rp->inline_max;
	int status;

	twi_assert_held(rp->engine);
	if (rp->peer == NULL || rp->dead < 0)
		return rp->dead < 0 ? rp->dead : TOW_ECLOSED;
	parcel->rp = rp;
	parcel->sent_ns = 0;
	parcel->status = TOW_OK;
	head->bytes = bytes;
	head->tag = apart ? ++rp->next_tag : 0;
	head->inline_bytes = apart ? 0 : (uint32_t)bytes;
	twi_rpc_head_put(parcel->data, head);
	if (data != parcel->data + TWI_RPC_HEAD_BYTES)
		twi_path_copy_eager(rp->engine, parcel->data + TWI_RPC_HEAD_BYTES, data,
				    head->inline_bytes);
	message.data = parcel->data;
	message.bytes = TWI_RPC_HEAD_BYTES + head->inline_bytes;
	message.tag = TWI_RPC_INBOX_TAG;
	/* Callbacks run later: none ends the whole before both parts are started. */
	status = twi_rpc_io_start(&parcel->head, rp->peer, &message, head_done, parcel);
	if (status < 0 || !apart)
		return status;
	message.data = (void *)(uintptr_t)data;
	message.bytes = bytes;
	message.tag = head->tag;
	message.lent = parcel->lent;
	message.awaits_view = parcel->awaits_view;
	status = twi_rpc_io_start(&parcel->body, rp->peer, &message, body_done, parcel);
	if (status < 0)
		parcel->status = status; /* reported when the header has been sent */
	return TOW_OK;
}

const void *twi_parcel_keep(struct twi_parcel *parcel, const struct twi_rpc *rpc, const void *data,
			    uint64_t bytes)
{
	twi_assert_held(rpc->engine);
	if (bytes == 0 || bytes > rpc->inline_max)
		return data;
	twi_path_copy_eager(rpc->engine, parcel->data + TWI_RPC_HEAD_BYTES, data, bytes);
	return parcel->data + TWI_RPC_HEAD_BYTES;
}

bool twi_parcel_abort(struct twi_parcel *parcel)
{
	return twi_rpc_io_abort(&parcel->body);
}
