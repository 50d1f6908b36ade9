/*
 * loop.c - the loop lane's table: names, connecting, and when each link is moved. See loop.h.
 *
 * There is no HELLO here. A connect finds its endpoint by name in the same runtime, after the
 * network's delay. At that moment both peers are made, or neither is.
 */
#include "transport/lanes/loop/loop.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/op/lane_host.h"

/* Rounds in which a call that has sent something may also deliver it. */
#define SETTLE_ROUNDS 64

static struct twi_loop_lane *loop_lane(struct twi_lane *lane)
{
	return (struct twi_loop_lane *)(void *)lane;
}

static struct twi_loop_peer *loop_peer(struct tow_peer *peer)
{
	return (struct twi_loop_peer *)(void *)peer;
}

static int lane_open(struct twi_engine *engine, struct twi_lane **lane_out)
{
	struct twi_loop_lane *lane = calloc(1, sizeof(*lane));

	if (lane == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the loop lane");
	lane->base.ops = &twi_lane_loop;
	lane->base.engine = engine;
	lane->config.pipe_bytes = TWI_LOOP_PIPE_BYTES;
	lane->config.channels = 1;
	twi_list_init(&lane->links);
	twi_list_init(&lane->active);
	twi_list_init(&lane->dials);
	twi_list_init(&lane->to_flush);
	*lane_out = &lane->base;
	return TOW_OK;
}

/* Both sides of every link are here and are closed: there is no side left to deliver to. */
static void lane_close(struct twi_lane *base)
{
	struct twi_loop_lane *lane = loop_lane(base);
	struct twi_list *entry;

	while ((entry = twi_list_first(&lane->links)) != NULL) {
		struct twi_loop_link *link = twi_container_of(entry, struct twi_loop_link, link);

		for (unsigned i = 0; i < 2; i++) {
			if (link->sides[i] != NULL)
				twi_loop_peer_free(lane, link->sides[i]);
		}
		twi_loop_link_free(link);
	}
	if (lane->nic != NULL)
		lane->nic->close(base->engine, lane->nic);
	free(lane);
}

static struct tow_endpoint *find_endpoint(struct twi_loop_lane *lane, const char *address)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->base.engine->endpoints) {
		struct tow_endpoint *endpoint = twi_container_of(pos, struct tow_endpoint, link);

		if (endpoint->lane == &lane->base && strcmp(endpoint->address, address) == 0)
			return endpoint;
	}
	return NULL;
}

/* Checks a name and writes the whole address. */
static int expand_name(const char *name, char out[TOW_ADDRESS_MAX])
{
	size_t n = strlen(name);

	for (size_t i = 0; i < n; i++) {
		if (!isgraph((unsigned char)name[i]))
			return twi_error(TOW_EINVAL,
					 "address loop://%.100s: a name has no blanks or controls",
					 name);
	}
	if (n == 0 || n + sizeof("loop://") > TOW_ADDRESS_MAX)
		return twi_error(TOW_EINVAL, "address loop://%.100s: the name is %s", name,
				 n == 0 ? "missing" : "too long");
	snprintf(out, TOW_ADDRESS_MAX, "loop://%s", name);
	return TOW_OK;
}

static int endpoint_open(struct twi_lane *lane, const char *name, struct tow_endpoint **out)
{
	struct tow_endpoint *endpoint;
	char address[TOW_ADDRESS_MAX];
	int status = expand_name(name, address);

	if (status < 0)
		return status;
	if (find_endpoint(loop_lane(lane), address) != NULL)
		return twi_error(TOW_EBUSY, "address %s is in use in this runtime", address);
	endpoint = twi_endpoint_alloc(sizeof(*endpoint));
	if (endpoint == NULL)
		return twi_error(TOW_ENOMEM, "no memory for an endpoint");
	snprintf(endpoint->address, sizeof(endpoint->address), "%s", address);
	twi_endpoint_setup(endpoint, lane);
	*out = endpoint;
	return TOW_OK;
}

static void endpoint_close(struct tow_endpoint *endpoint)
{
	twi_endpoint_free(endpoint);
}

