/*
 * recv_match.c - the public calls that take a struct tow_match: receives by a mask of tags,
 * receives of any peer, and probes.
 */
#include <towline/channel.h>
#include <towline/match.h>

#include "diag/base/error.h"
#include "diag/base/sized.h"
#include "diag/record/site.h"
#include "transport/message/channel.h"
#include "transport/message/inbox.h"
#include "transport/op/call.h"
#include "transport/op/message.h"
#include "transport/op/parts.h"
#include "transport/wire/frame.h"

/* On success *match_io has the library's size. TOW_OK, TOW_EINVAL. */
static int check_match(const char *call, const struct tow_match **match_io, struct tow_match *known)
{
	int status;

	if (*match_io == NULL)
		return twi_error(TOW_EINVAL, "%s: match is NULL", call);
	status = TWI_SIZED_IN(tow_match, call, *match_io, known);
	if (status == TOW_OK && (*match_io)->channel > TOW_CHANNEL_MAX)
		return twi_error(TOW_EINVAL, "%s: match->channel is %llu, it may be 0 to %u", call,
				 (unsigned long long)(*match_io)->channel, TOW_CHANNEL_MAX);
	return status;
}

/*
 * A receive of any peer names a channel by its number alone. On success *options_io has the
 * library's size. TOW_OK, TOW_EINVAL.
 */
static int check_options(const char *call, const struct tow_match *match,
			 const struct tow_op_options **options_io, struct tow_op_options *known)
{
	int status = TWI_SIZED_IN(tow_op_options, call, *options_io, known);

	if (status == TOW_OK && match->peer == NULL && *options_io != NULL &&
	    (*options_io)->channel != NULL)
		return twi_error(TOW_EINVAL,
				 "%s: options->channel belongs to one peer, but match->peer is "
				 "NULL: set match->channel to the number of a channel instead",
				 call);
	return status;
}

/*
 * The engine is held. TOW_ECLOSED: the peer or its channel was closed; TOW_EINVAL: the peer belongs
 * to another endpoint.
 */
static int check_peer(const char *call, const struct tow_endpoint *endpoint,
		      const struct tow_match *match)
{
	int status;

	if (match->peer == NULL)
		return TOW_OK;
	status = twi_handle_check(match->peer, TWI_HANDLE_PEER, call);
	if (status == TOW_OK &&
	    (match->peer->engine != endpoint->engine || match->peer->home != endpoint))
		return twi_error(TOW_EINVAL, "%s: match->peer is no peer of endpoint %s", call,
				 endpoint->address);
	if (status == TOW_OK && match->channel != 0 &&
	    twi_inbox_is_dropped(match->peer->inbox, (uint16_t)match->channel))
		return twi_error(TOW_ECLOSED, "%s: match->channel is %u, which is not open at %s",
				 call, (unsigned)match->channel, match->peer->address);
	return status;
}

/* Begins a call with an endpoint and a match. TOW_OK: the engine is held. */
static int enter_call(const char *call, struct tow_endpoint *endpoint,
		      const struct tow_match **match_io, struct tow_match *known)
{
	int status = twi_handle_check(endpoint, TWI_HANDLE_ENDPOINT, call);

	if (status == TOW_OK)
		status = check_match(call, match_io, known);
	if (status == TOW_OK)
		status = twi_call_check(endpoint->engine, call);
	if (status == TOW_OK)
		status = twi_call_enter_with(endpoint->engine, endpoint, TWI_HANDLE_ENDPOINT, call);
	if (status < 0)
		return status;
	status = check_peer(call, endpoint, *match_io);
	if (status < 0)
		twi_engine_leave(endpoint->engine);
	return status;
}

/* The engine is held. After a failure the parts belong to the caller. */
static int start_recv(struct tow_endpoint *endpoint, const struct tow_match *match,
		      const struct twi_message *message, struct twi_parts *parts,
		      const struct tow_op_options *options, struct tow_op **op_out)
{
	const uint64_t *mask = match->tag_mask != UINT64_MAX ? &match->tag_mask : NULL;

	if (match->peer == NULL)
		return twi_message_start_any(endpoint, message, match->tag_mask, parts, options,
					     op_out);
	if (mask != NULL)
		twi_match_go_wild(&match->peer->inbox->match);
	if (parts != NULL)
		return twi_message_start_parts(match->peer, message, mask, parts, options, op_out);
	if (mask != NULL)
		return twi_message_start_wild(match->peer, message, *mask, options, op_out);
	return twi_message_start(match->peer, message, options, op_out);
}

