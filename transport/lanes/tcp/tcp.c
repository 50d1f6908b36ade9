/*
 * tcp.c - the tcp lane's table: the calls of the engine, and when bytes that were prepared are
 * sent.
 */
#include "transport/lanes/tcp/tcp.h"
#include "diag/base/cancel.h"
#include "transport/lanes/tcp/tcp_break.h"
#include "transport/lanes/tcp/tcp_part.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/op/lane_host.h"

#define CLOCK_TURNS 64u

static struct twi_tcp_peer *tcp_peer(struct tow_peer *peer)
{
	return (struct twi_tcp_peer *)(void *)peer;
}

static int lane_open(struct twi_engine *engine, struct twi_lane **lane_out)
{
	struct twi_tcp_lane *lane = calloc(1, sizeof(*lane));
	int status = lane == NULL ? twi_error(TOW_ENOMEM, "no memory for the tcp lane")
				  : twi_tcp_interfaces_check(engine->knobs.interfaces);

	if (status == TOW_OK)
		status = twi_tcp_direct_init(&lane->direct);
	if (status == TOW_OK)
		status = twi_tcp_door_init(&lane->door);
	if (status < 0) {
		if (lane != NULL)
			twi_tcp_direct_fini(&lane->direct);
		free(lane);
		return status;
	}
	lane->base.ops = &twi_lane_tcp;
	lane->base.engine = engine;
	twi_list_init(&lane->dirty);
	twi_list_init(&lane->dying);
	twi_list_init(&lane->troubled);
	twi_list_init(&lane->orphans);
	twi_list_init(&lane->handshakes);
	twi_list_init(&lane->listeners);
	lane->due_ns = UINT64_MAX;
	lane->beat_ns = UINT64_MAX;
	lane->stalls.look_ns = lane->stalls.back_ns = UINT64_MAX;
	for (uint32_t i = 0; i < TWI_ZC_RECORDS; i++)
		lane->zc[i].next_free = i + 1 < TWI_ZC_RECORDS ? i + 2 : 0;
	lane->zc_free = 1;
	lane->zc_ask_ns = UINT64_MAX;
	*lane_out = &lane->base;
	return TOW_OK;
}

/* The runtime closes, so no caller can use what is still on its way. */
static void end_all(struct twi_tcp_lane *lane)
{
	struct twi_list *entry;

	while ((entry = twi_list_first(&lane->dying)) != NULL)
		twi_tcp_peer_lost(twi_container_of(entry, struct twi_tcp_peer, dying), TOW_ECLOSED);
	twi_tcp_handshake_expire(lane, UINT64_MAX);
}

static void lane_close(struct twi_lane *base)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;
	struct twi_engine *engine = base->engine;
	uint64_t until = twi_now_ns() + TWI_LINGER_NS;

	/* A thread without a ring cannot send the rest. */
	while (engine->ring != NULL && !twi_list_empty(&lane->dying) && twi_now_ns() < until) {
		if (twi_engine_poll(engine) == 0)
			twi_ring_sleep(engine->ring, 1000 * 1000);
	}
	end_all(lane);
	for (uint32_t i = 0; i < TWI_ZC_RECORDS; i++) {
		if (lane->zc[i].used && !lane->zc[i].released)
			twi_claim_drop(engine, &lane->zc[i].claim);
	}
	twi_tcp_door_fini(&lane->door);
	twi_tcp_direct_fini(&lane->direct);
	free(lane->slots);
	free(lane);
}

/*
 * The peer has bytes that the next progress moves. A sleeping driver is woken for them, once: the
 * caller may not come back for long, and its own descriptor must report that there is work.
 */
static void hold_back(struct twi_tcp_peer *peer)
{
	struct twi_engine *engine = peer->base.engine;

	if (!twi_list_empty(&peer->dirty))
		return;
	twi_tcp_mark_dirty(peer);
	engine->armed_since_enter = true;
	if (engine->ring != NULL && engine->ring->watched)
		twi_ring_wake(engine->ring);
}

/*
 * Flushes now, or lets the message wait for others. The first message of a burst is sent at once.
 * So is the first one after bytes of any peer have come, because an answer often takes another
 * connection than its question. The next ones share a system call. They are sent when there are
 * enough, or when a caller waits.
 */
static void kick_peer(struct twi_tcp_peer *peer, uint64_t now_ns)
{
	struct twi_engine *engine = peer->base.engine;
	struct twi_session *session = &peer->session;

	if (peer->lost)
		return;
	if (engine->corked) { /* more messages follow at once, and then a flush */
		twi_tcp_mark_dirty(peer);
		return;
	}
	if (!session->urgent && peer->words_answered == twi_tcp_lane_of(engine)->words &&
	    session->tx_tail - session->tx_head < TWI_FLUSH_BYTES &&
	    now_ns - peer->last_flush_ns < engine->knobs.gather_ns) {
		if (!engine->in_callback) /* else what drives sends it */
			twi_handoff_hold(&engine->handoff, now_ns);
		hold_back(peer);
		return;
	}
	peer->last_flush_ns = now_ns;
	twi_tcp_pump(peer);
	if (engine->ring == NULL) {
		twi_tcp_mark_dirty(peer);
		engine->armed_since_enter = true; /* a sleeping driver sends it */
		return;
	}
	twi_ring_submit(engine->ring);
	twi_ring_reap(engine->ring);
}

