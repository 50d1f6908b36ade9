/*
 * group_message.c - the channels of a group, and the messages that wait for a connection. See
 * group_message.h.
 */
#include "transport/job/group_message.h"

#include <stdio.h>
#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/job/group_over.h"
#include "transport/message/channel.h"
#include "transport/message/inbox.h"
#include "transport/op/endpoint.h"
#include "transport/op/op_table.h"

static uint16_t number_of(const struct tow_group *group)
{
	if (group->id >= TWI_COLL_CTX_MAX || (!group->shrunk && group->id >= TWI_COLL_CTX_SHRUNK))
		return 0;
	return (uint16_t)(TWI_CHANNEL_GROUPS + group->id);
}

_Static_assert(TWI_CHANNEL_GROUPS + TWI_COLL_CTX_MAX < TWI_CHANNEL_CONTROL,
	       "every group that can have collectives can have messages");

static struct twi_group_messages *find_messages(const struct twi_ranks *ranks, uint16_t number)
{
	for (struct twi_list *pos = ranks->messages.next; pos != &ranks->messages;
	     pos = pos->next) {
		struct twi_group_messages *messages =
			twi_container_of(pos, struct twi_group_messages, link);

		if (messages->number == number)
			return messages;
	}
	return NULL;
}

static int messages_of(struct tow_group *group, struct twi_group_messages **out)
{
	uint16_t number = number_of(group);

	*out = group->messages;
	if (*out != NULL)
		return TOW_OK;
	if (number == 0)
		return twi_error(
			TOW_EBUSY,
			"this is group %u of the job; those from %u on can have no messages",
			group->id, TWI_COLL_CTX_SHRUNK);
	*out = calloc(1, sizeof(**out) + group->size * sizeof((*out)->channels[0]));
	if (*out == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the messages of a group of %u",
				 group->size);
	(*out)->group = group;
	(*out)->number = number;
	twi_list_push_back(&group->ranks->messages, &(*out)->link);
	group->messages = *out;
	return TOW_OK;
}

uint32_t twi_group_rank_of(const struct tow_group *group, const struct tow_peer *peer)
{
	const int64_t rank = peer->engine == group->ranks->engine ? peer->job_rank : -1;

	if (rank >= 0 && rank < group->size && group->members[rank] == rank)
		return (uint32_t)rank;
	for (uint32_t i = 0; i < group->size; i++) {
		if (group->members[i] == rank)
			return i;
	}
	return UINT32_MAX;
}

/* --- channels --- */

/* Returns where the channel at that connection is kept. NULL: the peer is not a member. */
static struct tow_channel **place_of(struct twi_group_messages *messages,
				     const struct tow_peer *peer)
{
	const struct tow_group *group = messages->group;
	uint32_t rank = twi_group_rank_of(group, peer);

	if (rank == UINT32_MAX)
		return NULL;
	return peer == group->ranks->self.back ? &messages->back : &messages->channels[rank];
}

/*
 * Opens a channel. TOW_OK also where the peer has ended: a message that is started there fails so.
 */
static int open_channel(struct twi_group_messages *messages, struct tow_peer *peer,
			struct tow_channel **place)
{
	int status;

	if (twi_likely(*place != NULL) || peer->ended != 0)
		return TOW_OK;
	status = twi_channel_make(peer, messages->number, "a message of a group", place);
	if (status == TOW_OK)
		twi_channel_tell_lane(peer, messages->number);
	return status;
}

/*
 * Opens a channel that the other side has opened. It does not tell the lane: either the lane is
 * being read now, or the caller tells it.
 */
static void open_theirs(struct twi_group_messages *messages, struct tow_peer *peer)
{
	struct tow_channel **place = place_of(messages, peer);
	char group[TWI_LABEL_WORDS];

	if (place == NULL || *place != NULL ||
	    twi_channel_make(peer, messages->number, "a message of a group", place) == TOW_OK)
		return;
	twi_log(peer->engine->diag, 1, "%s: a message of rank %lld is dropped: %.160s",
		twi_label_words(peer->engine->diag, messages->group->id, group),
		(long long)peer->job_rank, tow_error_message());
}

/* Tells the other side that a group was closed here. */
static void refuse_group(struct tow_peer *peer, uint16_t number)
{
	struct tow_channel *channel;

	if (twi_channel_make(peer, number, "a message of a group", &channel) == TOW_OK)
		twi_channel_drop(channel);
}

static bool is_over(const struct twi_ranks *ranks, uint16_t number)
{
	uint32_t id = number - TWI_CHANNEL_GROUPS;

	return id < TWI_COLL_CTX_MAX && (ranks->over[id / 64] >> id % 64 & 1) != 0;
}

/*
 * The other side has opened a channel. If the connection is not a rank's yet, the channel is found
 * later, by twi_group_messages_up.
 */
