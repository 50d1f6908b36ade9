/*
 * channel.c - the channels of a peer: their table, their control messages, and their end. See
 * channel.h. outbox.c queues and sends messages on channels; inbox.c matches those that come.
 */
#include "transport/message/channel.h"

#include <stdlib.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/base/hash.h"
#include "transport/engine/part.h"
#include "transport/message/inbox.h"
#include "transport/message/outbox.h"
#include "transport/op/channel.h"
#include "transport/op/message.h"
#include "transport/wire/frame.h"
#include "transport/wire/rule.h"

#define BUCKETS_LEAST 16u

/* --- control messages --- */

uint64_t twi_channel_control_put(const struct twi_channel_control *control)
{
	twi_assert(control->value <= TWI_CHANNEL_VALUE_MAX);
	return control->number | (uint64_t)control->kind << 16 | control->value << 24;
}

bool twi_channel_control_get(uint64_t tag, struct twi_channel_control *out)
{
	const uint8_t kind = (uint8_t)(tag >> 16);

	out->number = (uint16_t)tag;
	out->value = tag >> 24;
	if (kind == 0 || kind >= TWI_CHANNEL_KINDS || out->number == TWI_CHANNEL_CONTROL)
		return false;
	out->kind = (enum twi_channel_kind)kind;
	switch (out->kind) {
	case TWI_CHANNEL_OPEN:
		return out->number != 0 && out->value >= twi_frame_cost(0);
	case TWI_CHANNEL_CREDIT:
		return out->value != 0;
	default:
		return out->number != 0 && out->value == 0;
	}
}

/* --- the table --- */

struct twi_channel_bucket *twi_channel_bucket(const struct twi_channels *channels, uint16_t number)
{
	return &channels->buckets[twi_hash_spread(number) >> 32 & (channels->bucket_count - 1)];
}

struct twi_channel *twi_channel_find(const struct tow_peer *peer, uint16_t number)
{
	struct twi_list *head;

	if (peer->channels == NULL)
		return NULL;
	head = &twi_channel_bucket(peer->channels, number)->channels;
	for (struct twi_list *pos = head->next; pos != head; pos = pos->next) {
		struct twi_channel *channel = twi_container_of(pos, struct twi_channel, link);

		if (channel->number == number)
			return channel;
	}
	return NULL;
}

static struct twi_channel_bucket *buckets_new(uint32_t count)
{
	struct twi_channel_bucket *buckets = malloc(count * sizeof(buckets[0]));

	for (uint32_t i = 0; buckets != NULL && i < count; i++) {
		twi_list_init(&buckets[i].channels);
		twi_list_init(&buckets[i].ops);
	}
	return buckets;
}

static struct twi_channels *channels_new(void)
{
	struct twi_channels *channels = calloc(1, sizeof(*channels));

	if (channels == NULL)
		return NULL;
	channels->bucket_count = BUCKETS_LEAST;
	channels->buckets = buckets_new(channels->bucket_count);
	if (channels->buckets == NULL) {
		free(channels);
		return NULL;
	}
	twi_list_init(&channels->owing);
	twi_list_init(&channels->turns);
	return channels;
}

/* Doubles the number of buckets. Without memory for that, chains grow longer. */
static void grow_table(struct twi_channels *channels)
{
	struct twi_channels wider = { .bucket_count = channels->bucket_count * 2 };

	wider.buckets = buckets_new(wider.bucket_count);
	if (wider.buckets == NULL)
		return;
	for (uint32_t i = 0; i < channels->bucket_count; i++) {
		struct twi_list *pos, *next;

		twi_list_for_each_safe (pos, next, &channels->buckets[i].channels) {
			const struct twi_channel *channel =
				twi_container_of(pos, struct twi_channel, link);

			twi_list_remove(pos);
			twi_list_push_back(&twi_channel_bucket(&wider, channel->number)->channels,
					   pos);
		}
		twi_channel_move_ops(&channels->buckets[i].ops, &wider);
	}
	free(channels->buckets);
	channels->buckets = wider.buckets;
	channels->bucket_count = wider.bucket_count;
}

/* The channel of that number, made if it does not exist. NULL: no memory. */
static struct twi_channel *channel_need(struct tow_peer *peer, uint16_t number)
{
	struct twi_channel *channel = twi_channel_find(peer, number);