static void peer_send(struct tow_peer *base, struct tow_op *op)
{
	uint64_t start_ns = op->start_ns;

	twi_outbox_send(&twi_session_of(base)->outbox, op);
	kick_peer(tcp_peer(base), start_ns);
}

static bool peer_send_at_once(struct tow_peer *base, struct twi_outbound *out)
{
	if (!twi_outbox_at_once(&twi_session_of(base)->outbox, out))
		return false;
	kick_peer(tcp_peer(base), out->start_ns);
	return true;
}

static bool peer_recv_at_once(struct tow_peer *base, struct twi_instant *instant)
{
	struct twi_session *session = twi_session_of(base);

	if (twi_inbox_instant(&session->inbox, instant) != TOW_OK) /* TOW_AGAIN, too */
		return false;
	if (twi_session_has_words(session))
		kick_peer(tcp_peer(base), twi_engine_batch_now(base->engine));
	return true;
}

static void peer_look_again(struct tow_peer *base, uint64_t tag, uint32_t context)
{
	twi_session_look_again(twi_session_of(base), tag, context);
	if (twi_session_has_words(twi_session_of(base)))
		kick_peer(tcp_peer(base), twi_engine_batch_now(base->engine));
}

static void peer_recv(struct tow_peer *base, struct tow_op *op)
{
	uint64_t start_ns = op->start_ns;

	twi_session_recv(twi_session_of(base), op);
	if (twi_session_has_words(twi_session_of(base)))
		kick_peer(tcp_peer(base), start_ns);
}

static bool peer_abort(struct tow_peer *base, struct tow_op *op, int status, bool force)
{
	struct twi_tcp_peer *peer = tcp_peer(base);
	struct twi_ring *ring = base->engine->ring;
	bool ended;

	/*
	 * A request that holds the operation's memory must have run before that is given back. A
	 * completion may have prepared the next one, so they run once more.
	 */
	if (ring != NULL) {
		twi_ring_submit(ring);
		twi_ring_reap(ring);
		twi_ring_submit(ring);
		if (twi_message_is_over(op, status))
			return true;
	}
	/* A message that is not all on its way is followed by an ABORT. */
	if (force && op->kind == TWI_OP_SEND && op->moved >= op->bytes)
		twi_tcp_zerocopy_recall(twi_tcp_lane_of(base->engine), peer, op);
	if (op->stage == TWI_STAGE_COMPLETING)
		return true;
	ended = twi_session_abort(twi_session_of(base), op, status, force);
	hold_back(peer);
	return ended;
}

static void peer_close(struct tow_peer *base)
{
	struct twi_tcp_peer *peer = tcp_peer(base);

	if (peer->lost) {
		twi_tcp_peer_free(peer);
		return;
	}
	if (peer->parting) /* it is freed by itself when that is over */
		return;
	twi_error(TOW_ECLOSED, "peer %s was closed on this side", base->address);
	twi_tcp_peer_part(peer, TOW_ECLOSED);
	twi_tcp_flush_peer(peer);
	hold_back(peer);
}

/* Reads bytes that a poll has reported. True: some have come, and the peer may be gone. */
static bool pull_peer(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer)
{
	struct twi_tcp_stream *stream = peer->lines[0].stream;

	if (stream == NULL || !stream->readable)
		return false;
	stream->readable = false;
	return twi_tcp_direct_pull(lane, stream);
}

static unsigned pump_dirty(struct twi_tcp_lane *lane)
{
	struct twi_list work, *entry;
	unsigned count = 0;

	twi_list_init(&work);
	twi_handoff_sent(&lane->base.engine->handoff);
	while ((entry = twi_list_first(&lane->dirty)) != NULL) {
		twi_list_remove(entry);
		twi_list_push_back(&work, entry);
	}
	while ((entry = twi_list_first(&work)) != NULL) {
		struct twi_tcp_peer *peer = twi_container_of(entry, struct twi_tcp_peer, dirty);

		twi_list_remove(entry);
		count++;
		if (twi_unlikely(lane->base.engine->plain_rings) && pull_peer(lane, peer))
			continue; /* it is dirty again, or lost */
		twi_tcp_pump(peer);
		if (peer->parting)
			twi_tcp_part_finish(lane, peer);
	}
	return count;
}

/*
 * The clock is read in some turns only, because a waiter that spins comes here every 100 ns. It is
 * read in each turn after a sleep until due_ns, and while a connection is being made or mended.
 */
static bool clock_turn(struct twi_tcp_lane *lane)
{
	if (lane->due_ns == UINT64_MAX)
		return false;
	return lane->slept || ++lane->turns % CLOCK_TURNS == 0 ||
	       !twi_list_empty(&lane->troubled) || !twi_list_empty(&lane->handshakes);
}