static void dial_end(struct twi_loop_dial *dial, int status)
{
	struct tow_op *op = dial->op;

	twi_list_remove(&dial->link);
	free(dial);
	op->lane_state = NULL;
	twi_op_complete(op, status, 0);
}

/* The connect has reached the other side, if there is one. */
static void dial_arrived(struct twi_loop_lane *lane, struct twi_loop_dial *dial)
{
	struct tow_endpoint *endpoint = find_endpoint(lane, dial->to);
	struct twi_diag *diag = lane->base.engine->diag;
	struct twi_loop_link *link;
	char why[TWI_REQUIRE_WHY];
	int status;

	if (dial->refused || endpoint == NULL || twi_endpoint_full(endpoint)) {
		twi_count(diag, TWI_C_handshakes_refused, 1);
		if (endpoint == NULL || dial->refused)
			twi_error(TOW_EREFUSED, "connect to %s: no endpoint has that name",
				  dial->to);
		else
			twi_endpoint_refused(dial->to);
		dial_end(dial, TOW_EREFUSED);
		return;
	}
	if (!twi_require_lane(lane->base.engine->knobs.require, &twi_lane_loop, why)) {
		twi_count(diag, TWI_C_handshakes_refused, 1);
		twi_error(TOW_EREFUSED, "%s; %s is refused here", why, dial->to);
		twi_log(diag, 2, "%s", tow_error_message());
		dial_end(dial, TOW_EREFUSED);
		return;
	}
	status = twi_loop_link_create(lane, dial, &link);
	if (status < 0) {
		/* TOW_ENOMEM is no status of a connect: for the user the other side has failed. */
		dial_end(dial, TOW_EPEER);
		return;
	}
	twi_count(diag, TWI_C_peers_connected, 2);
	link->sides[0]->base.shown = true;
	dial->op->peer = &link->sides[0]->base;
	dial_end(dial, TOW_OK);
	twi_endpoint_ready(endpoint, &link->sides[1]->base);
}

