/*
 * channel_ops.c - the operations in flight on the channels of a peer.
 *
 * Each operation is in the bucket of its channel for as long as it has that peer. So the cost of
 * ending a channel does not depend on what the runtime has in flight elsewhere. The bucket outlives
 * the channel's record. So operations that are still ending are found there, even after the number
 * has been opened again.
 */
#include "transport/engine/engine.h"
#include "transport/message/channel.h"
#include "transport/message/inbox.h"
#include "transport/op/message.h"

static struct tow_op *op_of(struct twi_list *entry)
{
	return twi_container_of(entry, struct tow_op, on_channel);
}

void twi_channel_add_op(struct tow_peer *peer, struct tow_op *op)
{
	twi_assert_held(op->engine);
	twi_assert_hot(op->channel != 0);
	if (peer->channels == NULL)
		return; /* no channel was ever open, so the operation ends at once */
	twi_list_remove(&op->on_channel);
	twi_list_push_back(&twi_channel_bucket(peer->channels, op->channel)->ops, &op->on_channel);
}

void twi_channel_drop_op(struct tow_op *op)
{
	if (op->channel != 0)
		twi_list_remove(&op->on_channel);
}

void twi_channel_move_ops(struct twi_list *ops, const struct twi_channels *to)
{
	struct twi_list *entry;

	while ((entry = twi_list_first(ops)) != NULL) {
		twi_list_remove(entry);
		twi_list_push_back(&twi_channel_bucket(to, op_of(entry)->channel)->ops, entry);
	}
}

static bool is_meant(const struct tow_op *op, uint16_t number, enum twi_channel_ending which)
{
	return op->channel == number && (op->kind == TWI_OP_SEND) == (which == TWI_END_SENDS) &&
	       (which != TWI_END_POSTED || op->stage == TWI_STAGE_POSTED);
}

/* Visits each operation once: the end of one may end others, or change the table. */
void twi_channel_end_ops(struct tow_peer *peer, uint16_t number, int status,
			 enum twi_channel_ending which)
{
	struct twi_list rest, *all = &twi_channel_bucket(peer->channels, number)->ops, *entry;

	twi_list_init(&rest);
	while ((entry = twi_list_first(all)) != NULL) {
		twi_list_remove(entry);
		twi_list_push_back(&rest, entry);
	}
	while ((entry = twi_list_first(&rest)) != NULL) {
		struct tow_op *op = op_of(entry);

		twi_channel_add_op(peer, op);
		if (!is_meant(op, number, which))
			continue;
		/* A view without room goes on, because other peers may have a message for it. */
		if (op->match.any && op->match.held)
			twi_inbox_let_go(peer->inbox, op);
		else
			twi_message_abort(op, status, true);
	}
}
