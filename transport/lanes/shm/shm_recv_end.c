/*
 * shm_recv_end.c - ends a peer's receives and messages when the peer has gone.
 */
#include "transport/lanes/shm/shm_settle.h"

/* Offers can no longer be fetched. Small messages that have come can still be received. */
void twi_shm_recv_fail(struct twi_shm_peer *peer, int status)
{
	for (unsigned i = 0; i < peer->incoming_made; i++) {
		struct twi_shm_incoming *incoming = &peer->incoming[i];
		struct tow_op *op = incoming->op;

		if (!incoming->used || op == NULL)
			continue;
		twi_shm_forget(peer, incoming);
		twi_inbox_end(&peer->inbox, op, status, 0);
	}
	twi_inbox_fail(&peer->inbox, status);
}

void twi_shm_traffic_fini(struct twi_shm_peer *peer)
{
	twi_inbox_fini(&peer->inbox);
	twi_outbox_fini(&peer->outbox);
}
