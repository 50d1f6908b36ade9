/*
 * shm.c - the shm lane's table: which peers are polled, how this side sleeps and is woken, and how
 * a peer ends. See shm.h.
 *
 * Sleeping. Before the engine sleeps it calls flush, which sets `asleep` in this side's segments
 * and passes a fence. Then deadline_ns looks at every ring once more. A writer writes, fences, and
 * reads `asleep`. So one of the two sides sees the other. A writer that finds `asleep` set clears
 * it and sends one byte. No other code clears it, so a thread that sleeps while another one drives
 * is still woken.
 *
 * Budget of a turn with nothing to do: one load for each peer.
 */
#include "transport/lanes/shm/shm.h"
#include "transport/lanes/shm/shm_window.h"
#include "transport/message/waiting.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/op/lane_host.h"

#define SLOTS_MAX (1u << 20)

static struct twi_shm_peer *shm_peer(struct tow_peer *peer)
{
	return (struct twi_shm_peer *)(void *)peer;
}

static int take_slot(struct twi_shm_lane *lane, uint32_t *slot_out)
{
	struct twi_shm_watch_slot *slots;
	uint32_t count = lane->slot_count, more;

	for (uint32_t i = 0; i < count; i++) {
		if (lane->slots[i].watch == NULL) {
			*slot_out = i;
			return TOW_OK;
		}
	}
	more = count == 0 ? 16 : count * 2;
	slots = more > SLOTS_MAX ? NULL : realloc(lane->slots, more * sizeof(slots[0]));
	if (slots == NULL)
		return twi_error(TOW_ENOMEM, "no memory for %u sockets of the shm lane", more);
	for (uint32_t i = count; i < more; i++)
		slots[i] = (struct twi_shm_watch_slot){ 0 };
	lane->slots = slots;
	lane->slot_count = more;
	*slot_out = count;
	return TOW_OK;
}

int twi_shm_watch_open(struct twi_shm_lane *lane, struct twi_shm_watch *watch,
		       enum twi_shm_watch_kind kind, int fd)
{
	uint32_t slot = 0;
	int status = take_slot(lane, &slot);

	if (status < 0)
		return status;
	*watch = (struct twi_shm_watch){ .fd = fd,
					 .slot = slot,
					 .generation = ++lane->slots[slot].generation,
					 .kind = (uint8_t)kind,
					 .live = true };
	lane->slots[slot].watch = watch;
	return TOW_OK;
}

void twi_shm_watch_close(struct twi_shm_lane *lane, struct twi_shm_watch *watch)
{
	if (!watch->live)
		return;
	lane->slots[watch->slot].watch = NULL;
	watch->live = false;
	/* Sleeping polls of other rings still hold the file. The shutdown ends the socket now. */
	shutdown(watch->fd, SHUT_RDWR);
	twi_ring_forget(lane->base.engine, watch->fd);
	close(watch->fd);
}

void twi_shm_watch_arm(struct twi_shm_lane *lane, struct twi_shm_watch *watch)
{
	struct twi_engine *engine = lane->base.engine;

	engine->armed_since_enter = true;
	/* What a thread arms that is not the driver, the driver must arm, too. */
	if (engine->ring != engine->armed_ring)
		engine->armed_ring = NULL;
	if (watch->live)
		twi_watch(engine, TWI_LANE_SHM, (uint64_t)watch->generation << 32 | watch->slot,
			  watch->fd, &watch->rings);
}

/* Closes the peer's descriptors and ends its operations. The user may still hold the peer. */
static void peer_end(struct twi_shm_peer *peer, int status)
{
	struct twi_shm_lane *lane = twi_shm_lane_of(peer->base.engine);

	twi_shm_wake(peer);
	peer->stage = TWI_SHM_LOST;
	twi_peer_ended(&peer->base, status);
	twi_list_remove(&peer->link);
	lane->up_count--;
	twi_shm_watch_close(lane, &peer->socket);
	twi_shm_send_fail(peer, status);
	twi_shm_recv_fail(peer, status);
	twi_shm_out_fini(&peer->out);
	peer->shared->peer = NULL;
	twi_shm_link_release(peer->shared);
	peer->shared = NULL;
}

