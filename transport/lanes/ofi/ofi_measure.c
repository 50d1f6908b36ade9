/*
 * ofi_measure.c - measures a peer of the ofi lane, to explain why a job does not go on. The
 * connection below belongs to libfabric, so TCP_INFO is out of reach even if it is TCP. The lane
 * can only report what it counts itself.
 */
#include "transport/lanes/ofi/ofi_calls.h"

#ifdef TWI_HAVE_OFI

#include <stdio.h>

#include "diag/judge/rank_state.h"

/* The bytes of large messages that are offered to the peer, or are being sent. */
static uint64_t given_bytes(const struct twi_ofi_peer *peer)
{
	const struct twi_ofi_port *port = peer->port;
	uint64_t bytes = 0;

	for (uint32_t i = 0; peer->gives > 0 && i < TWI_OFI_GIVES; i++) {
		if (port->gives[i].peer == peer && port->gives[i].op != NULL)
			bytes += port->gives[i].op->bytes;
	}
	return bytes;
}

void twi_ofi_peer_measure(struct tow_peer *base, struct twi_state_link *out, char *fabric)
{
	const struct twi_ofi_peer *peer = twi_ofi_peer_of(base);
	uint64_t now = twi_engine_now(base->engine);
	const struct fi_info *info;

	if (base->ended != 0)
		return;
	info = twi_ofi_domain_info(peer->port->domain);
	out->flags |= TWI_LINK_FABRIC;
	if (peer->broken != 0)
		out->flags |= TWI_LINK_LOST;
	out->waiting_sends = twi_outbox_waiting(&peer->outbox);
	if (twi_outbox_no_credit(&peer->outbox))
		out->flags |= TWI_LINK_NO_CREDIT;
	out->starved_ns = twi_outbox_starved_ns(&peer->outbox, now);
	if ((peer->inbox.credit.charged - peer->inbox.credit.given) * 2 >= peer->inbox.credit.bytes)
		out->flags |= TWI_LINK_HOLDS;
	out->unacked_bytes =
		peer->outbox.credit.used - peer->outbox.credit.returned + given_bytes(peer);
	out->pending_ops = (uint32_t)twi_min(peer->outbox.seq_sent - peer->outbox.seq_acked +
						     out->waiting_sends,
					     (uint64_t)UINT32_MAX);
	if (peer->heard_ns != 0 && peer->heard_ns < now)
		out->silent_ns = now - peer->heard_ns;
	snprintf(fabric, TWI_STATE_FABRIC, "%s, domain %s", peer->port->provider,
		 info->domain_attr->name != NULL ? info->domain_attr->name : "?");
}

#endif