	if (channel != NULL)
		return channel;
	if (peer->channels == NULL)
		peer->channels = channels_new();
	channel = peer->channels == NULL ? NULL : calloc(1, sizeof(*channel));
	if (channel == NULL) {
		twi_error(TOW_ENOMEM, "no memory for channel %u", number);
		return NULL;
	}
	channel->number = number;
	channel->peer = peer;
	twi_list_init(&channel->ending);
	twi_list_init(&channel->owing);
	twi_list_init(&channel->turn);
	twi_list_init(&channel->queued);
	if (peer->channels->count >= peer->channels->bucket_count)
		grow_table(peer->channels);
	twi_list_push_back(&twi_channel_bucket(peer->channels, number)->channels, &channel->link);
	peer->channels->count++;
	return channel;
}

static void channel_free(struct twi_channels *channels, struct twi_channel *channel)
{
	twi_list_remove(&channel->link);
	twi_list_remove(&channel->owing);
	twi_list_remove(&channel->turn);
	twi_list_remove(&channel->ending);
	channels->count--;
	free(channel);
}

/* Frees the channel if neither side has it open and no control message is left to send. */
static void channel_settle(struct twi_channels *channels, struct twi_channel *channel)
{
	if (channel->user == NULL && !channel->theirs && !channel->closing && channel->owes == 0 &&
	    twi_list_empty(&channel->queued))
		channel_free(channels, channel);
}

bool twi_channel_is_open(const struct twi_channel *channel)
{
	return channel != NULL && !channel->ended && (channel->user != NULL || channel->closing);
}

/* --- control messages that wait to be sent --- */

static void owe_control(struct twi_channels *channels, struct twi_channel *channel, uint8_t what)
{
	channel->owes |= what;
	twi_list_remove(&channel->owing);
	twi_list_push_back(&channels->owing, &channel->owing);
}

static bool control_send(struct tow_peer *peer, enum twi_channel_kind kind, uint16_t number,
			 uint64_t value)
{
	const struct twi_channel_control control = { kind, number, value };

	return twi_outbox_control(peer->outbox, twi_channel_control_put(&control));
}

/* The credit that has been given back since the last report. */
static uint64_t credit_due(const struct twi_credit_in *credit)
{
	return twi_min(credit->given - credit->reported, TWI_CHANNEL_VALUE_MAX);
}

static bool credit_send(struct tow_peer *peer, uint16_t number, struct twi_credit_in *credit)
{
	const uint64_t due = credit_due(credit);

	if (due != 0 && !control_send(peer, TWI_CHANNEL_CREDIT, number, due))
		return false;
	credit->reported += due;
	return true;
}

/* Sends one of the control messages that wait for a channel. False: there is no room. */
static bool control_send_next(struct tow_peer *peer, struct twi_channel *channel)
{
	const uint16_t number = channel->number;
	const uint8_t what = channel->owes & (uint8_t)-channel->owes; /* the lowest bit first */
	bool said;

	if (what == TWI_OWES_OPEN)
		said = control_send(peer, TWI_CHANNEL_OPEN, number, channel->in.bytes);
	else if (what == TWI_OWES_CREDIT)
		said = credit_send(peer, number, &channel->in);
	else
		said = control_send(peer, TWI_CHANNEL_CLOSE, number, 0);
	if (said)
		channel->owes &= (uint8_t)~what;
	return said;
}

unsigned twi_channels_flush(struct tow_peer *peer)
{
	struct twi_channels *channels = peer->channels;
	struct twi_outbox *outbox = peer->outbox;
	struct twi_list *entry;
	unsigned count = 0;

	if (outbox->failed != 0)
		return 0;
	if (outbox->owes_credit) {
		if (!credit_send(peer, 0, &peer->inbox->credit))
			return 0;
		outbox->owes_credit = false;
		count++;
	}
	while (channels != NULL && (entry = twi_list_first(&channels->owing)) != NULL) {
		struct twi_channel *channel = twi_container_of(entry, struct twi_channel, owing);

		while (channel->owes != 0) {
			if (!control_send_next(peer, channel))
				return count;
			count++;
		}
		twi_list_remove(entry);
		channel_settle(channels, channel);
	}
	return count;
}