static void on_opened(struct tow_peer *peer, uint16_t number)
{
	const struct twi_ranks *ranks = peer->home != NULL ? peer->home->ranks : NULL;
	struct twi_group_messages *messages;

	if (ranks == NULL || peer->job_rank < 0)
		return;
	messages = find_messages(ranks, number);
	if (messages != NULL)
		open_theirs(messages, peer);
	else if (is_over(ranks, number))
		refuse_group(peer, number);
}

/* The operation may end some time after its group, when its lane has released the memory. */
static bool say_why(const struct tow_op *op, char *out, size_t room)
{
	const struct tow_endpoint *home = op->peer != NULL ? op->peer->home : NULL;
	const struct twi_ranks *ranks = home != NULL ? home->ranks : NULL;
	const struct twi_group_messages *messages =
		ranks != NULL ? find_messages(ranks, op->channel) : NULL;
	char group[TWI_LABEL_WORDS];

	if (op->status == TOW_EABORTED && messages != NULL && messages->group->aborted)
		snprintf(out, room, "%s", messages->group->abort_why);
	else if (op->status == TOW_ECLOSED && messages == NULL)
		snprintf(
			out, room, "%s was closed",
			twi_label_words(op->engine->diag, op->channel - TWI_CHANNEL_GROUPS, group));
	else if (op->status == TOW_EPEER && op->peer != NULL && op->peer->ended == 0)
		snprintf(
			out, room, "rank %lld of the job, %s, has closed %s",
			(long long)op->peer->job_rank, op->peer->address,
			twi_label_words(op->engine->diag, op->channel - TWI_CHANNEL_GROUPS, group));
	else
		return false;
	return true;
}

const struct twi_group_hooks twi_group_hooks = { .opened = on_opened,
						 .why = say_why,
						 .over = twi_group_is_over };

void twi_group_messages_begin(struct tow_group *group)
{
	struct twi_ranks *ranks = group->ranks;
	struct twi_group_messages *messages;

	twi_assert_held(ranks->engine);
	if (messages_of(group, &messages) < 0)
		return;
	for (uint32_t i = 0; i < group->size; i++) {
		struct tow_peer *peer = ranks->slots[group->members[i]].peer;

		if (peer == NULL || !twi_channel_is_theirs(peer, messages->number))
			continue;
		open_theirs(messages, peer);
		twi_channel_tell_lane(peer, messages->number);
	}
}

/* --- the end --- */

static bool is_in_flight(const struct tow_op *op)
{
	return (atomic_load_explicit(&op->wait.state, memory_order_relaxed) &
		(TWI_OP_USED | TWI_OP_DONE)) == TWI_OP_USED &&
	       (op->kind == TWI_OP_SEND || op->kind == TWI_OP_RECV) &&
	       op->stage != TWI_STAGE_COMPLETING;
}

/* Ends the messages in flight; peerless: only those without a peer. */
static void end_ops(struct twi_engine *engine, uint16_t number, int status, bool peerless)
{
	struct twi_op_table *ops = engine->ops;
	char why[TWI_ERROR_BYTES];

	snprintf(why, sizeof(why), "%s", tow_error_message());
	for (uint32_t i = 0; i < ops->made; i++) {
		struct tow_op *op = &ops->rows[i];

		if (op->channel != number || !is_in_flight(op))
			continue;
		twi_error(status, "%s", why);
		if (op->peer == NULL)
			twi_message_end_any(op, status);
		else if (!peerless)
			twi_message_abort(op, status, true);
	}
	twi_error(status, "%s", why);
}

void twi_group_messages_abort(struct tow_group *group, int status)
{
	twi_assert_held(group->ranks->engine);
	if (group->messages != NULL)
		end_ops(group->ranks->engine, group->messages->number, status, false);
}

static void close_channel(struct tow_channel *channel)
{
	struct tow_peer *peer = channel->peer;
	const uint16_t number = channel->number;

	twi_channel_drop(channel);
	twi_channel_tell_lane(peer, number);
}

void twi_group_messages_close(struct tow_group *group)
{
	struct twi_group_messages *messages = group->messages;
	struct twi_ranks *ranks = group->ranks;
	char words[TWI_LABEL_WORDS];

	twi_assert_held(ranks->engine);
	if (messages == NULL)
		return;
	ranks->over[group->id / 64] |= 1ull << group->id % 64;
	twi_list_remove(&messages->link);
	group->messages = NULL;
	for (uint32_t i = 0; i < group->size; i++) {
		if (messages->channels[i] != NULL)
			close_channel(messages->channels[i]);
	}
	if (messages->back != NULL)
		close_channel(messages->back);
	twi_error(TOW_ECLOSED, "%s was closed",
		  twi_label_words(ranks->engine->diag, group->id, words));
	end_ops(ranks->engine, messages->number, TOW_ECLOSED, true);
	free(messages);
}

