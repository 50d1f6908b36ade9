/*
 * session_announce.c - announces receives to the sender, so that a large message need not be asked
 * for.
 *
 *	receiver: a large receive is posted, and the last message with such a tag was large
 *	   |  ANNOUNCE tag, room, seq = messages received so far
 *	   v
 *	sender: has sent no message with the tag since that number -> kept (the last 64)
 *	   the next message with the tag, if it is large and fits: RTS with READY, data behind it
 *
 * An announcement is a hint. If the receive is gone meanwhile, the receiver answers REFUSE (not
 * ready) and drops the bytes into the sink. Then the message is asked for by CTS as usual. Any
 * message with the tag uses an announcement up, because it takes the receive.
 */
#include "diag/base/error.h"
#include "diag/base/hash.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/op/endpoint.h"
#include "transport/op/op.h"
#include "transport/stream/session_parts.h"

static unsigned hash_tag(uint64_t tag)
{
	return (unsigned)(twi_hash_spread(tag) >> 58);
}

void twi_session_note(struct twi_session *session, uint64_t tag, bool large)
{
	uint64_t bit = 1ull << hash_tag(tag);

	session->large_tags = large ? session->large_tags | bit : session->large_tags & ~bit;
}

void twi_session_announce(struct twi_session *session, const struct tow_op *op)
{
	const struct twi_frame frame = { .type = TWI_FRAME_ANNOUNCE,
					 .flags = op->space,
					 .channel = op->channel,
					 .seq = session->inbox.seq_received,
					 .tag = op->tag,
					 .value = op->bytes };

	if (op->space == TWI_SPACE_RPC || /* the call's header came: its offer is coming */
	    (session->large_tags & 1ull << hash_tag(op->tag)) == 0 || op->view == TWI_VIEW_WHOLE ||
	    op->bytes <= session->config.eager_max_bytes ||
	    session->inbox.match.posted_count > TWI_ANNOUNCED_MAX)
		return;
	/* It waits for the next output: a system call of its own costs more than it saves. */
	twi_session_put(session, &frame);
}

/* Takes announcement i out; those behind it keep their order. */
static void announcement_remove(struct twi_session *session, unsigned i)
{
	session->announced_count--;
	for (; i < session->announced_count; i++)
		session->announced[i] = session->announced[i + 1];
}

/* The oldest announcement for such a tag; TWI_ANNOUNCED_MAX: none. */
static unsigned find_announced(const struct twi_session *session, uint64_t tag, uint32_t context)
{
	for (unsigned i = 0; i < session->announced_count; i++) {
		if (session->announced[i].tag == tag && session->announced[i].context == context)
			return i;
	}
	return TWI_ANNOUNCED_MAX;
}

int twi_session_announced(struct twi_session *session, const struct twi_frame *frame)
{
	if (frame->seq > session->outbox.seq_sent)
		return twi_session_fault(session, TWI_RULE_NO_SUCH_MESSAGE,
					 "acknowledges message %llu, which was never sent",
					 (unsigned long long)frame->seq);
	if (session->last_seq[hash_tag(frame->tag)] > frame->seq)
		return TOW_OK;
	if (session->announced_count == TWI_ANNOUNCED_MAX)
		announcement_remove(session, 0); /* its receive may be long gone */
	session->announced[session->announced_count++] = (struct twi_announced){
		.tag = frame->tag,
		.room = frame->value,
		.context = twi_frame_context(frame),
	};
	return TOW_OK;
}

/* May op's message go unasked? It is about to be framed. */
bool twi_session_may_go(struct twi_session *session, const struct tow_op *op)
{
	unsigned i;

	if (session->announced_count == 0 || session->ready_sends == TWI_READY_MAX)
		return false;
	i = find_announced(session, op->tag, twi_context_of(op->space, op->channel));
	if (i == TWI_ANNOUNCED_MAX || session->announced[i].room < op->bytes)
		return false;
	twi_count(session->engine->diag, TWI_C_announced_sends, 1);
	return true;
}

void twi_session_mention(struct twi_session *session, uint64_t tag, uint32_t context, uint64_t seq)
{
	session->last_seq[hash_tag(tag)] = seq;
	if (twi_unlikely(session->announced_count > 0)) {
		unsigned i = find_announced(session, tag, context);

		if (i < TWI_ANNOUNCED_MAX)
			announcement_remove(session, i);
	}
}