TOW_PUBLIC int tow_recv_match_start(struct tow_endpoint *endpoint, const struct tow_match *match,
				    const struct tow_part *parts, uint32_t part_count,
				    const struct tow_op_options *options, struct tow_op **op_out)
{
	static const char call[] = "tow_recv_match_start";
	struct twi_message message = { .kind = TWI_OP_RECV, .site = TWI_SITE_HERE };
	struct twi_parts *record = NULL;
	struct tow_op_options adapted;
	struct twi_engine *engine;
	struct tow_match known;
	struct tow_part whole;
	int status;

	if (op_out != NULL)
		*op_out = NULL;
	status = enter_call(call, endpoint, &match, &known);
	if (status < 0)
		return status;
	engine = endpoint->engine;
	status = check_options(call, match, &options, &adapted);
	if (status == TOW_OK)
		status = twi_parts_create(call, engine->pool, parts, part_count, &whole, &record);
	if (status == TOW_OK) {
		message.view = part_count == 0;
		message.data = whole.data;
		message.bytes = record != NULL   ? record->bytes
				: part_count > 0 ? whole.bytes
						 : TWI_WIRE_U63_MAX;
		message.tag = match->tag;
		message.channel = (uint16_t)match->channel;
		status = start_recv(endpoint, match, &message, record, options, op_out);
	}
	if (status < 0)
		twi_parts_destroy(record);
	twi_engine_leave(engine);
	return status;
}

/* The peer's message that a receive would take if it was started now, or NULL. */
static const struct twi_unexpected *find_message(struct tow_peer *peer,
						 const struct tow_match *match)
{
	struct twi_match *table = &peer->inbox->match;
	const struct twi_match_entry recv = {
		.tag = match->tag & match->tag_mask,
		.tag_mask = match->tag_mask,
		.order = UINT64_MAX, /* it is the youngest */
		.context = twi_context_of(TWI_SPACE_USER, (uint16_t)match->channel),
		.wild = match->tag_mask != UINT64_MAX,
	};
	struct twi_match_entry *entry;

	if (recv.wild)
		twi_match_go_wild(table);
	entry = twi_match_meets(table, &recv);
	return entry == NULL ? NULL : twi_container_of(entry, struct twi_unexpected, match);
}

static int look_at(struct tow_peer *peer, const struct tow_match *match, struct tow_result *out)
{
	const struct twi_unexpected *message = find_message(peer, match);

	if (message == NULL)
		return TOW_AGAIN;
	*out = (struct tow_result){ .size = sizeof(*out),
				    .bytes = message->bytes,
				    .tag = message->match.tag,
				    .rpc_id = twi_peer_rpc_id(peer, message->seq, false),
				    .peer = peer };
	return TOW_OK;
}

/* The peer has no message: TOW_AGAIN, or the status with which it or its channel has ended. */
static int none_of(const struct tow_peer *peer, const struct tow_match *match)
{
	int status = TOW_OK;

	if (peer->inbox->failed != 0)
		return twi_error(peer->inbox->failed, "tow_probe: %s", peer->ended_why);
	if (match->channel != 0)
		status = twi_channel_status(peer, (uint16_t)match->channel);
	return status < 0 ? status : TOW_AGAIN;
}

/* The engine is held. TOW_OK, TOW_AGAIN, or the status with which the peer has ended. */
static int look_once(const struct tow_endpoint *endpoint, const struct tow_match *match,
		     struct tow_result *out)
{
	struct tow_peer *peer = match->peer;
	int status;

	if (peer != NULL) {
		status = look_at(peer, match, out);
		return status == TOW_AGAIN ? none_of(peer, match) : status;
	}
	for (struct twi_list *pos = endpoint->peers.next; pos != &endpoint->peers;
	     pos = pos->next) {
		status = look_at(twi_container_of(pos, struct tow_peer, home_link), match, out);
		if (status == TOW_OK)
			return TOW_OK;
	}
	return TOW_AGAIN;
}

int twi_probe(struct tow_endpoint *endpoint, const struct tow_match *match, struct tow_result *out)
{
	int status = look_once(endpoint, match, out);

	if (status != TOW_AGAIN)
		return status;
	twi_call_drive(endpoint->engine);
	/* A callback may have closed the endpoint or the peer. */
	status = twi_handle_check(endpoint, TWI_HANDLE_ENDPOINT, "tow_probe");
	if (status == TOW_OK)
		status = check_peer("tow_probe", endpoint, match);
	return status < 0 ? status : look_once(endpoint, match, out);
}

TOW_PUBLIC int tow_probe(struct tow_endpoint *endpoint, const struct tow_match *match,
			 struct tow_result *result_out)
{
	struct tow_result result;
	struct tow_match known;
	struct twi_engine *engine;
	int status;

	if (twi_sized_check_out(TWI_SIZED_tow_result, "tow_probe", result_out) < 0)
		return TOW_EINVAL;
	status = enter_call("tow_probe", endpoint, &match, &known);
	if (status < 0)
		return status;
	engine = endpoint->engine;
	status = twi_probe(endpoint, match, &result);
	twi_engine_leave(engine);
	if (status < 0 || status == TOW_AGAIN)
		return status;
	return TWI_SIZED_OUT(tow_result, "tow_probe", &result, result_out);
}
