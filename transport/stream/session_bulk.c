/*
 * session_bulk.c - a bulk channel in: stripes of granted messages, received where they belong.
 *
 * The reader of a channel sees header, payload, header, and so on. The offer of a message that was
 * sent unasked may come after its header. Then the header waits, and the channel with it.
 */
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/op/endpoint.h"
#include "transport/op/op.h"
#include "transport/op/parts.h"
#include "transport/stream/session_parts.h"

/* How many bytes, from the channel's next one on, have room in the receive's memory. */
static uint64_t room_at(const struct twi_grant *grant, unsigned c)
{
	uint64_t at = twi_stripe_place(grant, c);

	return grant->op == NULL || grant->op->bytes <= at ? 0 : grant->op->bytes - at;
}

/* Has the message a checksum that can be compared? Not if some of its bytes are dropped. */
static bool has_sum(const struct twi_grant *grant)
{
	return grant->sum && grant->op != NULL && grant->bytes <= grant->op->bytes;
}

struct tow_op *twi_session_bulk_op(struct twi_session *session, unsigned c)
{
	const struct twi_bulk_channel *channel = &session->channels[c];

	return channel->in_left > 0 && room_at(channel->in, c) > 0 ? channel->in->op : NULL;
}

/* All stripes have ended: the receive has its message, or waits for the next one. */
static void message_over(struct twi_session *session, struct twi_grant *grant)
{
	struct tow_op *op = grant->op;
	bool answered = false;

	twi_count(session->engine->diag, TWI_C_checksums_checked,
		  has_sum(grant) && !grant->spoiled);
	grant->op = NULL;
	if (op != NULL && twi_unlikely(grant->faulted)) {
		twi_session_unreadable(session, op, grant->bytes);
	} else if (op != NULL && grant->spoiled) {
		twi_session_repost(session, op);
	} else if (op != NULL && grant->corrupt) {
		answered = true;
		twi_session_owe(session, TWI_FRAME_REFUSE, grant->seq, TWI_REFUSE_CORRUPT);
		twi_inbox_corrupt(&session->inbox, op, grant->bytes);
	} else if (op != NULL) {
		answered = true;
		twi_session_owe(session, TWI_FRAME_DONE, grant->seq, 0);
		twi_inbox_received(&session->inbox, op, grant->bytes);
	}
	/* The sender counts a message that it sent unasked until an answer ends it. */
	if (grant->ready && !answered)
		twi_session_owe(session, TWI_FRAME_DONE, grant->seq, 0);
	twi_session_grant_free(session, grant);
}

static void stripe_over(struct twi_session *session, struct twi_grant *grant, unsigned c)
{
	grant->open &= (uint8_t) ~(1u << c);
	if (grant->open == 0)
		message_over(session, grant);
}

static int out_of_place(struct twi_session *session, uint64_t seq)
{
	return twi_session_fault(session, TWI_RULE_DATA_PLACE,
				 "sent data of message %llu out of place", (unsigned long long)seq);
}

static int on_commit(struct twi_session *session, struct twi_grant *grant, unsigned c,
		     const struct twi_frame *frame)
{
	if (((frame->flags & TWI_FRAME_SUM) != 0) != grant->sum)
		return out_of_place(session, frame->seq);
	/* The last commit must leave no slice without a channel. */
	if (grant->open == 1u << c && !grant->spoiled && !twi_stripes_final(grant))
		return out_of_place(session, frame->seq);
	if (has_sum(grant) && frame->tag != grant->crc[c])
		grant->corrupt = true;
	stripe_over(session, grant, c);
	return TOW_OK;
}

/* May this chunk or commit come next on the channel? */
static bool in_place(struct twi_grant *grant, unsigned c, const struct twi_frame *frame)
{
	uint64_t left, place = twi_stripe_at(grant, c, grant->at[c], &left);

	if ((frame->flags & TWI_FRAME_LAST) != 0)
		return left == 0 && frame->value == place;
	if (left == 0 && twi_stripe_given(grant, c, frame->value))
		place = twi_stripe_at(grant, c, grant->at[c], &left);
	return frame->value == place && frame->payload_bytes <= left;
}