static int connect_start(struct tow_endpoint *endpoint, const char *name, struct tow_op *op)
{
	struct twi_loop_lane *lane = loop_lane(endpoint->lane);
	struct twi_engine *engine = lane->base.engine;
	struct twi_loop_dial *dial = calloc(1, sizeof(*dial));
	uint64_t now = twi_engine_now(engine);
	int status;

	if (dial == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a connect");
	status = expand_name(name, dial->to);
	if (status < 0) {
		free(dial);
		return status;
	}
	snprintf(dial->from, sizeof(dial->from), "%s", endpoint->address);
	dial->op = op;
	op->lane_state = dial;
	dial->refused = twi_loop_chance(lane, lane->config.refuse);
	dial->due_ns = now + twi_loop_delay(lane);
	twi_list_push_back(&lane->dials, &dial->link);
	if (dial->due_ns <= now)
		dial_arrived(lane, dial);
	else
		engine->armed_since_enter = true;
	return TOW_OK;
}

static void connect_abort(struct tow_op *op, int status)
{
	if (op->lane_state != NULL)
		dial_end(op->lane_state, status);
	else
		twi_op_complete(op, status, 0);
}

/* A perfect network delivers at once; with faults or delay, progress does. */
static void settle_peer(struct twi_loop_lane *lane, struct twi_loop_peer *peer)
{
	struct twi_loop_link *link = peer->link;

	if (link != NULL)
		twi_loop_talks(lane, peer);
	if (twi_loop_flush(lane, peer, false) == 0 || lane->config.delay_max_ns > 0 ||
	    lane->config.delay_min_ns > 0)
		return;
	for (int i = 0; i < SETTLE_ROUNDS; i++) {
		if (twi_loop_link_move(lane, link) == 0)
			return;
	}
}

static void peer_send(struct tow_peer *base, struct tow_op *op)
{
	twi_outbox_send(&twi_session_of(base)->outbox, op);
	settle_peer(loop_lane(base->lane), loop_peer(base));
}

static bool peer_send_at_once(struct tow_peer *base, struct twi_outbound *out)
{
	if (!twi_outbox_at_once(&twi_session_of(base)->outbox, out))
		return false;
	settle_peer(loop_lane(base->lane), loop_peer(base));
	return true;
}

static bool peer_recv_at_once(struct tow_peer *base, struct twi_instant *instant)
{
	struct twi_session *session = twi_session_of(base);

	if (twi_inbox_instant(&session->inbox, instant) != TOW_OK) /* TOW_AGAIN, too */
		return false;
	if (twi_session_has_words(session))
		settle_peer(loop_lane(base->lane), loop_peer(base));
	return true;
}

static void peer_look_again(struct tow_peer *base, uint64_t tag, uint32_t context)
{
	twi_session_look_again(twi_session_of(base), tag, context);
	if (twi_session_has_words(twi_session_of(base)))
		settle_peer(loop_lane(base->lane), loop_peer(base));
	else if (loop_peer(base)->link != NULL)
		twi_loop_talks(loop_lane(base->lane), loop_peer(base));
}

static void peer_recv(struct tow_peer *base, struct tow_op *op)
{
	twi_session_recv(twi_session_of(base), op);
	if (twi_session_has_words(twi_session_of(base)))
		settle_peer(loop_lane(base->lane), loop_peer(base));
	else if (loop_peer(base)->link != NULL)
		twi_loop_talks(loop_lane(base->lane), loop_peer(base));
}

static bool peer_abort(struct tow_peer *base, struct tow_op *op, int status, bool force)
{
	bool ended;

	/*
	 * Late writes that hold the operation's memory must end before it is given back (lane.h).
	 */
	if (loop_peer(base)->link != NULL)
		twi_loop_tell(loop_lane(base->lane), loop_peer(base), UINT64_MAX);
	if (twi_message_is_over(op, status))
		return true;
	ended = twi_session_abort(twi_session_of(base), op, status, force);
	settle_peer(loop_lane(base->lane), loop_peer(base));
	return ended;
}

static void peer_close(struct tow_peer *base)
{
	struct twi_loop_peer *peer = loop_peer(base);
	struct twi_loop_lane *lane = loop_lane(base->lane);
	struct twi_loop_link *link = peer->link;

	if (link == NULL) {
		twi_loop_peer_free(lane, peer);
		return;
	}
	twi_error(TOW_ECLOSED, "peer %s was closed on this side", base->address);
	twi_session_fail(twi_session_of(base), TOW_ECLOSED);
	twi_session_bye(twi_session_of(base));
	peer->deadline_ns = twi_engine_now(lane->base.engine) + TWI_LOOP_LINGER_NS;
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned j = TWI_LOOP_BULK; j < link->streams; j++) {
			twi_loop_pipe_clear(&link->pipes[i][j]);
			link->pipes[i][j].sunk = true;
			peer->late[j].pending = false;
		}
	}
	twi_loop_flush(lane, peer, false);
	twi_loop_activate(lane, link);
}

/* A side whose session was asked for everything leaves the list until something happens to it. */
static void lane_flush(struct twi_lane *base, bool acks_too)
{
	struct twi_loop_lane *lane = loop_lane(base);
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->to_flush) {
		struct twi_loop_peer *peer = twi_container_of(pos, struct twi_loop_peer, to_flush);

		if (acks_too)
			twi_list_remove(&peer->to_flush);
		twi_loop_flush(lane, peer, acks_too);
	}
}

static unsigned move_dials(struct twi_loop_lane *lane, uint64_t now_ns)
{
	struct twi_list *pos, *next;
	unsigned events = 0;

	twi_list_for_each_safe (pos, next, &lane->dials) {
		struct twi_loop_dial *dial = twi_container_of(pos, struct twi_loop_dial, link);

		if (dial->due_ns > now_ns)
			continue;
		dial_arrived(lane, dial);
		events++;
	}
	return events;
}

