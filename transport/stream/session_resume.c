/*
 * session_resume.c - resumes a bulk channel over a new connection.
 *
 * Each side lists the stripes that it still expects on the channel, with the bytes that have come:
 *
 *	 0 | length | kind | channel | count | seq_received |   length counts itself
 *	16 | seq | bytes of the stripe that have come       |   count times
 *
 * The sender continues from there. The two sides may differ in three ways:
 *
 * - The receiver does not list a stripe. Then it is over there, because its commit had come. Or it
 *   was granted after the list was written, and nothing of it was sent. Or it was sent unasked, and
 *   its offer (a number above seq_received) has not come: then it is sent from the start.
 * - The receiver lists a stripe that the sender does not know. Then it was taken back, and its
 *   ABORT was lost. Or it could not be taken back any more, and its commit was lost. The sender
 *   sends an ABORT (again).
 * - The receiver lists a stripe that the sender still offers. Then its CTS is on its way. If it was
 *   sent unasked before, and refused, its ABORT was lost; the receiver marks those.
 */
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/op/endpoint.h"
#include "transport/op/op.h"
#include "transport/stream/session_parts.h"

#define HEAD_BYTES 16u
#define ITEM_BYTES 16u
#define UNASKED    (1ull << 63) /* flag beside the bytes: the message was sent unasked */

_Static_assert(TWI_RESUME_MAX >= HEAD_BYTES + TWI_LARGE_MAX * ITEM_BYTES, "every grant fits");

void twi_session_bulk_broken(struct twi_session *session, unsigned c)
{
	struct twi_bulk_channel *channel = &session->channels[c];
	struct twi_grant *send = channel->out;

	channel->broken = true;
	/* The lane's last report may be missing: the peer may have all that the lane was given. */
	if (channel->handed) {
		send->at[c] += channel->handed_bytes;
		if (send->op != NULL)
			send->op->moved += channel->handed_bytes;
	}
	channel->handed = channel->out_padding = false;
	channel->out = NULL;
	channel->out_left = 0;
	channel->out_head_left = channel->out_tail_left = 0;
	channel->in = NULL;
	channel->in_left = 0;
	channel->in_fill = 0;
	channel->in_waits = false;
	if (twi_unlikely(session->early_count > 0))
		twi_session_settle_later(session);
}

size_t twi_session_bulk_resume_put(struct twi_session *session, unsigned c, uint8_t *out)
{
	unsigned count = 0;

	for (unsigned i = 0; i < TWI_LARGE_MAX; i++) {
		const struct twi_grant *grant = &session->grants[i];
		uint8_t *item = out + HEAD_BYTES + (size_t)count * ITEM_BYTES;

		if (!grant->used || (grant->open & 1u << c) == 0)
			continue;
		twi_put_le64(item, grant->seq);
		twi_put_le64(item + 8, grant->at[c] | (grant->ready ? UNASKED : 0));
		count++;
	}
	session->channels[c].stale_allowed = count;
	twi_put_le32(out, HEAD_BYTES + count * ITEM_BYTES);
	out[4] = TWI_STREAM_BULK;
	out[5] = (uint8_t)c;
	twi_put_le16(out + 6, (uint16_t)count);
	twi_put_le64(out + 8, session->inbox.seq_received);
	twi_session_resume_said(session, 1 + c, out, HEAD_BYTES + (size_t)count * ITEM_BYTES,
				count > 0);
	return HEAD_BYTES + (size_t)count * ITEM_BYTES;
}

static int impossible_item(struct twi_session *session, unsigned c, uint64_t seq)
{
	return twi_session_fault(session, TWI_RULE_RESUME,
				 "resumes bulk stream %u at an impossible place of message "
				 "%llu",
				 c, (unsigned long long)seq);
}

/* The index of a seq in the record; count: the record does not have it. */
static unsigned listed_at(const uint8_t *items, unsigned count, uint64_t seq)
{
	unsigned i = 0;

	while (i < count && twi_get_le64(items + (size_t)i * ITEM_BYTES) != seq)
		i++;
	return i;
}

/*
 * Does the record list this row? The same message may have been sent unasked, have come too early,
 * and be asked for since then.
 */
static bool lists_send(const uint8_t *items, unsigned count, const struct twi_grant *send)
{
	unsigned i = listed_at(items, count, send->seq);

	return i < count &&
	       ((twi_get_le64(items + (size_t)i * ITEM_BYTES + 8) & UNASKED) != 0) == send->ready;
}

/* Can the receiver's item about one message be true? Changes nothing. */
static int check_item(struct twi_session *session, unsigned c, uint64_t seq, uint64_t got,
		      bool unasked)
{
	struct twi_grant *send = twi_session_send_find(session, seq);
	const struct tow_op *op = twi_outbox_find(&session->outbox, seq);

	if (seq == 0 || seq > session->outbox.seq_sent)
		return impossible_item(session, c, seq);
	if (send != NULL && send->op != NULL && unasked == send->ready)
		return !twi_stripe_on(send, c) || got > send->at[c]
			       ? impossible_item(session, c, seq)
			       : TOW_OK;
	if (send != NULL && send->op != NULL && unasked)
		return impossible_item(session, c, seq);
	if (op != NULL && !unasked && got > 0) /* its CTS is on its way, so nothing was sent */
		return impossible_item(session, c, seq);
	return TOW_OK;
}