static int on_frame(struct twi_session *session, unsigned c, const struct twi_frame *frame)
{
	struct twi_bulk_channel *channel = &session->channels[c];
	struct twi_grant *grant = twi_session_grant_find(session, frame->seq);
	bool last = (frame->flags & TWI_FRAME_LAST) != 0;

	if (grant == NULL && (frame->flags & TWI_FRAME_ABORT) != 0 && channel->stale_allowed > 0) {
		channel->stale_allowed--; /* our record listed it; it was taken back meanwhile */
		return TOW_OK;
	}
	if (grant == NULL)
		return twi_session_fault(session, TWI_RULE_DATA_UNASKED,
					 "sent data of message %llu, not asked for",
					 (unsigned long long)frame->seq);
	if ((grant->open & 1u << c) == 0)
		return out_of_place(session, frame->seq);
	if ((frame->flags & TWI_FRAME_ABORT) != 0) {
		grant->spoiled = true;
		grant->faulted |= frame->value == TWI_BACK_FAULT;
		stripe_over(session, grant, c);
		return TOW_OK;
	}
	if (!in_place(grant, c, frame))
		return out_of_place(session, frame->seq);
	if (last)
		return on_commit(session, grant, c, frame);
	channel->in = grant;
	channel->in_left = frame->payload_bytes;
	return TOW_OK;
}

/* A whole DATA header is here: a chunk of a stripe, its commit, or its abort. */
static int on_head(struct twi_session *session, unsigned c)
{
	const struct twi_frame_limits limits = { .control = false, .hello_done = true };
	struct twi_bulk_channel *channel = &session->channels[c];
	struct twi_frame frame;
	enum twi_frame_fault fault;

	if (twi_frame_get(channel->in_head, &limits, &frame, &fault) < 0)
		return twi_session_fault(session, (unsigned)fault, "sent a bad bulk frame");
	channel->in_waits = session->config.announce && frame.seq > session->inbox.seq_received;
	if (channel->in_waits)
		return TOW_OK;
	channel->in_fill -= TWI_FRAME_BYTES;
	for (uint32_t i = 0; i < channel->in_fill; i++) /* the beginning of the next header */
		channel->in_head[i] = channel->in_head[TWI_FRAME_BYTES + i];
	return on_frame(session, c, &frame);
}

int twi_session_bulk_look(struct twi_session *session)
{
	int status = TOW_OK;

	for (unsigned c = 0; c < session->config.bulk_count && status == TOW_OK; c++) {
		if (session->channels[c].in_waits)
			status = on_head(session, c);
	}
	return status;
}

int twi_session_bulk_want(struct twi_session *session, unsigned c, uint64_t max_bytes,
			  struct iovec parts[2])
{
	struct twi_bulk_channel *channel = &session->channels[c];
	struct twi_grant *grant = channel->in;
	uint64_t n = twi_min(channel->in_left, max_bytes), room;
	bool commit;

	if (twi_unlikely(channel->broken || channel->in_waits))
		return 0;
	if (channel->in_left == 0) {
		parts[0] = (struct iovec){ channel->in_head + channel->in_fill,
					   TWI_FRAME_BYTES - channel->in_fill };
		return 1;
	}
	room = room_at(grant, c);
	if (room == 0) { /* taken back, or its receive has no more room */
		parts[0] = (struct iovec){ session->engine->sink,
					   twi_min(channel->in_left, TWI_ENGINE_SINK_BYTES) };
		return 1;
	}
	n = twi_min(n, room);
	parts[0].iov_base = twi_op_at(grant->op, twi_stripe_place(grant, c), &n);
	parts[0].iov_len = n;
	/* A header follows. Behind a commit, one more is read without a call of its own. */
	commit = grant->at[c] + n == twi_stripe_bytes(grant, c) && twi_stripes_final(grant);
	parts[1] =
		(struct iovec){ channel->in_head, commit ? 2 * TWI_FRAME_BYTES : TWI_FRAME_BYTES };
	return n == channel->in_left ? 2 : 1;
}

int twi_session_bulk_in(struct twi_session *session, unsigned c, size_t bytes)
{
	struct twi_bulk_channel *channel = &session->channels[c];
	size_t n = twi_min(bytes, channel->in_left);
	struct twi_grant *grant = channel->in;

	if (n > 0) {
		if (has_sum(grant))
			grant->crc[c] = twi_op_checksum(grant->op, grant->crc[c],
							twi_stripe_place(grant, c), n);
		channel->in_left -= n;
		grant->at[c] += n;
		bytes -= n;
		if (channel->in_left == 0)
			channel->in = NULL;
	}
	channel->in_fill += (uint32_t)bytes;
	twi_assert(channel->in_fill <= sizeof(channel->in_head));
	while (channel->in_fill >= TWI_FRAME_BYTES && !channel->in_waits) {
		int status = on_head(session, c);

		if (status < 0)
			return status;
	}
	return TOW_OK;
}
