/*
 * parts_send.c - starts sends of parts. A small one is gathered before the lane has it. So the path
 * of small messages, whose instructions are counted, has no code for parts.
 */
#include <towline/match.h>

#include "transport/op/call.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/op/parts.h"

/* The engine is held. After a failure the parts are the caller's. */
static int start_parts(struct tow_peer *peer, struct twi_message *message,
		       struct twi_parts **parts_io, const struct tow_op_options *options,
		       struct tow_op **op_out)
{
	int status = TOW_OK;

	message->bytes = (*parts_io)->bytes;
	if (message->bytes <= peer->eager_bytes)
		status = twi_parts_gather(peer->engine, message->site, parts_io, &message->data);
	if (status < 0)
		return status;
	return twi_message_start_parts(peer, message, NULL, *parts_io, options, op_out);
}

TOW_PUBLIC int tow_send_parts_start(struct tow_peer *peer, const struct tow_part *parts,
				    uint32_t part_count, uint64_t tag,
				    const struct tow_op_options *options, struct tow_op **op_out)
{
	static const char call[] = "tow_send_parts_start";
	struct twi_message message = { .kind = TWI_OP_SEND, .tag = tag, .site = TWI_SITE_HERE };
	struct twi_parts *record;
	struct tow_part whole;
	int status = twi_handle_check(peer, TWI_HANDLE_PEER, call);

	if (op_out != NULL)
		*op_out = NULL;
	if (status == TOW_OK)
		status = twi_call_check(peer->engine, call);
	if (status == TOW_OK)
		status = twi_parts_create(call, peer->engine->pool, parts, part_count, &whole,
					  &record);
	if (status < 0)
		return status;
	message.data = whole.data;
	message.bytes = whole.bytes;
	if (record == NULL)
		return twi_message_start(peer, &message, options, op_out);
	status = twi_call_enter_with(peer->engine, peer, TWI_HANDLE_PEER, call);
	if (status == TOW_OK) {
		struct twi_engine *engine = peer->engine;

		status = start_parts(peer, &message, &record, options, op_out);
		twi_engine_leave(engine);
	}
	if (status < 0)
		twi_parts_destroy(record);
	return status;
}
