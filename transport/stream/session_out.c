/*
 * session_out.c - a bulk channel out: chunks and commits of messages that the peer has asked for,
 * and aborts of messages that were taken back.
 *
 * A message keeps its row in session->sends until its end is out on all its channels and its
 * operation has ended. A row without an operation was taken back. It owes an ABORT on each channel
 * where its commit is not on its way already. A row that was sent unasked (ready) stays until the
 * receiver reports its end, so that both sides count the same rows.
 *
 * Between _out and _sent, the lane may be reading an operation's memory. Answers of the peer about
 * the message wait meanwhile (session_early.c).
 */
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/op/op.h"
#include "transport/op/op_span.h"
#include "transport/op/parts.h"
#include "transport/op/reach.h"
#include "transport/stream/session_parts.h"

/* Fills the rest of a chunk whose operation was taken back. */
static const uint8_t padding[64 << 10];

struct twi_grant *twi_session_send_find(struct twi_session *session, uint64_t seq)
{
	for (unsigned i = 0; i < TWI_LARGE_MAX; i++) {
		if (session->sends[i].used && session->sends[i].seq == seq)
			return &session->sends[i];
	}
	return NULL;
}

void twi_session_channel_queue(struct twi_bulk_channel *channel, uint8_t index, bool front)
{
	unsigned at = front ? 0 : channel->queue_count;

	twi_assert(channel->queue_count < TWI_LARGE_MAX);
	for (unsigned i = channel->queue_count++; i > at; i--)
		channel->queue[i] = channel->queue[i - 1];
	channel->queue[at] = index;
}

static void unqueue_grant(struct twi_bulk_channel *channel, uint8_t index)
{
	unsigned left = 0;

	for (unsigned i = 0; i < channel->queue_count; i++) {
		if (channel->queue[i] != index)
			channel->queue[left++] = channel->queue[i];
	}
	channel->queue_count = (uint8_t)left;
}

/*
 * May the receiver have all of the message? Its ends are out, or were with the lane when the
 * connection broke.
 */
bool twi_session_send_whole(const struct twi_session *session, const struct twi_grant *send)
{
	for (unsigned c = 0; c < session->config.bulk_count; c++) {
		if ((send->open & 1u << c) != 0 &&
		    (!session->channels[c].broken || !twi_stripe_through(send, c)))
			return false;
	}
	return true;
}

/* The peer wants all of op's message, or will want it if it is `ready`. There is a free row. */
void twi_session_send_begin(struct twi_session *session, struct tow_op *op, bool ready)
{
	struct twi_grant *send = session->sends;

	while (send->used)
		send++;
	*send = (struct twi_grant){
		.op = op,
		.seq = op->seq,
		.tag = op->tag,
		.bytes = op->bytes,
		.used = true,
		.ready = ready,
		.sum = twi_outbox_sums(&session->outbox, op->seq),
	};
	twi_stripes_cut(&session->config, send);
	*(ready ? &session->ready_sends : &session->send_count) += 1;
	op->stage = TWI_STAGE_BULK;
	twi_op_begun(op);
	op->moved = 0;
	for (unsigned c = send->first; c < (unsigned)send->first + send->count; c++)
		twi_session_channel_queue(&session->channels[c], (uint8_t)(send - session->sends),
					  false);
}

void twi_session_send_free(struct twi_session *session, struct twi_grant *send)
{
	for (unsigned c = 0; c < session->config.bulk_count && send->open != 0; c++) {
		if ((send->open & 1u << c) != 0)
			unqueue_grant(&session->channels[c], (uint8_t)(send - session->sends));
	}
	*(send->ready ? &session->ready_sends : &session->send_count) -= 1;
	send->used = false;
	send->op = NULL;
}

/* The commit, or the ABORT, of a stripe is out. */
void twi_session_stripe_over(struct twi_session *session, struct twi_grant *send, unsigned c)
{
	struct tow_op *op = send->op;

	send->open &= (uint8_t) ~(1u << c);
	unqueue_grant(&session->channels[c], (uint8_t)(send - session->sends));
	if (send->open != 0)
		return;
	if (op != NULL)
		op->stage = TWI_STAGE_SENT;
	else if (!send->ready)
		twi_session_send_free(session, send);
}

/*
 * The message is taken back. A commit that is on its way already is completed. If that is so on all
 * its channels, the message still counts.
 */