/* The stripe continues from byte `got`. */
static void stripe_continue(struct twi_session *session, struct twi_grant *send, unsigned c,
			    uint64_t got)
{
	twi_count(session->engine->diag, TWI_C_replayed_bulk_bytes, send->at[c] - got);
	send->at[c] = got;
	if ((send->open & 1u << c) != 0)
		return;
	send->open |= (uint8_t)(1u << c); /* its commit was lost */
	send->op->stage = TWI_STAGE_BULK;
	twi_session_channel_queue(&session->channels[c], (uint8_t)(send - session->sends), true);
}

/* The message was sent unasked, and the receiver does not know it yet: all of it is sent again. */
static void start_again(struct twi_session *session, struct twi_grant *send, unsigned c)
{
	struct twi_bulk_channel *channel = &session->channels[c];

	if (send->op != NULL)
		stripe_continue(session, send, c, 0);
	else if ((send->open & 1u << c) == 0)
		channel->stale[channel->stale_count++] = send->seq;
}

static int check_record(struct twi_session *session, unsigned c, const uint8_t *items,
			unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const uint8_t *item = items + (size_t)i * ITEM_BYTES;
		uint64_t seq = twi_get_le64(item), got = twi_get_le64(item + 8);
		int status = check_item(session, c, seq, got & ~UNASKED, (got & UNASKED) != 0);

		if (status < 0)
			return status;
		if (listed_at(items, count, seq) != i)
			return impossible_item(session, c, seq);
	}
	return TOW_OK;
}

/* Checks the stripes that are open here on the channel, and that the receiver does not list. */
static int check_unlisted(struct twi_session *session, unsigned c, const uint8_t *items,
			  unsigned count, uint64_t seq_received)
{
	for (unsigned i = 0; i < TWI_LARGE_MAX; i++) {
		struct twi_grant *send = &session->sends[i];

		if (!send->used || !twi_stripe_on(send, c) || lists_send(items, count, send))
			continue;
		if (send->ready && send->seq > seq_received) { /* its offer is on its way */
			start_again(session, send, c);
			continue;
		}
		if (send->at[c] == 0 || (send->open & 1u << c) == 0)
			continue;
		if (!twi_stripe_through(send, c) && send->op != NULL)
			return impossible_item(session, c, send->seq);
		twi_session_stripe_over(session, send, c);
	}
	return TOW_OK;
}

static int take_record(struct twi_session *session, unsigned c, const uint8_t *items,
		       unsigned count, uint64_t seq_received)
{
	struct twi_bulk_channel *channel = &session->channels[c];
	int status = check_record(session, c, items, count);

	channel->stale_count = 0;
	if (status == TOW_OK)
		status = check_unlisted(session, c, items, count, seq_received);
	if (status < 0)
		return status;
	for (unsigned i = 0; i < count; i++) {
		const uint8_t *item = items + (size_t)i * ITEM_BYTES;
		uint64_t seq = twi_get_le64(item), got = twi_get_le64(item + 8);
		struct twi_grant *send = twi_session_send_find(session, seq);
		const struct tow_op *op = twi_outbox_find(&session->outbox, seq);

		if (send != NULL && send->op != NULL && !lists_send(items, count, send))
			; /* its CTS is on its way */
		else if (send != NULL && send->op != NULL)
			stripe_continue(session, send, c, got & ~UNASKED);
		else if (send != NULL && (send->open & 1u << c) != 0)
			; /* its ABORT is due anyway */
		else if (op == NULL || (got & UNASKED) != 0)
			channel->stale[channel->stale_count++] = seq;
	}
	return TOW_OK;
}

int twi_session_bulk_resume(struct twi_session *session, unsigned c, const uint8_t *in,
			    size_t bytes, size_t *used_out)
{
	unsigned count;
	int status;

	if (bytes < HEAD_BYTES)
		return TOW_AGAIN;
	count = twi_get_le16(in + 6);
	if (in[4] != TWI_STREAM_BULK || in[5] != c || count > TWI_LARGE_MAX ||
	    twi_get_le32(in) != HEAD_BYTES + count * ITEM_BYTES)
		return twi_session_fault(session, TWI_RULE_RESUME,
					 "sent a bad record of resumed bulk stream %u", c);
	if (bytes < HEAD_BYTES + (size_t)count * ITEM_BYTES)
		return TOW_AGAIN;
	status = take_record(session, c, in + HEAD_BYTES, count, twi_get_le64(in + 8));
	if (status < 0)
		return status;
	*used_out = HEAD_BYTES + (size_t)count * ITEM_BYTES;
	session->channels[c].broken = false;
	twi_session_resume_heard(session, 1 + c, in, *used_out, count > 0);
	twi_count(session->engine->diag, TWI_C_streams_resumed, 1);
	return twi_likely(session->early_count == 0) ? TOW_OK : twi_session_settle(session);
}
