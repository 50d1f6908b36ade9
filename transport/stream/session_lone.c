/*
 * session_lone.c - a message that is longer than small ones and goes as they do, with its header,
 * because nothing else is on its way: to ask for it first would take twice as long.
 *
 *	sender                                   receiver
 *	  |  EAGER seq, payload                     |
 *	  | --------------------------------------> |   to its receive, or kept for credit
 *	  |  ACK                                    |
 *	  | <-------------------------------------- |   with what goes next, or at the next turn
 *
 * It is copied once more at each side, which is as long as the way of an offer up to some 64 KiB,
 * and costs bandwidth where messages follow each other. So there are two at a time, as an answer of
 * the program's may be quicker than the acknowledgement: the next goes by rendezvous until the
 * other side has said that it has the first, and any while another large message is on its way. The
 * operation is over before the receiver has posted, so only a caller that has allowed that
 * (TOW_OP_AT_ONCE) sends so.
 */
#include "transport/op/outbound.h"
#include "transport/stream/session_parts.h"

#define BACKLOG_BYTES (4u << 10) /* unsent: the stream is busy */

bool twi_session_goes_alone(const struct twi_session *session, const struct twi_outbound *out)
{
	const struct twi_outbox *outbox = &session->outbox;

	return out->bytes <= twi_min(session->config.lone_bytes, TWI_LONE_BYTES) &&
	       outbox->seq_acked >= session->lone_seqs[0] &&
	       session->tx_tail - session->tx_head <= BACKLOG_BYTES &&
	       !twi_outbox_has_large(outbox);
}

void twi_session_lone_went(struct twi_session *session, uint64_t seq)
{
	session->lone_seqs[0] = session->lone_seqs[1];
	session->lone_seqs[1] = seq;
}

void twi_session_lone_came(struct twi_session *session, uint64_t bytes)
{
	if (twi_unlikely(bytes > session->config.eager_max_bytes))
		session->ack_soon = true;
}
