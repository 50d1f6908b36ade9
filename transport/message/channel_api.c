/*
 * channel_api.c - the public calls on message channels, and the calls of groups. channel.c does the
 * work.
 */
#include <towline/channel.h>

#include "diag/base/error.h"
#include "transport/lanes/lane.h"
#include "transport/message/channel.h"
#include "transport/op/call.h"
#include "transport/op/channel.h"

/* May the peer have channels? The engine is held. */
static int check_open(const struct tow_peer *peer, uint16_t number, const char *call)
{
	const uint32_t needed =
		TWI_FEATURE_BIT(channels) |
		(number >= TWI_CHANNEL_GROUPS ? TWI_FEATURE_BIT(group_channels) : 0);

	if (peer->ended != 0)
		return twi_error(peer->ended, "%s: %s", call, peer->ended_why);
	if ((peer->features & needed) != needed)
		return twi_error(TOW_ENOTSUP,
				 "%s: peer %s has no channels%s; it is of an older version", call,
				 peer->address, number >= TWI_CHANNEL_GROUPS ? " of groups" : "");
	return TOW_OK;
}

void twi_channel_tell_lane(struct tow_peer *peer, uint16_t number)
{
	if (peer->ended == 0)
		peer->lane->ops->look_again(peer, 0, twi_context_of(TWI_SPACE_USER, number));
}

int twi_channel_make(struct tow_peer *peer, uint16_t number, const char *call,
		     struct tow_channel **out)
{
	struct tow_channel *channel;
	int status = check_open(peer, number, call);

	if (status < 0)
		return status;
	channel = twi_handle_alloc(TWI_HANDLE_CHANNEL, sizeof(*channel));
	if (channel == NULL)
		return twi_error(TOW_ENOMEM, "%s: no memory for channel %u", call, number);
	channel->engine = peer->engine;
	channel->peer = peer;
	channel->number = number;
	status = twi_channel_open(peer, channel);
	if (status < 0) {
		twi_handle_free(&channel->handle, false);
		return status;
	}
	*out = channel;
	return TOW_OK;
}

void twi_channel_drop(struct tow_channel *channel)
{
	twi_channel_close(channel);
	twi_handle_free(&channel->handle, true);
}

bool twi_channel_is_theirs(const struct tow_peer *peer, uint16_t number)
{
	const struct twi_channel *channel = twi_channel_find(peer, number);

	return channel != NULL && channel->theirs;
}

void twi_channels_each_group(struct tow_peer *peer,
			     void (*each)(struct tow_peer *peer, uint16_t number))
{
	const struct twi_channels *channels = peer->channels;
	struct twi_list *pos, *next;

	/* The record of a channel that is open at the other side stays, whatever `each` does. */
	for (uint32_t i = 0; channels != NULL && i < channels->bucket_count; i++) {
		twi_list_for_each_safe (pos, next, &channels->buckets[i].channels) {
			const struct twi_channel *channel =
				twi_container_of(pos, struct twi_channel, link);

			if (channel->number >= TWI_CHANNEL_GROUPS && channel->theirs &&
			    channel->user == NULL)
				each(peer, channel->number);
		}
	}
}

TOW_PUBLIC int tow_channel_open(struct tow_peer *peer, uint32_t number,
				struct tow_channel **channel_out)
{
	struct twi_engine *engine;
	int status;

	if (channel_out == NULL)
		return twi_error(TOW_EINVAL, "tow_channel_open: channel_out is NULL");
	*channel_out = NULL;
	if (number == 0 || number > TOW_CHANNEL_MAX)
		return twi_error(TOW_EINVAL, "tow_channel_open: number is %u, it may be 1 to %u",
				 number, TOW_CHANNEL_MAX);
	status = twi_handle_check(peer, TWI_HANDLE_PEER, "tow_channel_open");
	if (status < 0)
		return status;
	engine = peer->engine;
	status = twi_call_check(engine, "tow_channel_open");
	if (status == TOW_OK)
		status = twi_call_enter_with(engine, peer, TWI_HANDLE_PEER, "tow_channel_open");
	if (status < 0)
		return status;
	status = twi_channel_make(peer, (uint16_t)number, "tow_channel_open", channel_out);
	twi_channel_tell_lane(peer, (uint16_t)number);
	twi_engine_leave(engine);
	return status;
}

TOW_PUBLIC int tow_channel_close(struct tow_channel *channel)
{
	struct twi_engine *engine;
	struct tow_peer *peer;
	uint16_t number;
	int status = twi_handle_check(channel, TWI_HANDLE_CHANNEL, "tow_channel_close");

	if (status < 0)
		return status;
	engine = channel->engine;
	status = twi_call_check(engine, "tow_channel_close");
	if (status == TOW_OK)
		status = twi_call_enter_with(engine, channel, TWI_HANDLE_CHANNEL,
					     "tow_channel_close");
	if (status < 0)
		return status;
	peer = channel->peer;
	number = channel->number;
	twi_channel_drop(channel);
	twi_channel_tell_lane(peer, number);
	twi_engine_leave(engine);
	return TOW_OK;
}

_Static_assert(TOW_CHANNEL_MAX + 1 == TWI_CHANNEL_GROUPS &&
		       TWI_CHANNEL_GROUPS < TWI_CHANNEL_CONTROL,
	       "groups have numbers above the user's, and one number is the library's");