void twi_shm_peer_lost(struct twi_shm_peer *peer, int status)
{
	if (peer->stage != TWI_SHM_UP)
		return;
	twi_peer_tell_lost(&peer->base, tow_error_message());
	peer_end(peer, status);
}

void twi_shm_protocol_error(struct twi_shm_peer *peer, enum twi_rule rule)
{
	twi_count(peer->base.engine->diag, TWI_C_protocol_errors, 1);
	if (peer->rule != 0) /* the message names it already */
		rule = (enum twi_rule)peer->rule;
	else
		twi_rule_add(rule);
	if (peer->stage == TWI_SHM_UP)
		atomic_store_explicit(&peer->out.box.head->closed, (uint32_t)twi_rule_bye(rule),
				      memory_order_release);
	twi_shm_peer_lost(peer, TOW_EPROTOCOL);
}

void twi_shm_socket_failed(struct twi_shm_peer *peer, int status)
{
	if (status == TOW_EPROTOCOL)
		twi_shm_protocol_error(peer, TWI_RULE_SOCKET);
	else
		twi_shm_peer_lost(peer, status);
}

void twi_shm_peer_free(struct twi_shm_peer *peer)
{
	struct twi_shm_lane *lane = twi_shm_lane_of(peer->base.engine);

	if (peer->stage < TWI_SHM_UP) {
		twi_list_remove(&peer->link);
		lane->handshake_count--;
		twi_shm_watch_close(lane, &peer->socket);
		twi_shm_out_fini(&peer->out);
		if (peer->shared != NULL) {
			peer->shared->peer = NULL;
			twi_shm_link_release(peer->shared);
		}
	}
	twi_auth_wipe(&peer->auth);
	twi_shm_traffic_fini(peer);
	twi_peer_teardown(&peer->base);
	twi_peer_free(&peer->base);
}

