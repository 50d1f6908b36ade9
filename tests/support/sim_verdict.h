/*
 * sim_verdict.h - the reference: for each (link, direction, tag) messages and receives are two
 * queues, and the first of one goes to the first of the other.
 *
 * A channel is disturbed when a large message or a receive for one was taken back there after it
 * may have been matched: such a receive, or such a message, takes its turn again later, so order is
 * not judged there, nor in a world with receives of more than one tag. That each message is
 * delivered at most once, whole and by its own tag is judged always (sim.h).
 */
#ifndef TWT_SIM_VERDICT_H
#define TWT_SIM_VERDICT_H

#include "sim.h"

/* One direction of a link, one tag. */
struct sim_channel {
	struct sim_op *sends[SIM_OPS], *recvs[SIM_OPS];
	int send_count, recv_count;
	bool large, disturbed, unknown;
	uint64_t longest, shortest_room;
};

static inline bool sim_taken_back(const struct sim_op *op)
{
	return op->asked_cancel || op->timed || op->status == TOW_ECANCELED ||
	       op->status == TOW_EDEADLINE;
}

static inline void sim_channel_add(struct sim_world *world, struct sim_channel *channel,
				   struct sim_op *op)
{
	bool large = op->bytes > world->eager_max;

	if (op->end == SIM_UNKNOWN)
		channel->unknown = true;
	if (op->send) {
		channel->sends[channel->send_count++] = op;
		channel->large |= large;
		channel->disturbed |= large && sim_taken_back(op);
		channel->longest = twi_max(channel->longest, op->bytes);
	} else {
		channel->recvs[channel->recv_count++] = op;
		if (!op->truncate)
			channel->shortest_room = twi_min(channel->shortest_room, op->bytes);
	}
}

static inline void sim_channel_fill(struct sim_world *world, struct sim_channel *channel, int conn,
				    int side, uint64_t tag, int space)
{
	channel->send_count = channel->recv_count = 0;
	channel->large = channel->disturbed = channel->unknown = false;
	channel->longest = 0;
	channel->shortest_room = UINT64_MAX;
	for (int i = 0; i < world->op_count; i++) {
		struct sim_op *op = &world->ops[i];

		/* Nobody knows what it has met. */
		channel->unknown |= op->wild && op->end == SIM_UNKNOWN;
		if (op->conn == conn && op->tag == tag && op->space == space &&
		    (op->side == side) == op->send)
			sim_channel_add(world, channel, op);
	}
	for (int i = 0; i < channel->recv_count; i++)
		channel->disturbed |= channel->large && sim_taken_back(channel->recvs[i]);
}

/* Messages too short to carry their number are found by the number that both sides gave them. */
static inline void sim_meet(struct sim_world *world, struct sim_channel *channel)
{
	for (int i = 0; i < channel->recv_count; i++) {
		struct sim_op *recv = channel->recvs[i];

		if (recv->end != SIM_ENDED || recv->rpc == 0)
			continue;
		for (int j = 0; j < channel->send_count; j++) {
			struct sim_op *send = channel->sends[j];

			if (send->end != SIM_ENDED || send->rpc != recv->rpc)
				continue;
			if (recv->status == TOW_OK && recv->met == NULL) {
				SIM_CHECK(world,
					  send->met == NULL &&
						  send->bytes == recv->got + recv->dropped,
					  "message %llu was delivered twice, or cut",
					  (unsigned long long)send->id);
				SIM_CHECK(world, sim_same(recv->head, recv->got, send->id),
					  "message %llu has wrong bytes",
					  (unsigned long long)send->id);
				recv->met = send;
				send->met = recv;
			}
			SIM_CHECK(world, recv->status != TOW_OK || recv->met == send,
				  "message %llu has another's number",
				  (unsigned long long)send->id);
		}
		SIM_CHECK(world, recv->status != TOW_OK || recv->met != NULL || channel->unknown,
			  "op %llu received a message that nobody sent",
			  (unsigned long long)recv->id);
	}
}

/* What each end says about the other. */
static inline void sim_judge_ends(struct sim_world *world, struct sim_channel *channel)
{
	for (int i = 0; i < channel->send_count; i++) {
		const struct sim_op *send = channel->sends[i];
		bool large = send->bytes > world->eager_max;

		if (send->end != SIM_ENDED)
			continue;
		if (send->status == TOW_OK && large)
			SIM_CHECK(world, send->met != NULL || channel->unknown,
				  "message %llu is said to have arrived and has not",
				  (unsigned long long)send->id);
		if (send->status == TOW_ECANCELED || send->status == TOW_ETRUNCATED ||
		    send->status == TOW_ECORRUPT)
			SIM_CHECK(world, send->met == NULL,
				  "message %llu ended with %s and arrived",
				  (unsigned long long)send->id, tow_status_name(send->status));
		if (send->status == TOW_ETRUNCATED)
			SIM_CHECK(world, channel->shortest_room < send->bytes || world->masks,
				  "message %llu was cut without a cause",
				  (unsigned long long)send->id);
	}
	for (int i = 0; i < channel->recv_count; i++) {
		const struct sim_op *recv = channel->recvs[i];

		if (recv->end == SIM_ENDED && recv->status == TOW_ETRUNCATED)
			SIM_CHECK(world, recv->got > recv->bytes && recv->got <= channel->longest,
				  "op %llu was cut without a cause", (unsigned long long)recv->id);
	}
}

/* First to first: walks both queues side by side. */
static inline void sim_judge_order(struct sim_world *world, struct sim_channel *channel)
{
	const struct sim_op *waits = NULL; /* a receive that has been passed over */
	int at = 0;

	if (channel->disturbed || channel->unknown || world->masks)
		return;
	for (int i = 0; i < channel->recv_count; i++) {
		const struct sim_op *recv = channel->recvs[i];

		if (recv->end != SIM_ENDED ||
		    (recv->status != TOW_OK && recv->status != TOW_ETRUNCATED)) {
			/* with a number it had met a message, and both ended with the link; or the
			 * message came corrupt */
			if (recv->rpc == 0 && recv->status != TOW_ECANCELED &&
			    recv->status != TOW_EDEADLINE)
				waits = recv;
			continue;
		}
		SIM_CHECK(world, waits == NULL, "op %llu overtook op %llu",
			  (unsigned long long)recv->id, (unsigned long long)waits->id);
		while (at < channel->send_count && channel->sends[at]->rpc != recv->rpc) {
			const struct sim_op *send = channel->sends[at++];

			SIM_CHECK(world,
				  send->status != TOW_OK && send->status != TOW_ETRUNCATED &&
					  send->end == SIM_ENDED,
				  "message %llu was lost or overtaken by rpc %llu",
				  (unsigned long long)send->id, (unsigned long long)recv->rpc);
		}
		SIM_CHECK(world, at++ < channel->send_count, "rpc %llu came out of order",
			  (unsigned long long)recv->rpc);
	}
}

static inline void sim_judge(struct sim_world *world)
{
	static struct sim_channel channel;

	for (int i = 0; i < world->conn_count * 2 * SIM_TAGS * SIM_SPACES; i++) {
		int conn = i / SIM_SPACES / SIM_TAGS / 2;

		sim_channel_fill(world, &channel, conn, i / SIM_SPACES / SIM_TAGS % 2,
				 (uint64_t)(i / SIM_SPACES % SIM_TAGS), i % SIM_SPACES);
		sim_meet(world, &channel);
		sim_judge_ends(world, &channel);
		sim_judge_order(world, &channel);
	}
}

#endif
