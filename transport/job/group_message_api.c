/*
 * group_message_api.c - the public calls on the messages of groups; group_message.c does the work.
 */
#include <towline/group_message.h>

#include "diag/base/error.h"
#include "diag/base/sized.h"
#include "diag/record/site.h"
#include "transport/job/group_message.h"
#include "transport/message/inbox.h"
#include "transport/op/call.h"
#include "transport/op/op_options.h"
#include "transport/op/parts.h"

static int check_rank(const struct tow_group *group, const char *call, uint64_t rank)
{
	if (rank < group->size)
		return TOW_OK;
	return twi_error(TOW_EINVAL, "%s: rank is %llu, the group has %u", call,
			 (unsigned long long)rank, group->size);
}

static int check_memory(const char *call, const void *data, uint64_t bytes)
{
	if (data == NULL && bytes > 0)
		return twi_error(TOW_EINVAL, "%s: data is NULL", call);
	if (bytes > (uint64_t)INT64_MAX)
		return twi_error(TOW_EINVAL, "%s: bytes is %llu, the most is 2^63-1", call,
				 (unsigned long long)bytes);
	return TOW_OK;
}

/* Checks options, in which no channel may be set: the group is the channel. */
static int check_options(struct twi_engine *engine, const char *call, uint64_t flags,
			 const struct tow_op_options **options_io, struct tow_op_options *known)
{
	int status =
		twi_op_options_with(engine, call, flags | TWI_OP_ALLOW_CHANNEL, options_io, known);

	if (status == TOW_OK && *options_io != NULL && (*options_io)->channel != NULL)
		return twi_error(TOW_EINVAL,
				 "%s: options->channel is set; messages of a group have no other "
				 "channel than the group",
				 call);
	return status;
}

/* Takes the engine and checks the group. After a failure the engine is not held. */
static int enter_group(struct tow_group *group, const char *call)
{
	struct twi_engine *engine = group->ranks->engine;
	int status;

	twi_call_enter(engine);
	status = twi_handle_check(group, TWI_HANDLE_GROUP, call);
	if (status == TOW_OK)
		status = twi_call_check(engine, call);
	if (status == TOW_OK && group->ranks->closing)
		status = twi_error(TOW_ECLOSED, "%s: the group is being closed", call);
	if (status == TOW_OK && group->aborted)
		status = twi_error(TOW_EABORTED, "%s: %s", call, group->abort_why);
	if (status < 0)
		twi_engine_leave(engine);
	return status;
}

int twi_group_message_call(struct tow_group *group, const char *call, uint32_t rank,
			   const struct twi_message *message, const struct tow_op_options *options,
			   struct tow_op **op_out)
{
	const uint64_t flag = message->kind == TWI_OP_RECV ? TOW_OP_TRUNCATE : TOW_OP_LEND;
	int status = twi_group_check(group, call);
	struct tow_op_options known;

	if (op_out != NULL)
		*op_out = NULL;
	if (status == TOW_OK)
		status = check_rank(group, call, rank);
	if (status == TOW_OK)
		status = check_memory(call, message->data, message->bytes);
	if (status == TOW_OK)
		status = check_options(group->ranks->engine, call, flag, &options, &known);
	if (status == TOW_OK)
		status = enter_group(group, call);
	if (status < 0)
		return status;
	status = twi_group_message_start(group, rank, message, NULL, NULL, options, op_out);
	twi_engine_leave(group->ranks->engine);
	return status;
}

TOW_PUBLIC int tow_group_send_start(struct tow_group *group, uint32_t rank, const void *data,
				    uint64_t bytes, uint64_t tag,
				    const struct tow_op_options *options, struct tow_op **op_out)
{
	const struct twi_message message = { .kind = TWI_OP_SEND,
					     .data = (void *)(uintptr_t)data,
					     .bytes = bytes,
					     .tag = tag,
					     .site = TWI_SITE_HERE };

	return twi_group_message_call(group, "tow_group_send_start", rank, &message, options,
				      op_out);
}

TOW_PUBLIC int tow_group_recv_start(struct tow_group *group, uint32_t rank, void *data,
				    uint64_t bytes, uint64_t tag,
				    const struct tow_op_options *options, struct tow_op **op_out)
{
	const struct twi_message message = {
		.kind = TWI_OP_RECV, .data = data, .bytes = bytes, .tag = tag, .site = TWI_SITE_HERE
	};

	return twi_group_message_call(group, "tow_group_recv_start", rank, &message, options,
				      op_out);
}

/* Checks a match. TOW_OK: *match_io has the library's size, and names a rank or all. */
static int check_match(const struct tow_group *group, const char *call,
		       const struct tow_group_match **match_io, struct tow_group_match *known)
{
	int status;

	if (*match_io == NULL)
		return twi_error(TOW_EINVAL, "%s: match is NULL", call);
	status = TWI_SIZED_IN(tow_group_match, call, *match_io, known);
	if (status == TOW_OK && (*match_io)->rank != TOW_RANK_ANY)
		status = check_rank(group, call, (*match_io)->rank);
	return status;
}