static int lane_open(struct twi_engine *engine, struct twi_lane **lane_out)
{
	struct twi_shm_lane *lane = calloc(1, sizeof(*lane));

	if (lane == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the shm lane");
	lane->base.ops = &twi_lane_shm;
	lane->base.engine = engine;
	twi_list_init(&lane->handshakes);
	twi_list_init(&lane->up);
	twi_list_init(&lane->idle);
	twi_list_init(&lane->links);
	twi_list_init(&lane->extents);
	lane->barriers = twi_shm_barriers_join();
	lane->maps = twi_reach_maps();
	*lane_out = &lane->base;
	return TOW_OK;
}

static void lane_close(struct twi_lane *base)
{
	struct twi_shm_lane *lane = (struct twi_shm_lane *)(void *)base;
	struct twi_list *entry;

	twi_shm_handshake_expire(lane, UINT64_MAX);
	/* Views that the user still has end with the runtime. */
	while ((entry = twi_list_first(&lane->links)) != NULL) {
		struct twi_shm_link *shared = twi_container_of(entry, struct twi_shm_link, link);

		shared->refs = 1;
		twi_shm_link_release(shared);
	}
	if (lane->maps >= 0)
		close(lane->maps);
	free(lane->slots);
	free(lane);
}

static void peer_send(struct tow_peer *base, struct tow_op *op)
{
	twi_outbox_send(&shm_peer(base)->outbox, op);
}

static bool peer_send_at_once(struct tow_peer *base, struct twi_outbound *out)
{
	return twi_outbox_at_once(&shm_peer(base)->outbox, out);
}

/* A message that comes while the receive looks for one goes straight to that receive. */
static bool peer_recv_at_once(struct tow_peer *base, struct twi_instant *instant)
{
	struct twi_shm_peer *peer = shm_peer(base);
	int status = twi_inbox_instant(&peer->inbox, instant);

	if (status != TOW_AGAIN) {
		twi_shm_unstall(peer); /* there may be room for the next message */
		return status == TOW_OK;
	}
	if (peer->stage != TWI_SHM_UP || twi_shm_slot_peek(&peer->in) == 0)
		return false;
	peer->inbox.instant = instant;
	peer->moved = true;
	for (unsigned n = 0; n < TWI_SHM_BATCH && !instant->taken && peer->stage == TWI_SHM_UP;
	     n++) {
		if (twi_shm_take_messages(peer, 1) == 0)
			break;
	}
	peer->inbox.instant = NULL;
	twi_shm_unstall(peer);
	return instant->taken;
}

static bool peer_abort(struct tow_peer *base, struct tow_op *op, int status, bool force)
{
	if (op->kind == TWI_OP_SEND)
		return twi_outbox_abort(&shm_peer(base)->outbox, op, status, force);
	return twi_shm_abort_recv(shm_peer(base), op, status, force);
}

/*
 * Messages in the ring stay readable for the other side, so the close waits for nothing. The other
 * side reads everything that was written, and then sees the end of the socket.
 */
static void peer_close(struct tow_peer *base)
{
	struct twi_shm_peer *peer = shm_peer(base);

	if (peer->stage == TWI_SHM_UP) {
		twi_error(TOW_ECLOSED, "peer %s was closed on this side", base->address);
		atomic_store_explicit(&peer->out.box.head->closed, 1, memory_order_release);
		peer_end(peer, TOW_ECLOSED);
	}
	twi_shm_peer_free(peer);
}

/*
 * The socket, or the process that held it, has ended. Messages in the ring are still delivered, and
 * then the peer is lost.
 */
static void other_side_ended(struct twi_shm_peer *peer, int status, bool process)
{
	char rank[TWI_PEER_RANK];
	uint32_t closed;

	if (status != TOW_EPEER) {
		twi_shm_socket_failed(peer, status);
		return;
	}
	twi_shm_take_messages(peer, TWI_SHM_ALL);
	if (peer->stage != TWI_SHM_UP)
		return;
	twi_shm_take_all_notes(peer);
	if (peer->stage != TWI_SHM_UP)
		return;
	closed = atomic_load_explicit(&peer->in.box.head->closed, memory_order_acquire);
	if (closed == 0 && process)
		twi_error(TOW_EPEER, "peer %s%s is gone: its process has ended", peer->base.address,
			  twi_peer_rank(&peer->base, rank));
	else
		twi_rule_bye_error(peer->base.address, twi_peer_rank(&peer->base, rank),
				   closed == 0 ? -1 : (int)twi_min(closed, 255u));
	twi_shm_peer_lost(peer, TOW_EPEER);
}

static void socket_event(struct twi_shm_lane *lane, struct twi_shm_peer *peer)
{
	int status = twi_shm_socket_read(peer);

	if (status >= 0) {
		twi_shm_wake(peer);
		twi_shm_watch_arm(lane, &peer->socket);
	} else if (peer->stage == TWI_SHM_UP) {
		other_side_ended(peer, status, false);
	} else if (peer->stage < TWI_SHM_UP) {
		twi_shm_handshake_failed(peer, status);
	}
}

/* Everything that the process wrote is readable, even if a child still holds its socket. */
static void process_ended(struct tow_peer *base)
{
	struct twi_shm_peer *peer = shm_peer(base);
	int status;

	if (peer->stage != TWI_SHM_UP)
		return;
	status = twi_shm_socket_read(peer);
	if (peer->stage == TWI_SHM_UP)
		other_side_ended(peer, status < 0 ? status : TOW_EPEER, true);
}

static void lane_completed(struct twi_lane *base, uint64_t user_data, int res, uint32_t flags,
			   const void *data)
{
	struct twi_shm_lane *lane = (struct twi_shm_lane *)(void *)base;
	uint32_t slot = (uint32_t)user_data;
	struct twi_shm_watch *watch;

	(void)res, (void)flags, (void)data;
	if (slot >= lane->slot_count || lane->slots[slot].watch == NULL ||
	    lane->slots[slot].generation != (uint16_t)(user_data >> 32))
		return;
	watch = lane->slots[slot].watch;
	watch->rings &= ~(1u << twi_watch_ring(user_data));
	if (watch->kind == TWI_SHM_WATCH_LISTENER)
		twi_shm_accept_event(lane,
				     twi_container_of(watch, struct twi_shm_endpoint, listener));
	else
		socket_event(lane, twi_container_of(watch, struct twi_shm_peer, socket));
}

static bool any_peer_ready(struct twi_shm_lane *lane)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->up) {
		if (twi_shm_peer_ready(twi_container_of(pos, struct twi_shm_peer, link)))
			return true;
	}
	return false;
}