void twi_session_send_leave(struct twi_session *session, struct twi_grant *send)
{
	for (unsigned c = 0; c < session->config.bulk_count; c++) {
		struct twi_bulk_channel *channel = &session->channels[c];

		if (channel->out != send)
			continue;
		if (channel->out_head_left == TWI_FRAME_BYTES) {
			/* the chunk's header is not out at all */
			channel->out_head_left = channel->out_tail_left = 0;
			channel->out_left = 0;
			channel->out = NULL;
		} else if (channel->out_left > 0 || channel->out_tail_left == 0 ||
			   channel->out_tail_left == TWI_FRAME_BYTES) {
			channel->out_padding = channel->out_left > 0;
			channel->out_tail_left = 0;
			channel->out = NULL;
		}
		channel->handed = false;
	}
	send->op = NULL;
	if (send->open == 0 && !send->ready)
		twi_session_send_free(session, send);
}

/* The peer does not want the message, or (TOW_AGAIN) not yet. No lane has its memory. */
void twi_session_send_refuse(struct twi_session *session, struct twi_grant *send, int status)
{
	struct tow_op *op = send->op;

	twi_session_send_leave(session, send);
	if (status != TOW_AGAIN) {
		if (status == TOW_EFAULT)
			twi_session_fault_tell(session, op);
		twi_outbox_end(&session->outbox, op, status, 0);
		return;
	}
	op->stage = TWI_STAGE_OFFERED; /* it came too early: the peer will ask for it */
	op->moved = 0;
	if (twi_unlikely(op->canceled)) {
		twi_session_owe(session, TWI_FRAME_CANCEL, op->seq, TWI_BACK_WISHED);
		twi_outbox_end(&session->outbox, op, TOW_ECANCELED, 0);
	}
}

static void put_data(uint8_t *at, const struct twi_grant *send, uint64_t offset, uint32_t bytes,
		     uint8_t flags)
{
	struct twi_frame frame = {
		.type = TWI_FRAME_DATA,
		.flags = flags,
		.payload_bytes = bytes,
		.seq = send->seq,
		.value = offset,
	};

	twi_frame_put(at, &frame);
}

static bool put_abort(const struct twi_session *session, struct twi_bulk_channel *channel,
		      uint64_t seq)
{
	uint64_t why = twi_session_back_why(session, seq);
	const struct twi_grant gone = { .seq = seq };

	put_data(channel->out_head, &gone, why, 0, TWI_FRAME_ABORT);
	channel->out_head_left = TWI_FRAME_BYTES;
	return true;
}

/* Extends the checksum of the stripe piece by piece, as bytes are sent. */
static void add_sum(struct twi_grant *send, unsigned c, uint64_t bytes)
{
	uint64_t end = send->at[c] + bytes, left;

	while (send->summed[c] < end) { /* else they are sent again */
		uint64_t place = twi_stripe_at(send, c, send->summed[c], &left);

		left = twi_min(left, end - send->summed[c]);
		send->crc[c] = twi_op_checksum(send->op, send->crc[c], place, left);
		send->summed[c] += left;
	}
}

static void put_commit(struct twi_bulk_channel *channel, struct twi_grant *send, unsigned c)
{
	uint64_t length = twi_stripe_bytes(send, c), left;
	struct twi_frame frame = {
		.type = TWI_FRAME_DATA,
		.flags = TWI_FRAME_LAST,
		.seq = send->seq,
		.value = twi_stripe_at(send, c, length, &left),
	};

	if (send->sum) {
		add_sum(send, c, length - send->at[c]);
		frame.flags |= TWI_FRAME_SUM;
		frame.tag = send->crc[c];
	}
	twi_frame_put(channel->out_tail, &frame);
	channel->out_tail_left = TWI_FRAME_BYTES;
}

/* Writes the header of the next chunk: an abort first, else the head of the queue. */
static bool next_chunk(struct twi_session *session, unsigned c)
{
	struct twi_bulk_channel *channel = &session->channels[c];
	struct twi_grant *send;
	uint64_t left, place;

	if (twi_unlikely(channel->stale_count > 0))
		return put_abort(session, channel, channel->stale[--channel->stale_count]);
	for (unsigned i = 0; i < channel->queue_count; i++) {
		send = &session->sends[channel->queue[i]];
		if (send->op == NULL) {
			uint64_t seq = send->seq;

			twi_session_stripe_over(session, send, c);
			return put_abort(session, channel, seq);
		}
	}
	if (channel->queue_count == 0)
		return false;
	send = &session->sends[channel->queue[0]];
	if (twi_unlikely(session->early_count > 0) && twi_session_early(session, send->seq))
		return false; /* an answer may end it: another channel has some of it */
	if (send->at[c] == twi_stripe_bytes(send, c))
		twi_stripe_take(send, c);
	place = twi_stripe_at(send, c, send->at[c], &left);
	channel->out = send;
	channel->out_left = twi_min(left, (uint64_t)TWI_CHUNK_BYTES);
	if (left > 0) {
		put_data(channel->out_head, send, place, (uint32_t)channel->out_left, 0);
		channel->out_head_left = TWI_FRAME_BYTES;
	}
	/* If there is a checksum, add_tail writes the commit when the last payload goes. */
	if (send->at[c] + channel->out_left == twi_stripe_bytes(send, c) && twi_stripes_final(send))
		channel->out_tail_left = TWI_FRAME_BYTES;
	return true;
}