static unsigned lane_progress(struct twi_lane *base)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;
	unsigned count = twi_list_empty(&lane->dirty) ? 0 : pump_dirty(lane);

	/* Sends first, because the read of direct streams is a system call. */
	if (lane->direct.count > 0 && twi_tcp_direct_read(lane) > 0)
		count += 1 + pump_dirty(lane);

	if (twi_unlikely(clock_turn(lane))) {
		uint64_t now = twi_engine_now(base->engine);

		lane->slept = false;
		if (now >= lane->due_ns)
			twi_tcp_clock(lane, now);
	}
	return count;
}

static void lane_flush(struct twi_lane *base, bool acks_too)
{
	TWI_UNCANCELED; /* a start of several messages comes here, and not by a poll */
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;
	struct twi_engine *engine = base->engine;
	struct twi_list *pos, *next;

	if (acks_too) {
		twi_tcp_direct_end(lane); /* a thread goes to sleep */
		twi_list_for_each_safe (pos, next, &engine->peers) {
			struct tow_peer *peer = twi_container_of(pos, struct tow_peer, link);

			if (peer->lane == base && tcp_peer(peer)->session_up)
				twi_tcp_flush_peer(tcp_peer(peer));
		}
	}
	lane_progress(&lane->base);
	if (engine->ring != NULL) {
		twi_ring_submit(engine->ring);
		twi_ring_reap(engine->ring);
	}
}

static void lane_push(struct twi_lane *base)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;
	struct twi_engine *engine = base->engine;

	if (engine->ring == NULL || engine->plain_rings) /* these read when they are pumped */
		return;
	/* Bytes that the ring has sent make room for those that wait behind them. */
	twi_ring_submit(engine->ring);
	twi_ring_reap(engine->ring);
	for (struct twi_list *pos = lane->dirty.next; pos != &lane->dirty; pos = pos->next)
		twi_container_of(pos, struct twi_tcp_peer, dirty)->session.urgent = true;
	pump_dirty(lane);
	twi_ring_submit(engine->ring);
	twi_ring_reap(engine->ring);
}

static uint64_t lane_deadline(struct twi_lane *base)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;

	lane->slept = true;
	/* A caller is about to sleep in a wait: peers that stay silent meanwhile are examined. */
	if (base->engine->inquiry != NULL && lane->beat_ns != UINT64_MAX &&
	    atomic_load_explicit(&base->engine->waiters, memory_order_relaxed) > 0)
		twi_tcp_due(lane, lane->watch_ns);
	return twi_list_empty(&lane->dirty) ? lane->due_ns : 0;
}

static void lane_driver_changed(struct twi_lane *base)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;

	twi_tcp_direct_end(lane);
	twi_tcp_zerocopy_ask_later(lane, twi_engine_now(base->engine));
	for (uint32_t i = 0; i < lane->slot_count; i++) {
		if (lane->slots[i].stream != NULL)
			twi_tcp_arm(lane, lane->slots[i].stream);
		else if (lane->slots[i].listener != NULL)
			twi_tcp_accept_arm(lane, lane->slots[i].listener);
	}
}

static void lane_ring_gone(struct twi_lane *base, unsigned index)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;
	uint32_t keep = ~(1u << index);

	for (uint32_t i = 0; i < lane->slot_count; i++) {
		struct twi_tcp_stream *stream = lane->slots[i].stream;

		if (stream != NULL) {
			stream->pollin_rings &= keep;
			stream->pollout_rings &= keep;
			stream->recv_rings &= keep;
		}
		if (lane->slots[i].listener != NULL)
			lane->slots[i].listener->accept_rings &= keep;
	}
	twi_tcp_zerocopy_ring_gone(lane, index);
}

const struct twi_lane_ops twi_lane_tcp = {
	.id = TWI_LANE_TCP,
	.scheme = "tcp",
	.encrypts = true,
	.gathers = true,
	.scatters = true,
	.resolve = twi_tcp_resolve,
	.open = lane_open,
	.close = lane_close,
	.endpoint_open = twi_tcp_endpoint_open,
	.endpoint_close = twi_tcp_endpoint_close,
	.connect = twi_tcp_dial,
	.connect_abort = twi_tcp_dial_abort,
	.connect_measure = twi_tcp_dial_measure,
	.send = peer_send,
	.send_at_once = peer_send_at_once,
	.recv_at_once = peer_recv_at_once,
	.recv = peer_recv,
	.look_again = peer_look_again,
	.abort = peer_abort,
	.peer_close = peer_close,
	.process_ended = twi_tcp_process_ended,
	.flush = lane_flush,
	.push = lane_push,
	.progress = lane_progress,
	.deadline_ns = lane_deadline,
	.driver_changed = lane_driver_changed,
	.ring_gone = lane_ring_gone,
	.completed = twi_tcp_completed,
	.need = twi_tcp_need,
	.peer_describe = twi_tcp_peer_describe,
	.peer_measure = twi_tcp_peer_measure,
	.peer_streams = twi_tcp_peer_streams,
};