static unsigned peer_progress(struct twi_shm_peer *peer)
{
	unsigned events = 0;

	if (!peer->stalled && twi_shm_slot_peek(&peer->in) != 0)
		events += twi_shm_take_messages(peer, TWI_SHM_BATCH);
	if (peer->expecting > 0 && peer->stage == TWI_SHM_UP && twi_shm_note_there(&peer->notes_in))
		events += twi_shm_take_notes(peer);
	if (peer->busy && peer->stage == TWI_SHM_UP)
		events += twi_shm_work(peer);
	if (events > 0)
		peer->moved = true;
	return events;
}

static unsigned lane_progress(struct twi_lane *base)
{
	struct twi_shm_lane *lane = (struct twi_shm_lane *)(void *)base;
	struct twi_list *pos, *next;
	unsigned events = 0;

	twi_list_for_each_safe (pos, next, &lane->up)
		events += peer_progress(twi_container_of(pos, struct twi_shm_peer, link));
	if (twi_unlikely(lane->up_count > base->engine->knobs.shm_polled_peers))
		twi_shm_sweep(lane);
	if (twi_unlikely(lane->handshake_count > 0))
		twi_shm_handshake_expire(lane, twi_engine_now(base->engine));
	/*
	 * The thread that owns a tow_fd may go and poll it, so this side counts as asleep from here
	 * on. If something has come before, deadline_ns says so when the engine is released.
	 */
	if (twi_unlikely(atomic_load_explicit(&base->engine->watchers, memory_order_relaxed) > 0))
		twi_shm_doze(lane);
	return events;
}

static void lane_flush(struct twi_lane *base, bool acks_too)
{
	if (acks_too)
		twi_shm_doze((struct twi_shm_lane *)(void *)base);
}

static uint64_t lane_deadline(struct twi_lane *base)
{
	struct twi_shm_lane *lane = (struct twi_shm_lane *)(void *)base;
	struct twi_list *pos, *next;
	uint64_t earliest = any_peer_ready(lane) ? 0 : UINT64_MAX;

	twi_list_for_each_safe (pos, next, &lane->up) {
		if (twi_shm_send_stages(twi_container_of(pos, struct twi_shm_peer, link)))
			earliest =
				twi_min(earliest, twi_engine_now(base->engine) + TWI_SHM_RETRY_NS);
	}
	twi_list_for_each_safe (pos, next, &lane->handshakes) {
		const struct twi_shm_peer *peer = twi_container_of(pos, struct twi_shm_peer, link);

		earliest = twi_min(earliest, peer->deadline_ns);
		if (peer->stage == TWI_SHM_CONNECTING)
			earliest = twi_min(earliest, peer->retry_ns);
	}
	return earliest;
}

static void lane_driver_changed(struct twi_lane *base)
{
	struct twi_shm_lane *lane = (struct twi_shm_lane *)(void *)base;

	for (uint32_t i = 0; i < lane->slot_count; i++) {
		struct twi_shm_watch *watch = lane->slots[i].watch;

		if (watch == NULL)
			continue;
		if (watch->kind == TWI_SHM_WATCH_SOCKET &&
		    twi_container_of(watch, struct twi_shm_peer, socket)->stage ==
			    TWI_SHM_CONNECTING)
			continue;
		twi_shm_watch_arm(lane, watch);
	}
}

static void lane_ring_gone(struct twi_lane *base, unsigned index)
{
	struct twi_shm_lane *lane = (struct twi_shm_lane *)(void *)base;

	for (uint32_t i = 0; i < lane->slot_count; i++) {
		if (lane->slots[i].watch != NULL)
			lane->slots[i].watch->rings &= ~(1u << index);
	}
}