static void add_part(struct twi_bulk_out *out, const void *data, uint64_t bytes)
{
	out->parts[out->count++] = (struct iovec){ (void *)(uintptr_t)data, bytes };
}

/*
 * The checksum of the last payload is made before it is sent. If that memory cannot be read, no
 * checksum is made. The payload goes without the commit, and the lane reports the fault.
 */
static bool can_sum(const struct twi_bulk_channel *channel, const struct twi_bulk_out *out)
{
	if (twi_likely(channel->out == NULL || !channel->out->sum || out->payload_bytes == 0))
		return true;
	return twi_reach(out->parts[out->payload_part].iov_base, out->payload_bytes, false) ==
	       out->payload_bytes;
}

/* Adds the commit, right behind the last payload. */
static void add_tail(struct twi_bulk_channel *channel, struct twi_bulk_out *out, unsigned c)
{
	if (channel->out_tail_left == TWI_FRAME_BYTES)
		put_commit(channel, channel->out, c);
	add_part(out, channel->out_tail + TWI_FRAME_BYTES - channel->out_tail_left,
		 channel->out_tail_left);
}

bool twi_session_bulk_out(struct twi_session *session, unsigned c, uint64_t max_bytes,
			  struct twi_bulk_out *out)
{
	struct twi_bulk_channel *channel = &session->channels[c];

	*out = (struct twi_bulk_out){ .payload_part = -1 };
	if (session->failed != 0 || channel->broken)
		return false;
	channel->handed = false;
	if (twi_unlikely(session->early_count > 0))
		twi_session_settle_later(session); /* the lane sent nothing of it */
	if (channel->out_head_left == 0 && channel->out_left == 0 && channel->out_tail_left == 0 &&
	    !next_chunk(session, c))
		return false;
	if (channel->out_head_left > 0)
		add_part(out, channel->out_head + TWI_FRAME_BYTES - channel->out_head_left,
			 channel->out_head_left);
	if (channel->out_left > 0 && channel->out_padding) {
		add_part(out, padding, twi_min(channel->out_left, sizeof(padding)));
		return true;
	}
	channel->handed = channel->out != NULL;
	channel->handed_bytes = 0;
	if (channel->out_left > 0) {
		struct twi_grant *send = channel->out;
		uint64_t at = twi_stripe_place(send, c);
		const void *payload;

		out->op = send->op;
		out->claim = twi_op_claim_at(out->op, at);
		out->payload_bytes = twi_min(channel->out_left, max_bytes);
		payload = twi_op_at(out->op, at, &out->payload_bytes);
		channel->handed_bytes = out->payload_bytes;
		out->payload_part = out->count;
		add_part(out, payload, out->payload_bytes);
	}
	if (channel->out_tail_left > 0 && out->payload_bytes == channel->out_left &&
	    can_sum(channel, out))
		add_tail(channel, out, c);
	out->more = out->payload_bytes < channel->out_left || channel->out_tail_left == 0 ||
		    channel->queue_count > 1;
	return true;
}

static void note_sent(struct twi_session *session, unsigned c, size_t bytes)
{
	struct twi_bulk_channel *channel = &session->channels[c];
	size_t head = twi_min(bytes, (size_t)channel->out_head_left), payload;
	struct twi_grant *send = channel->out;

	channel->handed = false;
	channel->out_head_left -= (uint32_t)head;
	bytes -= head;
	payload = twi_min(bytes, channel->out_left);
	channel->out_left -= payload;
	bytes -= payload;
	if (send != NULL) {
		if (send->sum && send->op != NULL)
			add_sum(send, c, payload);
		send->at[c] += payload;
		if (send->op != NULL)
			send->op->moved += payload;
	}
	twi_assert(bytes <= channel->out_tail_left);
	channel->out_tail_left -= (uint32_t)bytes;
	if (channel->out_left > 0 || channel->out_tail_left > 0)
		return;
	channel->out_padding = false;
	if (channel->out_head_left > 0)
		return;
	channel->out = NULL;
	if (bytes > 0)
		twi_session_stripe_over(session, send, c);
}

int twi_session_bulk_sent(struct twi_session *session, unsigned c, size_t bytes)
{
	note_sent(session, c, bytes);
	return twi_likely(session->early_count == 0) ? TOW_OK : twi_session_settle(session);
}