/* Sends what waits now, or when there is room. */
static void control_flush(struct tow_peer *peer)
{
	struct twi_outbox *outbox = peer->outbox;

	twi_channels_flush(peer);
	if (twi_outbox_owes(outbox) && outbox->ops->waits != NULL)
		outbox->ops->waits(outbox, NULL);
}

void twi_channels_return_credit(struct tow_peer *peer)
{
	peer->outbox->owes_credit = true;
	control_flush(peer);
}

/* See inbox.h. */
void twi_channel_give(struct tow_peer *peer, uint16_t number, uint64_t payload_bytes)
{
	struct twi_channel *channel = twi_channel_find(peer, number);

	if (channel == NULL)
		return; /* it was closed since then */
	channel->in.given += twi_frame_cost((uint32_t)payload_bytes);
	twi_assert_hot(channel->in.given <= channel->in.charged);
	if (twi_credit_is_due(&channel->in) && channel->user != NULL && !channel->ended) {
		owe_control(peer->channels, channel, TWI_OWES_CREDIT);
		control_flush(peer);
	}
}

/* --- the end of a channel --- */

static int ended_error(const struct tow_peer *peer, uint16_t number)
{
	char group[TWI_LABEL_WORDS];

	if (number >= TWI_CHANNEL_GROUPS)
		return twi_error(
			TOW_EPEER, "rank %lld of the job, %s, has closed %s",
			(long long)peer->job_rank, peer->address,
			twi_label_words(peer->engine->diag, number - TWI_CHANNEL_GROUPS, group));
	return twi_error(TOW_EPEER, "peer %s has closed channel %u", peer->address, number);
}

static int closed_error(const struct tow_peer *peer, uint16_t number)
{
	char group[TWI_LABEL_WORDS];

	if (number >= TWI_CHANNEL_GROUPS)
		return twi_error(
			TOW_ECLOSED, "%s was closed",
			twi_label_words(peer->engine->diag, number - TWI_CHANNEL_GROUPS, group));
	return twi_error(TOW_ECLOSED, "channel %u of peer %s was closed", number, peer->address);
}

int twi_channel_status(const struct tow_peer *peer, uint16_t number)
{
	const struct twi_channel *channel = twi_channel_find(peer, number);

	if (channel == NULL || channel->user == NULL)
		return closed_error(peer, number);
	return channel->ended ? ended_error(peer, number) : TOW_OK;
}

void twi_channel_close(struct tow_channel *user)
{
	struct tow_peer *peer = user->peer;
	const uint16_t number = user->number;
	struct twi_channel *channel = twi_channel_find(peer, number);
	bool ended;

	twi_assert_held(peer->engine);
	twi_assert(channel != NULL && channel->user == user);
	channel->user = NULL;
	channel->closing = true; /* the record stays until CLOSE is queued */
	channel->leaving = true; /* also if ending the sends reads the other side's CLOSE */
	peer->channels->open--;
	channel->owes &= (uint8_t)~TWI_OWES_CREDIT;
	twi_list_remove(&channel->ending);
	/*
	 * Before anything is put back: from here on, a receive of any peer gets no message of the
	 * channel.
	 */
	twi_inbox_drop_channel(peer->inbox, number);
	/* Before CLOSE is sent: a peer that reads it must not hold an offer of a closed channel. */
	(void)closed_error(peer, number);
	twi_channel_end_ops(peer, number, TOW_ECLOSED, TWI_END_SENDS);
	ended = channel->ended;
	channel->leaving = false;
	channel->closing = false;
	channel->ended = false;
	if ((channel->owes & TWI_OWES_OPEN) != 0) { /* the other side never heard of the channel */
		channel->owes &= (uint8_t)~TWI_OWES_OPEN;
	} else if (peer->outbox->failed == 0) {
		channel->closing = !ended;
		owe_control(peer->channels, channel, TWI_OWES_CLOSE);
	}
	control_flush(peer); /* and before anything is refused, so that the other side knows why */
	(void)closed_error(peer, number);
	twi_channel_end_ops(peer, number, TOW_ECLOSED, TWI_END_RECEIVES);
	if (ended)
		twi_inbox_forget_channel(peer->inbox, number);
	else
		twi_inbox_drop_channel(peer->inbox, number);
	channel = twi_channel_find(peer, number);
	if (channel != NULL)
		channel_settle(peer->channels, channel);
}