/* --- connections --- */

/* Starts a held message, or ends it if its group's channel cannot be opened. */
static void release_held(struct twi_ranks *ranks, struct tow_op *op, struct tow_peer *peer)
{
	struct twi_group_messages *messages = find_messages(ranks, op->channel);
	int status;

	twi_assert(messages != NULL); /* the end of a group ends its held messages */
	status = open_channel(messages, peer, place_of(messages, peer));
	if (status < 0) {
		twi_message_end_any(op, status);
		return;
	}
	if (op->match.wild)
		twi_match_go_wild(&peer->inbox->match);
	twi_message_attach(op, peer);
}

void twi_group_messages_up(struct twi_ranks *ranks, struct twi_slot *slot)
{
	struct tow_peer *back = slot == &ranks->self.slot ? ranks->self.back : NULL;
	struct twi_list *entry;

	twi_assert_held(ranks->engine);
	while ((entry = twi_list_first(&slot->held)) != NULL) {
		struct tow_op *op = twi_container_of(entry, struct tow_op, match.link);

		release_held(ranks, op,
			     back != NULL && op->kind == TWI_OP_RECV ? back : slot->peer);
	}
	twi_channels_each_group(slot->peer, on_opened);
	twi_channel_tell_lane(slot->peer, TWI_CHANNEL_GROUPS);
	if (back != NULL) {
		twi_channels_each_group(back, on_opened);
		twi_channel_tell_lane(back, TWI_CHANNEL_GROUPS);
	}
}

/* --- starts --- */

static int start_connected(struct tow_peer *peer, const struct twi_message *message,
			   const uint64_t *mask, struct twi_parts *parts,
			   const struct tow_op_options *options, struct tow_op **op_out)
{
	if (mask != NULL)
		twi_match_go_wild(&peer->inbox->match);
	if (parts != NULL)
		return twi_message_start_parts(peer, message, mask, parts, options, op_out);
	if (mask != NULL)
		return twi_message_start_wild(peer, message, *mask, options, op_out);
	return twi_message_start(peer, message, options, op_out);
}

int twi_group_message_start(struct tow_group *group, uint32_t rank,
			    const struct twi_message *message, const uint64_t *mask,
			    struct twi_parts *parts, const struct tow_op_options *options,
			    struct tow_op **op_out)
{
	struct twi_ranks *ranks = group->ranks;
	struct twi_slot *slot = twi_ranks_slot(ranks, group->members[rank]);
	const bool comes_back = rank == group->rank && message->kind == TWI_OP_RECV;
	struct twi_message numbered = *message;
	struct twi_group_messages *messages;
	int status;

	twi_assert_held(ranks->engine);
	status = messages_of(group, &messages);
	if (status < 0)
		return status;
	numbered.channel = messages->number;
	if (twi_likely(slot->state == TWI_SLOT_UP)) {
		struct tow_peer *peer = comes_back ? ranks->self.back : slot->peer;
		struct tow_channel **place =
			comes_back ? &messages->back : &messages->channels[rank];

		status = open_channel(messages, peer, place);
		return status < 0 ? status
				  : start_connected(peer, &numbered, mask, parts, options, op_out);
	}
	if (ranks->endpoint == NULL)
		return twi_error(TOW_ENOTSUP, "this rank has no endpoint to reach itself by");
	status = twi_message_hold(ranks->engine, &numbered, mask, parts, options, &slot->held, slot,
				  op_out);
	slot->tries.wanted |= status == TOW_OK;
	if (status == TOW_OK && slot->state == TWI_SLOT_NONE)
		twi_ranks_dial(ranks, group->members[rank]);
	return status;
}

int twi_group_message_start_any(struct tow_group *group, const struct twi_message *message,
				uint64_t mask, struct twi_parts *parts,
				const struct tow_op_options *options, struct tow_op **op_out)
{
	struct twi_ranks *ranks = group->ranks;
	struct twi_message numbered = *message;
	struct twi_group_messages *messages;
	int status;

	twi_assert_held(ranks->engine);
	status = messages_of(group, &messages);
	if (status == TOW_OK && ranks->endpoint == NULL)
		status = twi_error(TOW_ENOTSUP, "this rank has no endpoint to reach itself by");
	if (status < 0)
		return status;
	numbered.channel = messages->number;
	return twi_message_start_any(ranks->endpoint, &numbered, mask, parts, options, op_out);
}

uint16_t twi_group_message_from(struct tow_group *group, uint32_t rank, struct tow_peer **peer_out)
{
	const struct twi_group_messages *messages = group->messages;
	struct tow_channel *channel = NULL;

	if (messages != NULL)
		channel = rank == group->rank ? messages->back : messages->channels[rank];
	*peer_out = channel == NULL ? NULL : channel->peer;
	return messages == NULL ? 0 : messages->number;
}