void twi_shm_timed_small(struct twi_shm_peer *peer, const struct twi_shm_message *message)
{
	uint64_t now = twi_clock_gettime_ns();
	uint64_t taken_ns = now - twi_min(now, message->sent_ns);
	struct twi_latency_reading reading = {
		.kind = twi_latency_kind_of(message->space),
		.lane = TWI_LANE_SHM,
		.id = twi_peer_rpc_id(&peer->base, peer->inbox.seq_received, false),
		.bytes = message->bytes,
		.end_ns = now,
		.received = true,
	};

	if (!message->summed && !peer->other_clock && twi_space_counts(message->space))
		twi_peer_timed(&peer->base, peer->base.engine, &reading, taken_ns,
			       TWI_LATENCY_UNKNOWN, TWI_LATENCY_UNKNOWN);
}

static void peer_describe(struct tow_peer *base, struct twi_emit *emit)
{
	const struct twi_shm_peer *peer = shm_peer(base);

	twi_emit_str(emit, "state",
		     peer->base.ended != 0 ? tow_status_name(peer->base.ended) : "up");
	twi_peer_messages_describe(base, peer->outbox.seq_sent, peer->inbox.seq_received,
				   &peer->inbox.match, emit);
	twi_emit_u64(emit, "eager_max_bytes", peer->outbox.eager_bytes);
	twi_outbox_describe(&peer->outbox, emit);
	twi_emit_u64(emit, "unexpected_bytes", peer->inbox.kept_bytes);
	twi_emit_u64(emit, "offers_open", peer->offer_count);
	twi_emit_bool(emit, "stalled", peer->stalled);
	twi_emit_bool(emit, "polled", !peer->idle);
	twi_emit_str(emit, "memory_outside_pool",
		     peer->remote_mine ? "read by the peer with process_vm_readv"
				       : "staged: the peer may not read this process's memory");
	twi_emit_i64(emit, "peer_pid", peer->pid);
	if (peer->shared == NULL)
		return;
	twi_emit_u64(emit, "ring_slots", peer->out.box.shape.slots);
	twi_emit_u64(emit, "ring_area_bytes", peer->out.box.shape.area_bytes);
	twi_emit_u64(emit, "extents_mapped", peer->shared->extent_count);
	twi_emit_u64(emit, "extents_announced", peer->announced);
}

/* Only waiting messages can be measured: there is no network on which messages could be. */
static void peer_measure(struct tow_peer *base, struct twi_state_link *out, char *fabric)
{
	const struct twi_shm_peer *peer = shm_peer(base);
	const struct twi_credit_in *credit = &peer->inbox.credit;

	(void)fabric;
	if (peer->stage != TWI_SHM_UP)
		return;
	out->waiting_sends = twi_outbox_waiting(&peer->outbox);
	if (twi_outbox_no_credit(&peer->outbox))
		out->flags |= TWI_LINK_NO_CREDIT;
	out->starved_ns = twi_outbox_starved_ns(&peer->outbox, twi_engine_now(base->engine));
	if ((credit->charged - credit->given) * 2 >= credit->bytes)
		out->flags |= TWI_LINK_HOLDS;
}

const struct twi_lane_ops twi_lane_shm = {
	.id = TWI_LANE_SHM,
	.scheme = "shm",
	.scatters = true,
	.memory_polled = true,
	.open = lane_open,
	.close = lane_close,
	.endpoint_open = twi_shm_endpoint_open,
	.endpoint_close = twi_shm_endpoint_close,
	.connect = twi_shm_connect,
	.connect_abort = twi_shm_connect_abort,
	.send = peer_send,
	.send_at_once = peer_send_at_once,
	.recv_at_once = peer_recv_at_once,
	.recv = twi_shm_recv,
	.look_again = twi_shm_look_again,
	.abort = peer_abort,
	.peer_close = peer_close,
	.peer_measure = peer_measure,
	.process_ended = process_ended,
	.flush = lane_flush,
	.progress = lane_progress,
	.deadline_ns = lane_deadline,
	.driver_changed = lane_driver_changed,
	.ring_gone = lane_ring_gone,
	.completed = lane_completed,
	.windows = &twi_shm_windows,
	.peer_describe = peer_describe,
};