int twi_channel_open(struct tow_peer *peer, struct tow_channel *user)
{
	struct twi_channel *channel;

	twi_assert_held(peer->engine);
	channel = channel_need(peer, user->number);
	if (channel == NULL)
		return TOW_ENOMEM;
	if (channel->user != NULL)
		return twi_error(TOW_EBUSY, "channel %u of peer %s is open", user->number,
				 peer->address);
	if (channel->closing || (channel->owes & TWI_OWES_CLOSE) != 0)
		return twi_error(TOW_EBUSY,
				 "channel %u was closed here, and peer %s has not closed it yet",
				 user->number, peer->address);
	channel->user = user;
	channel->in = (struct twi_credit_in){ .bytes = peer->inbox->credit.bytes };
	peer->channels->open++;
	owe_control(peer->channels, channel, TWI_OWES_OPEN);
	control_flush(peer);
	return TOW_OK;
}

/* --- control messages that come --- */

/*
 * The other side has closed channels: their operations end when the lanes are at rest. While a lane
 * is reading, it must not be asked to let go of an operation.
 */
static unsigned end_channels(struct twi_engine *engine, struct twi_list *items)
{
	struct twi_list *entry;
	unsigned count = 0;

	twi_assert_held(engine);
	while ((entry = twi_list_first(items)) != NULL) {
		const struct twi_channel *channel =
			twi_container_of(entry, struct twi_channel, ending);

		struct tow_peer *peer = channel->peer;
		const uint16_t number = channel->number;

		twi_list_remove(entry);
		(void)ended_error(peer, number);
		/* A receive with a message ends when that is taken back (twi_inbox_repost). */
		twi_channel_end_ops(peer, number, TOW_EPEER, TWI_END_SENDS);
		(void)ended_error(peer, number);
		twi_channel_end_ops(peer, number, TOW_EPEER, TWI_END_POSTED);
		count++;
	}
	return count;
}

static uint64_t end_channels_at_ns(struct twi_engine *engine, struct twi_list *items,
				   uint64_t next_ns)
{
	(void)items;
	return twi_min(next_ns, twi_engine_now(engine));
}

static const struct twi_part_ops ending_part = { .poll = end_channels,
						 .deadline_ns = end_channels_at_ns };

static int channel_rule_error(const struct tow_peer *peer, uint8_t *rule, enum twi_rule which,
			      const char *what, uint16_t number)
{
	*rule = *rule != 0 ? *rule : (uint8_t)which;
	return twi_rule_error(peer->address, which, "%s channel %u", what, number);
}

static int on_open(struct tow_peer *peer, const struct twi_channel_control *in, uint8_t *rule)
{
	struct twi_channel *channel = channel_need(peer, in->number);

	if (channel == NULL)
		return TOW_ENOMEM;
	if (channel->theirs || channel->ended)
		return channel_rule_error(peer, rule, TWI_RULE_CHANNEL_CONTROL,
					  "opened, without both having closed it,", in->number);
	channel->theirs = true;
	channel->out = (struct twi_credit_out){ .bytes = in->value };
	twi_outbox_drain(peer->outbox, UINT32_MAX);
	if (in->number >= TWI_CHANNEL_GROUPS && channel->user == NULL)
		peer->engine->hooks.group->opened(peer, in->number);
	return TOW_OK;
}

static int on_credit(struct tow_peer *peer, const struct twi_channel_control *in, uint8_t *rule)
{
	struct twi_channel *channel = in->number == 0 ? NULL : twi_channel_find(peer, in->number);
	struct twi_credit_out *out = channel != NULL ? &channel->out : &peer->outbox->credit;

	if (in->number != 0 && (channel == NULL || !channel->theirs))
		return channel_rule_error(peer, rule, TWI_RULE_CHANNEL, "gave credit for",
					  in->number);
	if (in->value > out->used - out->returned)
		return channel_rule_error(peer, rule, TWI_RULE_CREDIT_BACK,
					  "returned credit that was never used, of", in->number);
	out->returned += in->value;
	twi_outbox_drain(peer->outbox, UINT32_MAX);
	return TOW_OK;
}