static unsigned lane_progress(struct twi_lane *base)
{
	struct twi_loop_lane *lane = loop_lane(base);
	struct twi_list *pos, *next;
	unsigned events = 0;
	uint64_t now;

	if (twi_list_empty(&lane->dials) && twi_list_empty(&lane->active))
		return 0;
	now = twi_engine_now(base->engine);
	if (twi_unlikely(!twi_list_empty(&lane->dials)))
		events += move_dials(lane, now);
	twi_list_for_each_safe (pos, next, &lane->active) {
		struct twi_loop_link *link = twi_container_of(pos, struct twi_loop_link, active);

		events += twi_loop_link_move(lane, link);
		if (link->sides[0] == NULL && link->sides[1] == NULL)
			twi_loop_link_free(link);
		else if (twi_loop_link_due(link, now) == UINT64_MAX)
			twi_list_remove(&link->active);
	}
	if (!twi_list_empty(&lane->active))
		base->engine->armed_since_enter = true;
	return events;
}

static uint64_t lane_deadline(struct twi_lane *base)
{
	struct twi_loop_lane *lane = loop_lane(base);
	uint64_t now = twi_engine_now(base->engine), earliest = UINT64_MAX;
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->dials) {
		const struct twi_loop_dial *dial =
			twi_container_of(pos, struct twi_loop_dial, link);

		earliest = twi_min(earliest, dial->due_ns);
	}
	twi_list_for_each_safe (pos, next, &lane->active) {
		const struct twi_loop_link *link =
			twi_container_of(pos, struct twi_loop_link, active);
		uint64_t due = twi_loop_link_due(link, now);

		earliest = twi_min(earliest, due);
	}
	return earliest;
}

/* Nothing of this lane lives in a ring. */
static void driver_changed(struct twi_lane *lane)
{
	(void)lane;
}

static void ring_gone(struct twi_lane *lane, unsigned index)
{
	(void)lane, (void)index;
}

static void lane_completed(struct twi_lane *lane, uint64_t user_data, int res, uint32_t flags,
			   const void *data)
{
	(void)lane, (void)user_data, (void)res, (void)flags, (void)data;
}

static void peer_measure(struct tow_peer *base, struct twi_state_link *out, char *fabric)
{
	(void)fabric;
	twi_session_measure(twi_session_of(base), twi_engine_now(base->engine), out);
}

static void peer_describe(struct tow_peer *base, struct twi_emit *emit)
{
	const struct twi_loop_peer *peer = loop_peer(base);
	uint64_t bulk = 0;

	twi_session_describe(twi_session_of(base), emit);
	twi_emit_bool(emit, "lost", peer->link == NULL);
	if (peer->link == NULL)
		return;
	for (unsigned i = TWI_LOOP_BULK; i < peer->link->streams; i++)
		bulk += peer->link->pipes[peer->side][i].fill;
	twi_emit_u64(emit, "control_on_its_way_bytes",
		     peer->link->pipes[peer->side][TWI_LOOP_CONTROL].fill);
	twi_emit_u64(emit, "bulk_on_its_way_bytes", bulk);
}

static enum twi_need peer_need(struct tow_peer *base, const struct tow_op *op)
{
	(void)op;
	return loop_lane(base->lane)->nic != NULL ? TWI_NEED_REGISTERED : TWI_NEED_NOTHING;
}

const struct twi_lane_ops twi_lane_loop = {
	.id = TWI_LANE_LOOP,
	.scheme = "loop",
	.gathers = true,
	.scatters = true,
	.open = lane_open,
	.close = lane_close,
	.endpoint_open = endpoint_open,
	.endpoint_close = endpoint_close,
	.connect = connect_start,
	.connect_abort = connect_abort,
	.send = peer_send,
	.send_at_once = peer_send_at_once,
	.recv_at_once = peer_recv_at_once,
	.recv = peer_recv,
	.look_again = peer_look_again,
	.abort = peer_abort,
	.peer_close = peer_close,
	.flush = lane_flush,
	.progress = lane_progress,
	.deadline_ns = lane_deadline,
	.driver_changed = driver_changed,
	.ring_gone = ring_gone,
	.completed = lane_completed,
	.need = peer_need,
	.peer_describe = peer_describe,
	.peer_measure = peer_measure,
};
