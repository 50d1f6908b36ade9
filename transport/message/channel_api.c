/*
 * channel_api.c - the public calls on message channels. What they do is channel.c's.
 */
#include <towline/channel.h>

#include "diag/base/error.h"
#include "transport/lanes/lane.h"
#include "transport/message/channel.h"
#include "transport/op/call.h"
#include "transport/op/channel.h"

/* Whether the peer can have channels. The engine is held. */
static int check_open(const struct tow_peer *peer)
{
	if (peer->ended != 0)
		return twi_error(peer->ended, "tow_channel_open: %s", peer->ended_why);
	if ((peer->features & TWI_FEATURE_BIT(channels)) == 0)
		return twi_error(TOW_ENOTSUP,
				 "tow_channel_open: peer %s has no channels; it is of an older "
				 "version",
				 peer->address);
	return TOW_OK;
}

static int open_channel(struct tow_peer *peer, uint32_t number, struct tow_channel **channel_out)
{
	struct tow_channel *channel;
	int status = check_open(peer);

	if (status < 0)
		return status;
	channel = twi_handle_alloc(TWI_HANDLE_CHANNEL, sizeof(*channel));
	if (channel == NULL)
		return twi_error(TOW_ENOMEM, "tow_channel_open: no memory for channel %u", number);
	channel->engine = peer->engine;
	channel->peer = peer;
	channel->number = (uint16_t)number;
	status = twi_channel_open(peer, channel);
	if (status < 0)
		twi_handle_free(&channel->handle, false);
	else
		*channel_out = channel;
	return status;
}

/* What was said is with the lane, which was not asked to send anything: it has work. */
static void tell_lane(struct tow_peer *peer, uint16_t number)
{
	if (peer->ended == 0)
		peer->lane->ops->look_again(peer, 0, twi_context_of(TWI_SPACE_USER, number));
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
	status = open_channel(peer, number, channel_out);
	tell_lane(peer, (uint16_t)number);
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
	twi_channel_close(channel);
	twi_handle_free(&channel->handle, true);
	tell_lane(peer, number);
	twi_engine_leave(engine);
	return TOW_OK;
}

_Static_assert(TOW_CHANNEL_MAX < TWI_CHANNEL_CONTROL, "one number is the library's");