static int on_close(struct tow_peer *peer, uint16_t number, uint8_t *rule)
{
	struct twi_channel *channel = twi_channel_find(peer, number);

	if (channel == NULL || (!channel->theirs && !channel->closing))
		return channel_rule_error(peer, rule, TWI_RULE_CHANNEL, "closed", number);
	channel->theirs = false;
	if (channel->leaving) {
		channel->ended = true;
		channel->out = (struct twi_credit_out){ 0 };
	} else if (channel->closing) {
		channel->closing = false;
		twi_inbox_forget_channel(peer->inbox, number);
		channel_settle(peer->channels, channel);
	} else if (channel->user != NULL) {
		channel->ended = true;
		channel->out = (struct twi_credit_out){ 0 }; /* nothing is sent there any more */
		channel->owes &= (uint8_t)~TWI_OWES_CREDIT;
		twi_part_add(peer->engine, TWI_PART_CHANNELS, &ending_part, &channel->ending);
		peer->engine->armed_since_enter = true; /* a sleeping driver must wake up for it */
	} else {
		owe_control(peer->channels, channel, TWI_OWES_REPLY);
		control_flush(peer);
	}
	return TOW_OK;
}

int twi_channels_received(struct tow_peer *peer, const struct twi_inbound *in, uint8_t *rule)
{
	struct twi_channel_control control;

	if (in->bytes != 0 || in->space != TWI_SPACE_LINK ||
	    !twi_channel_control_get(in->tag, &control)) {
		*rule = *rule != 0 ? *rule : (uint8_t)TWI_RULE_CHANNEL_CONTROL;
		return twi_rule_error(peer->address, TWI_RULE_CHANNEL_CONTROL,
				      "sent the unknown value %#llx about a channel",
				      (unsigned long long)in->tag);
	}
	if (control.number != 0 && (peer->features & TWI_FEATURE_BIT(channels)) == 0)
		return channel_rule_error(peer, rule, TWI_RULE_FEATURE,
					  "sent, without the feature, a control message "
					  "about",
					  control.number);
	switch (control.kind) {
	case TWI_CHANNEL_OPEN:
		return on_open(peer, &control, rule);
	case TWI_CHANNEL_CREDIT:
		return on_credit(peer, &control, rule);
	default:
		return on_close(peer, control.number, rule);
	}
}

/* --- the end of the peer --- */

void twi_channels_fail(struct tow_peer *peer)
{
	struct twi_channels *channels = peer->channels;
	struct twi_list *entry;

	while (channels != NULL && (entry = twi_list_first(&channels->owing)) != NULL) {
		struct twi_channel *channel = twi_container_of(entry, struct twi_channel, owing);

		twi_list_remove(entry);
		channel->owes = 0;
		channel_settle(channels, channel);
	}
}

void twi_channels_leave(struct tow_peer *peer)
{
	struct twi_channels *channels = peer->channels;
	struct twi_list *pos, *next;

	for (uint32_t i = 0; channels != NULL && i < channels->bucket_count; i++) {
		twi_list_for_each_safe (pos, next, &channels->buckets[i].channels) {
			struct twi_channel *channel =
				twi_container_of(pos, struct twi_channel, link);

			if (channel->user != NULL)
				twi_handle_free(&channel->user->handle, true);
			channel->user = NULL;
		}
	}
}

void twi_channels_fini(struct tow_peer *peer)
{
	struct twi_channels *channels = peer->channels;
	struct twi_list *pos, *next;

	if (channels == NULL)
		return;
	twi_channels_leave(peer);
	for (uint32_t i = 0; i < channels->bucket_count; i++) {
		twi_list_for_each_safe (pos, next, &channels->buckets[i].channels)
			channel_free(channels, twi_container_of(pos, struct twi_channel, link));
		twi_assert(twi_list_empty(&channels->buckets[i].ops));
	}
	free(channels->buckets);
	free(channels);
	peer->channels = NULL;
}

void twi_channels_describe(const struct tow_peer *peer, struct twi_emit *emit)
{
	twi_emit_u64(emit, "channels_open", peer->channels == NULL ? 0 : peer->channels->open);
}
