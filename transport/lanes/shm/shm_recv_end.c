/*
 * shm_recv_end.c - what becomes of a peer's receives and messages when the peer has gone.
 */
#include <stdlib.h>

#include "transport/lanes/shm/shm_settle.h"

/* Offers cannot be fetched any more; small messages that are here can still be received. */
static void drop_offers(struct twi_shm_peer *peer)
{
	for (unsigned i = 0; i < TWI_SHM_OFFERS; i++) {
		struct twi_shm_incoming *incoming = &peer->incoming[i];

		if (!incoming->used)
			continue;
		if (incoming->op == NULL)
			twi_match_remove_unexpected(&peer->match, &incoming->arrival.match);
		twi_shm_forget(peer, incoming);
	}
}

void twi_shm_recv_fail(struct twi_shm_peer *peer, int status)
{
	struct twi_match_entry *entry;

	for (unsigned i = 0; i < TWI_SHM_OFFERS; i++) {
		struct tow_op *op = peer->incoming[i].op;

		if (peer->incoming[i].used && op != NULL)
			twi_shm_op_end(peer, op, status, 0);
	}
	drop_offers(peer);
	while ((entry = twi_match_first_posted(&peer->match)) != NULL) {
		twi_match_remove_posted(&peer->match, entry);
		twi_shm_op_end(peer, twi_container_of(entry, struct tow_op, match), status, 0);
	}
}

void twi_shm_traffic_fini(struct twi_shm_peer *peer)
{
	struct twi_match_entry *entry;

	while ((entry = twi_match_first_unexpected(&peer->match)) != NULL) {
		struct twi_shm_arrival *arrival =
			twi_container_of(entry, struct twi_shm_arrival, match);

		twi_match_remove_unexpected(&peer->match, entry);
		free(twi_container_of(arrival, struct twi_shm_parcel, arrival));
	}
}
