/*
 * outbox_channel.c - sends on the channels of a peer (channel.h). They are queued there, and sent
 * in turns as credit and room allow.
 */
#include "transport/message/channel.h"
#include "transport/message/outbox.h"

static struct tow_op *op_of(struct twi_list *link)
{
	return twi_container_of(link, struct tow_op, link);
}

static struct twi_channel *channel_of(struct twi_list *turn)
{
	return twi_container_of(turn, struct twi_channel, turn);
}

void twi_outbox_send_on_channel(struct twi_outbox *outbox, struct tow_op *op)
{
	struct tow_peer *peer = outbox->peer;
	struct twi_channel *channel = twi_channel_find(peer, op->channel);
	int status = outbox->failed;

	if (status == 0)
		status = twi_channel_status(peer, op->channel);
	if (!twi_outbox_begin(outbox, op, status))
		return;
	if (op->bytes > outbox->eager_bytes) /* a small one that goes ends at once */
		twi_channel_add_op(peer, op);
	if (twi_list_empty(&channel->queued) && twi_outbox_put(outbox, &channel->out, op))
		return;
	twi_channel_add_op(peer, op);
	if (twi_list_empty(&channel->turn))
		twi_list_push_back(&peer->channels->turns, &channel->turn);
	twi_outbox_queue(outbox, &channel->queued, op);
}

/* The cost of the first send of a queue. */
static uint32_t first_cost(const struct twi_outbox *outbox, const struct twi_list *queued)
{
	const struct tow_op *op = twi_container_of(queued->next, const struct tow_op, link);

	return twi_frame_cost(op->bytes <= outbox->eager_bytes ? (uint32_t)op->bytes : 0);
}

/* Does a send wait in the queue, with credit for it? */
static bool may_go(const struct twi_outbox *outbox, const struct twi_list *queued,
		   const struct twi_credit_out *credit)
{
	return !twi_list_empty(queued) && twi_credit_has(credit, first_cost(outbox, queued));
}

/* Sends one message of each channel that may. *room: the lane has room. Returns how many. */
static unsigned drain_turn(struct twi_outbox *outbox, struct twi_channels *channels, unsigned most,
			   bool *room)
{
	struct twi_list *pos, *next;
	unsigned count = 0;

	twi_list_for_each_safe (pos, next, &channels->turns) {
		struct twi_channel *channel = channel_of(pos);

		if (count == most || !*room)
			break;
		if (twi_list_empty(&channel->queued)) {
			twi_list_remove(pos);
			continue;
		}
		if (!may_go(outbox, &channel->queued, &channel->out))
			continue;
		*room = twi_outbox_put(outbox, &channel->out, op_of(channel->queued.next));
		count += *room;
	}
	return count;
}

/* No channel keeps the others, or the peer itself, from sending. */
unsigned twi_outbox_drain_channels(struct twi_outbox *outbox, unsigned most)
{
	struct tow_peer *peer = outbox->peer;
	struct twi_channels *channels = peer->channels;
	unsigned count = twi_channels_flush(peer), before;
	bool room = !twi_outbox_owes(outbox);

	do {
		before = count;
		if (room && count < most && may_go(outbox, &outbox->queued, &outbox->credit)) {
			room = twi_outbox_put(outbox, &outbox->credit, op_of(outbox->queued.next));
			count += room;
		}
		if (channels != NULL && room && count < most)
			count += drain_turn(outbox, channels, most - count, &room);
	} while (count > before && room && count < most);
	/* The next call begins with the next channel. */
	if (channels != NULL && !twi_list_empty(&channels->turns)) {
		struct twi_list *first = twi_list_first(&channels->turns);

		twi_list_remove(first);
		twi_list_push_back(&channels->turns, first);
	}
	return count;
}

bool twi_outbox_owes(const struct twi_outbox *outbox)
{
	const struct twi_channels *channels = outbox->peer->channels;

	return outbox->owes_credit || (channels != NULL && !twi_list_empty(&channels->owing));
}

/* Whether a send waits on a channel. Channels that have emptied stay until the next full drain. */
static bool channels_wait(const struct twi_channels *channels)
{
	for (struct twi_list *pos = channels->turns.next; pos != &channels->turns;
	     pos = pos->next) {
		if (!twi_list_empty(&channel_of(pos)->queued))
			return true;
	}
	return false;
}

bool twi_outbox_waits(const struct twi_outbox *outbox)
{
	const struct twi_channels *channels = outbox->peer->channels;

	return !twi_list_empty(&outbox->queued) || outbox->owes_credit ||
	       (channels != NULL && (!twi_list_empty(&channels->owing) || channels_wait(channels)));
}

const struct tow_op *twi_outbox_next(const struct twi_outbox *outbox)
{
	const struct twi_channels *channels = outbox->peer->channels;

	if (may_go(outbox, &outbox->queued, &outbox->credit))
		return op_of(outbox->queued.next);
	if (channels == NULL)
		return NULL;
	for (struct twi_list *pos = channels->turns.next; pos != &channels->turns;
	     pos = pos->next) {
		const struct twi_channel *channel = channel_of(pos);

		if (may_go(outbox, &channel->queued, &channel->out))
			return op_of(channel->queued.next);
	}
	return NULL;
}

bool twi_outbox_no_credit(const struct twi_outbox *outbox)
{
	return twi_outbox_waits(outbox) && !twi_outbox_owes(outbox) &&
	       twi_outbox_next(outbox) == NULL;
}
