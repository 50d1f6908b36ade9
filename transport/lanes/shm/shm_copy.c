/*
 * shm_copy.c - copies the bytes of large messages, and does the work of a peer in one round. The
 * bytes come out of the sender's mapped pool, out of its other memory, or in pieces out of its
 * staging.
 */
#include <poll.h>

#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include "memreg/pool/staging.h"
#include "transport/lanes/shm/shm_settle.h"
#include "transport/op/lane_host.h"

#define PIECE_MIN_BYTES (32u << 10)
#define PIECE_MAX_BYTES (128u << 10)

/* Adds the bytes that have just come to the checksum, while they are in the cache. */
static void add_sum(struct twi_shm_incoming *incoming, uint64_t bytes)
{
	if (twi_unlikely(incoming->summed))
		incoming->sum =
			twi_op_checksum(incoming->op, incoming->sum, incoming->copied, bytes);
}

static void copy_pool(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
		      const uint8_t *from, uint64_t bytes)
{
	struct twi_engine *engine = peer->base.engine;
	/* A view could have shown the sender's own bytes, had the sender lent them. */
	bool unlent = incoming->type == TWI_SHM_IN_POOL && incoming->op->view == TWI_VIEW_WHOLE;

	while (bytes > 0) {
		uint64_t run = bytes;
		void *to = twi_op_at(incoming->op, incoming->copied, &run);

		if (twi_unlikely(unlent))
			twi_path_copy_fallback(engine, TWI_R_view_unlent, to, from, run,
					       incoming->op->site);
		else
			twi_path_copy_large(engine->diag, to, from, run, twi_shm_takes(incoming),
					    incoming->copied == 0);
		add_sum(incoming, run);
		incoming->copied += run;
		from += run;
		bytes -= run;
	}
}

/*
 * Returns whether the receive's memory can be written. This process's own stores into bad memory
 * would end the process. A check of all pages would cost a quarter of the copy, so only the first
 * and the last page are checked. That finds memory that was unmapped or protected, and a file that
 * was shortened.
 */
static bool can_write(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming)
{
	const struct tow_op *op = incoming->op;
	uint64_t bytes = twi_shm_takes(incoming), good;

	if (incoming->copied > 0 || op->view == TWI_VIEW_WHOLE || op->claim.kind == TWI_CLAIM_POOL)
		return true;
	good = twi_op_reach_ends(op, bytes, true);
	if (good < bytes)
		twi_shm_unwritable(peer, incoming, good);
	return good == bytes;
}

/* A piece that no receive has a use for. The sender may make the next one if that helps. */
static void drop_piece(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming)
{
	if (incoming->pieces_only) {
		twi_shm_incoming_note(peer, incoming, TWI_SHM_TAKEN);
		twi_shm_help_lost(peer, incoming);
	} else {
		incoming->unanswered++;
	}
}

/* The next piece of a staged message has come. It is ignored if the offer has ended. */
int twi_shm_piece_noted(struct twi_shm_peer *peer, const struct twi_shm_remark *remark)
{
	struct twi_shm_incoming *incoming = &peer->incoming[remark->offer];
	uint64_t most, fits, begun_ns;

	if (!incoming->used || incoming->generation != remark->generation || !incoming->wanted)
		return TOW_OK;
	if (remark->bytes > incoming->arrival.bytes - incoming->came_bytes)
		return twi_error(TOW_EPROTOCOL, "peer %s sends more than it has offered",
				 peer->base.address);
	incoming->came_bytes += remark->bytes;
	if (twi_unlikely(incoming->dropping)) {
		drop_piece(peer, incoming);
		return TOW_OK;
	}
	if (!can_write(peer, incoming))
		return TOW_OK;
	most = incoming->helped ? incoming->read_from : twi_shm_takes(incoming);
	fits = twi_min(remark->bytes, most - twi_min(most, incoming->copied));
	begun_ns = incoming->helped ? twi_engine_clock(peer->base.engine) : 0;
	if (fits > 0)
		copy_pool(peer, incoming,
			  (uint8_t *)peer->shared->extents[remark->extent]->base + remark->where,
			  fits);
	incoming->copied += remark->bytes - fits;
	if (incoming->helped)
		twi_shm_help_came(peer, incoming, begun_ns, fits);
	else if (incoming->copied == incoming->arrival.bytes)
		twi_shm_commit(peer, incoming);
	else
		twi_shm_incoming_note(peer, incoming, TWI_SHM_TAKEN);
	return TOW_OK;
}

bool twi_shm_is_alive(const struct twi_shm_peer *peer)
{
	struct pollfd end = { .fd = peer->socket.fd, .events = POLLRDHUP };

	return poll(&end, 1, 0) == 0;
}

/* Copies sender memory outside the pool. Returns false if it cannot be read: it comes in pieces. */
static bool copy_remote(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
			uint64_t bytes)
{
	struct tow_op *op = incoming->op;
	void *to = twi_op_at(op, incoming->copied, &bytes);
	uint64_t begun_ns = twi_engine_clock(peer->base.engine);
	ssize_t n = twi_path_copy_remote(peer->base.engine, peer->pid, to,
					 incoming->where + incoming->copied, bytes, op->site);

	if (n <= 0)
		return false;
	if (n >= TWI_SHM_HELP_MIN_BYTES)
		twi_path_learn(&peer->read_cost, twi_engine_clock(peer->base.engine) - begun_ns,
			       (uint64_t)n);
	add_sum(incoming, (uint64_t)n);
	incoming->copied += (uint64_t)n;
	return incoming->copied < twi_shm_takes(incoming) || twi_shm_is_alive(peer);
}

