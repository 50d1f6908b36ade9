/*
 * shm_copy.c - the bytes of large messages: out of the sender's mapped pool, out of its other
 * memory, or piece by piece out of its staging; and what a peer has to do in one round.
 */
#include <poll.h>

#include "diag/error.h"
#include "transport/path.h"
#include "transport/shm/shm.h"

static void copy_pool(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
		      const void *from, uint64_t bytes)
{
	twi_path_copy_large(peer->base.engine->diag,
			    (uint8_t *)incoming->op->data + incoming->copied, from, bytes,
			    incoming->arrival.bytes, incoming->copied == 0);
	incoming->copied += bytes;
}

/* The next piece of a staged message has come. Of one that is not wanted any more: nothing. */
int twi_shm_piece_noted(struct twi_shm_peer *peer, const struct twi_shm_remark *remark)
{
	struct twi_shm_incoming *incoming = &peer->incoming[remark->offer];

	if (!incoming->used || incoming->generation != remark->generation || !incoming->wanted)
		return TOW_OK;
	if (remark->bytes > incoming->arrival.bytes - incoming->copied)
		return twi_error(TOW_EPROTOCOL, "peer %s sends more than it has offered",
				 peer->base.address);
	copy_pool(peer, incoming, (uint8_t *)peer->shared->extents[remark->extent] + remark->where,
		  remark->bytes);
	if (incoming->copied == incoming->arrival.bytes)
		twi_shm_commit(peer, incoming);
	else
		twi_shm_incoming_note(peer, incoming, TWI_SHM_TAKEN);
	return TOW_OK;
}

/* A number of a process that has ended may be another's by now: the socket knows. */
static bool is_alive(const struct twi_shm_peer *peer)
{
	struct pollfd end = { .fd = peer->socket.fd, .events = POLLRDHUP };

	return poll(&end, 1, 0) == 0;
}

/* Memory of the sender's outside its pool. False: it cannot be read, so it must come in pieces. */
static bool copy_remote(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
			uint64_t bytes)
{
	struct tow_op *op = incoming->op;
	ssize_t n = twi_path_copy_remote(peer->base.engine, peer->pid,
					 (uint8_t *)op->data + incoming->copied,
					 incoming->where + incoming->copied, bytes, op->site);

	if (n <= 0)
		return false;
	incoming->copied += (uint64_t)n;
	return incoming->copied < incoming->arrival.bytes || is_alive(peer);
}

/* The next `bytes`, at most, of the oldest message that is being copied. Returns how many. */
static uint64_t copy_some(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
			  uint64_t bytes)
{
	bytes = twi_min(incoming->arrival.bytes - incoming->copied, bytes);
	if (incoming->type == TWI_SHM_IN_POOL) {
		copy_pool(peer, incoming,
			  (uint8_t *)peer->shared->extents[incoming->extent] + incoming->where +
				  incoming->copied,
			  bytes);
	} else if (!copy_remote(peer, incoming, bytes)) {
		twi_shm_want(peer, incoming); /* one taken back comes to its end there, too */
		return bytes;
	}
	if (incoming->copied == incoming->arrival.bytes)
		twi_shm_commit(peer, incoming);
	return bytes;
}

unsigned twi_shm_recv_work(struct twi_shm_peer *peer)
{
	uint64_t left = TWI_SHM_CHUNK;
	unsigned events = 0;
	struct twi_list *entry;

	while (left > 0 && (entry = twi_list_first(&peer->copying)) != NULL) {
		left -= copy_some(peer, twi_container_of(entry, struct twi_shm_incoming, link),
				  left);
		events++;
	}
	return events;
}

unsigned twi_shm_work(struct twi_shm_peer *peer)
{
	unsigned events = twi_shm_recv_work(peer);

	events += twi_shm_send_work(peer);
	if (peer->stage != TWI_SHM_UP)
		return events;
	peer->busy = !twi_list_empty(&peer->copying) || !twi_list_empty(&peer->queued) ||
		     !twi_list_empty(&peer->staging) || !twi_list_empty(&peer->revoked);
	return events;
}
