/*
 * group_handshake.c - connections that no slot has yet. See group_handshake.h.
 */
#include "transport/job/group_handshake.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/job/group.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"

int twi_handshake_receive(struct twi_handshake *handshake, uint64_t tag, uint64_t timeout_ns,
			  tow_op_callback done)
{
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = timeout_ns, .done = done, .user = handshake
	};
	const struct twi_message message = { .kind = TWI_OP_RECV,
					     .space = TWI_SPACE_LINK,
					     .data = handshake->in,
					     .bytes = sizeof(handshake->in),
					     .tag = tag };

	return twi_message_start(handshake->peer, &message, &options, &handshake->op);
}

static void on_control_sent(struct tow_op *op, const struct tow_result *result)
{
	free(result->user);
	tow_op_release(op);
}

int twi_handshake_send(struct twi_handshake *handshake, uint64_t tag, const uint32_t *words,
		       unsigned count)
{
	uint8_t *bytes = malloc(4 * (size_t)count);
	const struct tow_op_options options = { .size = sizeof(options),
						.timeout_ns = TWI_GROUP_DIAL_NS,
						.done = on_control_sent,
						.user = bytes };
	const struct twi_message message = { .kind = TWI_OP_SEND,
					     .space = TWI_SPACE_LINK,
					     .data = bytes,
					     .bytes = 4 * (uint64_t)count,
					     .tag = tag };
	struct tow_op *op;
	int status;

	if (bytes == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a connection between ranks");
	for (unsigned i = 0; i < count; i++)
		twi_put_le(bytes + 4 * (size_t)i, words[i], 4);
	status = twi_message_start(handshake->peer, &message, &options, &op);
	if (status < 0)
		free(bytes);
	else /* compare the clocks at once, so that traces of silent ranks have the offset */
		twi_peer_touch(handshake->peer, twi_engine_batch_now(handshake->ranks->engine));
	return status;
}

void twi_handshake_end(struct twi_handshake *handshake, bool close)
{
	struct twi_ranks *ranks = handshake->ranks;

	twi_list_remove(&handshake->link);
	if (handshake->rank == ranks->size)
		ranks->guests--;
	if (close && handshake->peer != NULL)
		tow_peer_close(handshake->peer);
	free(handshake);
	twi_ranks_drop(ranks);
}

struct twi_handshake *twi_handshake_begin(struct twi_ranks *ranks, uint32_t rank)
{
	struct twi_handshake *handshake = calloc(1, sizeof(*handshake));

	if (handshake == NULL) {
		twi_error(TOW_ENOMEM, "no memory for a connection between ranks");
		return NULL;
	}
	handshake->ranks = ranks;
	handshake->rank = rank;
	twi_list_push_back(&ranks->handshakes, &handshake->link);
	twi_ranks_use(ranks);
	return handshake;
}

bool twi_handshake_release(struct twi_handshake *handshake, struct tow_op *op)
{
	tow_op_release(op);
	handshake->op = NULL;
	return !handshake->ranks->closing;
}