/* Copies up to `bytes` more of an incoming message. Returns how many it has accounted for. */
static uint64_t copy_some(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
			  uint64_t bytes)
{
	const uint64_t takes = twi_shm_takes(incoming);

	bytes = twi_min(takes - incoming->copied, bytes);
	if (incoming->type == TWI_SHM_IN_POOL || incoming->type == TWI_SHM_LENT) {
		if (!can_write(peer, incoming))
			return bytes;
		copy_pool(peer, incoming,
			  (uint8_t *)peer->shared->extents[incoming->extent]->base +
				  incoming->where + incoming->copied,
			  bytes);
	} else if (!copy_remote(peer, incoming, bytes)) {
		uint64_t left = twi_min(takes - incoming->copied, bytes);

		if (twi_op_reach(incoming->op, incoming->copied, left, true) < left)
			twi_shm_unwritable(peer, incoming, incoming->copied);
		else if (incoming->dropping)
			twi_shm_help_alone(peer, incoming);
		else
			twi_shm_want(peer, incoming); /* a withdrawn offer also ends there */
		return bytes;
	}
	if (incoming->copied == takes)
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
	if (twi_unlikely(!twi_list_empty(&peer->helped)))
		events += twi_shm_help_work(peer);
	return events;
}

unsigned twi_shm_work(struct twi_shm_peer *peer)
{
	unsigned events = twi_shm_recv_work(peer);

	events += twi_shm_send_work(peer);
	if (peer->stage != TWI_SHM_UP)
		return events;
	peer->busy = !twi_list_empty(&peer->copying) || !twi_list_empty(&peer->helped) ||
		     twi_outbox_waits(&peer->outbox) || !twi_list_empty(&peer->staging) ||
		     !twi_list_empty(&peer->revoked);
	return events;
}

/* --- the sender's part: pieces --- */

/* So long that copying takes longer than handing over, so short that all stay in the cache. */
static uint64_t piece_bytes(const struct twi_engine *engine, const struct tow_op *op)
{
	uint64_t bytes = twi_min(op->bytes / TWI_SHM_PIECES, (uint64_t)PIECE_MAX_BYTES);

	return twi_min(twi_max(bytes, (uint64_t)PIECE_MIN_BYTES),
		       (uint64_t)engine->staging.chunk_bytes);
}

/*
 * A receiver that asks for help, and then computes, keeps its pieces. Half of the staging is left
 * to messages and device copies that have no other way.
 */
static bool may_stage(const struct twi_engine *engine, const struct twi_shm_offer *offer)
{
	const struct twi_staging *staging = &engine->staging;

	return !offer->asked || staging->free_count > staging->chunks / 2;
}

/* Stages the next piece of an offer. False if no staging is free, or all pieces are still out. */
static bool stage_piece(struct twi_shm_peer *peer, struct twi_shm_offer *offer)
{
	struct twi_engine *engine = peer->base.engine;
	struct twi_shm_remark piece = { .kind = TWI_SHM_PIECE,
					.offer = (uint16_t)(offer - peer->offers),
					.generation = offer->generation };
	const struct twi_extent *extent;
	struct tow_op *op = offer->op;
	void *chunk;

	if (offer->piece_count == twi_array_count(offer->pieces) || offer->staged == op->bytes ||
	    !may_stage(engine, offer))
		return false;
	chunk = twi_staging_acquire(&engine->staging);
	if (chunk == NULL)
		return false;
	piece.bytes = twi_min(op->bytes - offer->staged, piece_bytes(engine, op));
	if (!offer->plain && twi_op_reach(op, offer->staged, piece.bytes, false) < piece.bytes) {
		twi_staging_release(&engine->staging, chunk);
		twi_shm_unreadable(peer, offer);
		return true;
	}
	extent = twi_pool_find(engine->pool, chunk, piece.bytes);
	piece.extent = extent->slot;
	piece.where = (uint64_t)((uintptr_t)chunk - (uintptr_t)extent->base);
	twi_op_copy_out(op, offer->staged, chunk, piece.bytes);
	offer->pieces[offer->piece_count++] = chunk;
	offer->staged += piece.bytes;
	twi_shm_say(peer, &piece);
	return true;
}

unsigned twi_shm_stage(struct twi_shm_peer *peer)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &peer->staging) {
		if (stage_piece(peer, twi_container_of(pos, struct twi_shm_offer, link)))
			return 1; /* one piece a round, so that others have their turn */
	}
	return 0;
}

bool twi_shm_has_chunk(struct twi_shm_peer *peer)
{
	struct twi_staging *staging = &peer->base.engine->staging;
	void *chunk = twi_staging_acquire(staging);

	if (chunk != NULL)
		twi_staging_release(staging, chunk);
	return chunk != NULL;
}

bool twi_shm_send_stages(const struct twi_shm_peer *peer)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &peer->staging) {
		const struct twi_shm_offer *offer =
			twi_container_of(pos, struct twi_shm_offer, link);

		if (offer->piece_count < twi_array_count(offer->pieces) &&
		    offer->staged < offer->op->bytes && may_stage(peer->base.engine, offer))
			return true;
	}
	return false;
}
