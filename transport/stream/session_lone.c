/*
 * session_lone.c - a message that is longer than small ones, but goes with its header as they do.
 * It does so when nothing else is on its way, because asking for it first would take twice as long.
 *
 *	sender                                   receiver
 *	  |  EAGER seq, payload                     |
 *	  | --------------------------------------> |   to its receive, or kept for credit
 *	  |  ACK                                    |
 *	  | <-------------------------------------- |   with the next output, or at the next turn
 *
 * The message is copied once more at each side. Up to some 64 KiB, these copies take no longer than
 * an offer is on its way. They cost bandwidth when messages follow each other.
 *
 * So at most two such messages are on their way. There are two because an answer of the program may
 * be quicker than the acknowledgement of the first one. The next message goes by rendezvous until
 * the other side has acknowledged the first. So does every message while another large one is on
 * its way.
 *
 * The operation ends before the receiver has posted. So only a caller that has allowed that
 * (TOW_OP_AT_ONCE) sends so.
 */
#include "transport/op/outbound.h"
#include "transport/stream/session_parts.h"

#define BACKLOG_BYTES (4u << 10) /* more unsent bytes than this: the stream is busy */

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