/* Starts a receive with the engine held. After a failure the caller owns the parts. */
static int start_match(struct tow_group *group, const struct tow_group_match *match,
		       const struct twi_message *message, struct twi_parts *parts,
		       const struct tow_op_options *options, struct tow_op **op_out)
{
	const uint64_t *mask = match->tag_mask != UINT64_MAX ? &match->tag_mask : NULL;

	if (match->rank == TOW_RANK_ANY)
		return twi_group_message_start_any(group, message, match->tag_mask, parts, options,
						   op_out);
	return twi_group_message_start(group, (uint32_t)match->rank, message, mask, parts, options,
				       op_out);
}

TOW_PUBLIC int tow_group_recv_match_start(struct tow_group *group,
					  const struct tow_group_match *match,
					  const struct tow_part *parts, uint32_t part_count,
					  const struct tow_op_options *options,
					  struct tow_op **op_out)
{
	static const char call[] = "tow_group_recv_match_start";
	struct twi_message message = { .kind = TWI_OP_RECV, .site = TWI_SITE_HERE };
	int status = twi_group_check(group, call);
	struct twi_parts *record = NULL;
	struct tow_op_options known;
	struct tow_group_match same;
	struct tow_part whole;

	if (op_out != NULL)
		*op_out = NULL;
	if (status == TOW_OK)
		status = check_match(group, call, &match, &same);
	if (status == TOW_OK)
		status = check_options(group->ranks->engine, call, TOW_OP_TRUNCATE, &options,
				       &known);
	if (status == TOW_OK)
		status = twi_parts_create(call, group->ranks->engine->pool, parts, part_count,
					  &whole, &record);
	if (status < 0)
		return status;
	message.view = part_count == 0;
	message.data = whole.data;
	message.bytes = record != NULL ? record->bytes
			: message.view ? (uint64_t)INT64_MAX
				       : whole.bytes;
	message.tag = match->tag;
	status = enter_group(group, call);
	if (status == TOW_OK) {
		status = start_match(group, match, &message, record, options, op_out);
		if (status < 0)
			twi_parts_destroy(record);
		twi_engine_leave(group->ranks->engine);
	} else {
		twi_parts_destroy(record);
	}
	return status;
}

/* The engine is held. */
static int probe_group(struct tow_group *group, const struct tow_group_match *match,
		       struct tow_result *out)
{
	struct twi_ranks *ranks = group->ranks;
	struct tow_match where = TOW_MATCH_INIT;

	where.tag = match->tag;
	where.tag_mask = match->tag_mask;
	where.channel = twi_group_message_from(
		group, match->rank == TOW_RANK_ANY ? 0 : (uint32_t)match->rank, &where.peer);
	if (match->rank == TOW_RANK_ANY)
		where.peer = NULL;
	if (ranks->endpoint != NULL && where.channel != 0 &&
	    (where.peer != NULL || match->rank == TOW_RANK_ANY))
		return twi_probe(ranks->endpoint, &where, out);
	twi_call_drive(ranks->engine); /* the rank may be about to connect */
	return TOW_AGAIN;
}

TOW_PUBLIC int tow_group_probe(struct tow_group *group, const struct tow_group_match *match,
			       struct tow_result *result_out)
{
	int status = twi_group_check(group, "tow_group_probe");
	struct tow_group_match known;
	struct tow_result result;

	if (status == TOW_OK)
		status = twi_sized_check_out(TWI_SIZED_tow_result, "tow_group_probe", result_out);
	if (status == TOW_OK)
		status = check_match(group, "tow_group_probe", &match, &known);
	if (status == TOW_OK)
		status = enter_group(group, "tow_group_probe");
	if (status < 0)
		return status;
	status = probe_group(group, match, &result);
	twi_engine_leave(group->ranks->engine);
	if (status < 0 || status == TOW_AGAIN)
		return status;
	return TWI_SIZED_OUT(tow_result, "tow_group_probe", &result, result_out);
}

TOW_PUBLIC uint32_t tow_group_peer_rank(const struct tow_group *group, const struct tow_peer *peer)
{
	if (twi_handle_check(group, TWI_HANDLE_GROUP, "tow_group_peer_rank") < 0 ||
	    twi_handle_check(peer, TWI_HANDLE_PEER, "tow_group_peer_rank") < 0)
		return UINT32_MAX;
	return twi_group_rank_of(group, peer);
}

TOW_PUBLIC uint64_t tow_group_id(const struct tow_group *group)
{
	if (twi_handle_check(group, TWI_HANDLE_GROUP, "tow_group_id") < 0)
		return UINT64_MAX;
	return group->id | (uint64_t)group->shrunk << 32;
}
