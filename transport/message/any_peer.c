/*
 * any_peer.c - see any_peer.h.
 */
#include "transport/message/any_peer.h"

#include "diag/record/counter.h"
#include "transport/engine/engine.h"
#include "transport/engine/held_count.h"
#include "transport/lanes/lane.h"
#include "transport/message/channel.h"
#include "transport/message/inbox.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/op/op_table.h"

static struct tow_peer *peer_of(struct twi_list *link)
{
	return twi_container_of(link, struct tow_peer, home_link);
}

/* Takes a message that waits at some peer. That peer comes last the next time. */
static bool take_waiting(struct tow_op *op)
{
	struct twi_list *peers = &op->endpoint->peers;
	const uint64_t tag = op->match.tag;
	const uint32_t context = op->match.context;

	for (struct twi_list *pos = peers->next; pos != peers; pos = pos->next) {
		struct tow_peer *peer = peer_of(pos);

		if (!twi_inbox_recv_any(peer->inbox, op))
			continue;
		twi_list_remove(pos);
		twi_list_push_back(peers, pos);
		peer->lane->ops->look_again(peer, tag, context); /* the lane has work */
		return true;
	}
	return false;
}

static void receive_match_or_wait(struct tow_op *op)
{
	if (take_waiting(op))
		return;
	op->stage = TWI_STAGE_POSTED;
	twi_match_put_wild(&op->endpoint->any, &op->match);
}

/* From the first such receive on, the tables of all peers look at the endpoint's list. */
static void open_tables(struct tow_endpoint *endpoint)
{
	struct twi_list *pos, *next;

	endpoint->wild = true;
	twi_list_for_each_safe (pos, next, &endpoint->peers)
		twi_match_go_wild(&peer_of(pos)->inbox->match);
}

static void post_any(struct tow_op *op)
{
	twi_held_count(op->engine, TWI_C_recvs, 1);
	op->match.order = ++op->engine->ops->recvs;
	if (!op->endpoint->wild)
		open_tables(op->endpoint);
	receive_match_or_wait(op);
}

/* A message that came before the user had the peer may match a receive that waits. */
static void join_endpoint(struct tow_peer *peer)
{
	struct twi_match *match = &peer->inbox->match;

	match->any = &peer->home->any;
	if (!peer->home->wild)
		return;
	twi_match_go_wild(match);
	match->kept_back = true;
	peer->lane->ops->look_again(peer, 0, TWI_SPACE_USER);
}

static void leave_endpoint(struct tow_peer *peer)
{
	peer->inbox->match.any = NULL;
}

const struct twi_match_hooks twi_any_hooks = { .post = post_any,
					       .join = join_endpoint,
					       .leave = leave_endpoint,
					       .close = twi_channels_leave };

/* --- receives that come back --- */

static unsigned look_again(struct twi_engine *engine, struct twi_list *items)
{
	struct twi_list now_due, *entry;
	unsigned count = 0;

	twi_assert_held(engine);
	twi_list_init(&now_due);
	while ((entry = twi_list_first(items)) != NULL) {
		twi_list_remove(entry);
		twi_list_push_back(&now_due, entry);
	}
	while ((entry = twi_list_first(&now_due)) != NULL) {
		struct tow_op *op = twi_container_of(entry, struct tow_op, seq_link);

		twi_list_remove(entry);
		count++;
		if (op->endpoint == NULL)
			twi_message_end_any(op, TOW_ECLOSED);
		else
			receive_match_or_wait(op);
	}
	return count;
}

static uint64_t look_again_at_ns(struct twi_engine *engine, struct twi_list *items,
				 uint64_t next_ns)
{
	(void)items;
	return twi_min(next_ns, twi_engine_now(engine));
}

static const struct twi_part_ops any_part = { .poll = look_again, .deadline_ns = look_again_at_ns };

void twi_any_again(struct tow_op *op)
{
	struct twi_engine *engine = op->engine;

	op->peer = NULL;
	twi_channel_drop_op(op);
	op->stage = TWI_STAGE_POSTED;
	engine->armed_since_enter = true; /* a sleeping driver must wake up for it */
	twi_part_add(engine, TWI_PART_ANY, &any_part, &op->seq_link);
}
