/*
 * ofi.c - the ofi lane's table: endpoints, and the progress of ports. See ofi.h.
 */
#include "transport/lanes/ofi/ofi_calls.h"

#include <stdio.h>
#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/lanes/ofi/guard.h"
#include "transport/op/lane_host.h"

#ifdef TWI_HAVE_OFI

#define TIMER_TURNS 16 /* polls for each read of the clock */

static int lane_open(struct twi_engine *engine, struct twi_lane **out)
{
	struct twi_ofi_lane *lane = calloc(1, sizeof(*lane));

	if (lane == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the ofi lane");
	lane->base.ops = &twi_lane_ofi;
	lane->base.engine = engine;
	twi_list_init(&lane->ports);
	*out = &lane->base;
	return TOW_OK;
}

/* libfabric is wanted if a knob names the lane or a provider, or if there is a fabric device. */
static bool lane_wanted(const struct twi_lane *lane, const char **why_out)
{
	const struct twi_knobs *knobs = &lane->engine->knobs;

	*why_out = "this host has no fabric device; to try libfabric all the same, name ofi in "
		   "the knob lanes, or set ofi_provider";
	return knobs->lanes[0] != '\0' || knobs->ofi_provider[0] != '\0' ||
	       twi_ofi_device_there("/dev");
}

static int endpoint_open(struct twi_lane *base, const char *address, struct tow_endpoint **out)
{
	struct twi_ofi_lane *lane = twi_ofi_lane_of(base);
	struct twi_ofi_endpoint *endpoint;
	struct twi_ofi_wish wish;
	int status = twi_ofi_address_open(address, base->engine->knobs.ofi_provider, &wish);

	if (status < 0)
		return status;
	if (base->engine->knobs.encrypt)
		return twi_error(TOW_ENOTSUP,
				 "the ofi lane does not encrypt, and encrypt is set: use tcp");
	endpoint = twi_endpoint_alloc(sizeof(*endpoint));
	if (endpoint == NULL)
		return twi_error(TOW_ENOMEM, "no memory for an endpoint");
	status = twi_ofi_port_open(lane, &wish, &endpoint->port);
	if (status < 0) {
		twi_endpoint_free(&endpoint->base);
		return status;
	}
	status = twi_ofi_address_put(endpoint->port->provider, &endpoint->port->name,
				     endpoint->base.address);
	if (status < 0) {
		twi_ofi_port_close(endpoint->port);
		twi_endpoint_free(&endpoint->base);
		return status;
	}
	twi_endpoint_setup(&endpoint->base, base);
	endpoint->port->endpoint = &endpoint->base;
	if (twi_ofi_guard_weak() != NULL)
		twi_log(base->engine->diag, 2,
			"ofi: signal actions that libfabric changes can only be restored "
			"afterwards, because seccomp is not available: %s",
			twi_ofi_guard_weak());
	*out = &endpoint->base;
	return TOW_OK;
}

static void endpoint_close(struct tow_endpoint *base)
{
	struct twi_ofi_endpoint *endpoint = (struct twi_ofi_endpoint *)(void *)base;
	struct twi_ofi_port *port = endpoint->port;

	port->endpoint = NULL;
	for (uint32_t i = 0; i < port->peer_room; i++) {
		struct twi_ofi_peer *peer = port->peers[i];

		/* Handshakes that this endpoint accepted have no owner now. */
		if (peer != NULL && peer->state == TWI_OFI_GREETING && !peer->base.connector)
			twi_ofi_peer_free(peer);
	}
	twi_ofi_port_release(port);
	twi_endpoint_free(&endpoint->base);
}

static void peer_send(struct tow_peer *base, struct tow_op *op)
{
	twi_outbox_send(&twi_ofi_peer_of(base)->outbox, op);
}

static bool peer_send_at_once(struct tow_peer *base, struct twi_outbound *out)
{
	return twi_outbox_at_once(&twi_ofi_peer_of(base)->outbox, out);
}

static bool peer_recv_at_once(struct tow_peer *base, struct twi_instant *instant)
{
	return twi_inbox_instant(&twi_ofi_peer_of(base)->inbox, instant) == TOW_OK;
}

static bool peer_abort(struct tow_peer *base, struct tow_op *op, int status, bool force)
{
	if (op->kind == TWI_OP_SEND)
		return twi_outbox_abort(&twi_ofi_peer_of(base)->outbox, op, status, force);
	return twi_ofi_abort_recv(twi_ofi_peer_of(base), op, status, force);
}

/* Moves what waited for room in libfabric, for slots or for records. */
static unsigned move_port(struct twi_ofi_port *port)
{
	struct twi_list *pos, *next;
	unsigned count = 0;

	twi_list_for_each_safe (pos, next, &port->blocked)
		count += twi_ofi_unblock(twi_container_of(pos, struct twi_ofi_peer, blocked));
	if (!twi_list_empty(&port->retry))
		count += twi_ofi_pull_retry(port);
	if (!twi_list_empty(&port->sending))
		count += twi_ofi_push(port);
	if (!port->freed)
		return count;
	port->freed = false;
	twi_list_for_each_safe (pos, next, &port->stalled)
		twi_ofi_drain(twi_container_of(pos, struct twi_ofi_peer, stalled));
	for (uint32_t i = 0; i < port->peer_room; i++) {
		if (port->peers[i] != NULL && !twi_list_empty(&port->peers[i]->matched))
			twi_ofi_pull_matched(port->peers[i]);
	}
	return count;
}

/* Frees closed peers whose BYE has left. */
static void free_closed_peers(struct twi_ofi_port *port)
{
	for (uint32_t i = 0; i < port->peer_room; i++) {
		if (port->peers[i] != NULL && port->peers[i]->state == TWI_OFI_CLOSING)
			twi_ofi_peer_let_go(port->peers[i]);
	}
}

static unsigned port_progress(struct twi_ofi_port *port)
{
	unsigned count = port->dead ? 0 : twi_ofi_poll(port);

	if (!port->dead)
		count += move_port(port);
	if (count > 0)
		port->nap_ns = port->quiet_ns = 0;
	if (twi_unlikely(port->turns++ % TIMER_TURNS == 0)) {
		uint64_t now = twi_engine_now(port->lane->base.engine);

		if (now >= port->timer_ns)
			twi_ofi_timers(port, now);
	}
	if (twi_unlikely(!twi_list_empty(&port->ailing)))
		count += twi_ofi_bury(port);
	if (twi_unlikely(port->closing > 0))
		free_closed_peers(port);
	/*
	 * The thread of a tow_fd may go and poll it without another call. Before the engine is
	 * released, libfabric must agree to that, and the descriptor must be in the thread's ring.
	 */
	if (twi_unlikely(atomic_load_explicit(&port->lane->base.engine->watchers,
					      memory_order_relaxed) > 0))
		twi_ofi_arm(port);
	return count;
}

static unsigned lane_progress(struct twi_lane *base)
{
	struct twi_ofi_lane *lane = twi_ofi_lane_of(base);
	struct twi_list *pos, *next;
	unsigned count = 0;

	twi_list_for_each_safe (pos, next, &lane->ports) {
		struct twi_ofi_port *port = twi_container_of(pos, struct twi_ofi_port, link);

		count += port_progress(port);
		twi_ofi_port_release(port);
	}
	return count;
}

/* Sends outgoing packets first. Then ends everything that libfabric still holds. */
static void lane_close(struct twi_lane *base)
{
	struct twi_ofi_lane *lane = twi_ofi_lane_of(base);
	uint64_t until = twi_now_ns() + TWI_OFI_LINGER_NS;
	struct twi_list *entry;

	while (!twi_list_empty(&lane->ports) && twi_now_ns() < until) {
		if (lane_progress(base) == 0)
			twi_watch_nap(base->engine, TWI_OFI_BUSY_NS);
	}
	while ((entry = twi_list_first(&lane->ports)) != NULL)
		twi_ofi_port_end(twi_container_of(entry, struct twi_ofi_port, link));
	free(lane);
}

static void lane_flush(struct twi_lane *base, bool acks_too)
{
	struct twi_ofi_lane *lane = twi_ofi_lane_of(base);
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->ports) {
		struct twi_ofi_port *port = twi_container_of(pos, struct twi_ofi_port, link);

		for (uint32_t i = 0; acks_too && i < port->peer_room; i++) {
			if (port->peers[i] != NULL)
				twi_ofi_ack(port->peers[i]);
		}
		if (!port->dead)
			move_port(port);
		twi_ofi_arm(port);
	}
}

static uint64_t lane_deadline(struct twi_lane *base)
{
	struct twi_ofi_lane *lane = twi_ofi_lane_of(base);
	uint64_t due = UINT64_MAX, now;
	struct twi_list *pos, *next;

	if (twi_list_empty(&lane->ports))
		return UINT64_MAX;
	now = twi_engine_now(base->engine);
	twi_list_for_each_safe (pos, next, &lane->ports)
		due = twi_min(due,
			      twi_ofi_due(twi_container_of(pos, struct twi_ofi_port, link), now));
	return due;
}

static void lane_driver_changed(struct twi_lane *base)
{
	struct twi_ofi_lane *lane = twi_ofi_lane_of(base);
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->ports)
		twi_ofi_arm(twi_container_of(pos, struct twi_ofi_port, link));
}

static void lane_ring_gone(struct twi_lane *base, unsigned index)
{
	struct twi_ofi_lane *lane = twi_ofi_lane_of(base);
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->ports)
		twi_container_of(pos, struct twi_ofi_port, link)->armed_rings &= ~(1u << index);
}

/* A descriptor has become readable. The next progress finds out why. */
static void lane_completed(struct twi_lane *base, uint64_t user_data, int res, uint32_t flags,
			   const void *data)
{
	struct twi_ofi_lane *lane = twi_ofi_lane_of(base);
	uint32_t index = (uint32_t)user_data;
	struct twi_list *pos, *next;

	(void)res, (void)flags, (void)data;
	twi_list_for_each_safe (pos, next, &lane->ports) {
		struct twi_ofi_port *port = twi_container_of(pos, struct twi_ofi_port, link);

		if (port->index == index)
			port->armed_rings &= ~(1u << twi_watch_ring(user_data));
	}
}

#else

/* Without libfabric the lane exists only to report that. */
static int refuse_lane(void)
{
	return twi_error(TOW_ENOTSUP, "the ofi lane is not available: %s", TWI_OFI_OFF);
}

static int lane_open(struct twi_engine *engine, struct twi_lane **out)
{
	struct twi_lane *lane = calloc(1, sizeof(*lane));

	if (lane == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the ofi lane");
	lane->ops = &twi_lane_ofi;
	lane->engine = engine;
	*out = lane;
	return TOW_OK;
}

static void lane_close(struct twi_lane *lane)
{
	free(lane);
}

static bool lane_wanted(const struct twi_lane *lane, const char **why_out)
{
	(void)lane;
	*why_out = TWI_OFI_OFF;
	return false;
}

static int endpoint_open(struct twi_lane *lane, const char *address, struct tow_endpoint **out)
{
	(void)lane, (void)address, (void)out;
	return refuse_lane();
}

static void endpoint_close(struct tow_endpoint *endpoint)
{
	(void)endpoint;
}

static int twi_ofi_dial(struct tow_endpoint *endpoint, const char *address, struct tow_op *op)
{
	(void)endpoint, (void)address, (void)op;
	return refuse_lane();
}

static void twi_ofi_dial_abort(struct tow_op *op, int status)
{
	twi_op_complete(op, status, 0);
}

static void peer_send(struct tow_peer *peer, struct tow_op *op)
{
	(void)peer;
	twi_op_complete(op, refuse_lane(), 0);
}

#define peer_send_at_once NULL
#define peer_recv_at_once NULL
#define twi_ofi_recv      peer_send

static bool peer_abort(struct tow_peer *peer, struct tow_op *op, int status, bool force)
{
	(void)peer, (void)op, (void)status, (void)force;
	return false;
}

static void twi_ofi_peer_close(struct tow_peer *peer)
{
	(void)peer;
}

#define twi_ofi_process_ended NULL

static unsigned lane_progress(struct twi_lane *lane)
{
	(void)lane;
	return 0;
}

static void lane_flush(struct twi_lane *lane, bool acks_too)
{
	(void)lane, (void)acks_too;
}

static uint64_t lane_deadline(struct twi_lane *lane)
{
	(void)lane;
	return UINT64_MAX;
}

static void lane_driver_changed(struct twi_lane *lane)
{
	(void)lane;
}

static void lane_ring_gone(struct twi_lane *lane, unsigned index)
{
	(void)lane, (void)index;
}

static void lane_completed(struct twi_lane *lane, uint64_t user_data, int res, uint32_t flags,
			   const void *data)
{
	(void)lane, (void)user_data, (void)res, (void)flags, (void)data;
}

static enum twi_need twi_ofi_need(struct tow_peer *peer, const struct tow_op *op)
{
	(void)peer, (void)op;
	return TWI_NEED_NOTHING;
}

static void twi_ofi_peer_measure(struct tow_peer *peer, struct twi_state_link *out, char *fabric)
{
	(void)peer, (void)out, (void)fabric;
}

static void twi_ofi_peer_describe(struct tow_peer *peer, struct twi_emit *emit)
{
	(void)peer, (void)emit;
}

static void twi_ofi_look_again(struct tow_peer *peer, uint64_t tag, uint32_t context)
{
	(void)peer, (void)tag, (void)context;
}

#endif

const struct twi_lane_ops twi_lane_ofi = {
	.id = TWI_LANE_OFI,
	.scheme = "ofi",
	.memory_polled = true, /* a read of a queue, for those who open an endpoint here */
	.open = lane_open,
	.wanted = lane_wanted,
	.close = lane_close,
	.endpoint_open = endpoint_open,
	.endpoint_close = endpoint_close,
	.connect = twi_ofi_dial,
	.connect_abort = twi_ofi_dial_abort,
	.send = peer_send,
	.send_at_once = peer_send_at_once,
	.recv_at_once = peer_recv_at_once,
	.recv = twi_ofi_recv,
	.look_again = twi_ofi_look_again,
	.abort = peer_abort,
	.peer_close = twi_ofi_peer_close,
	.process_ended = twi_ofi_process_ended,
	.flush = lane_flush,
	.progress = lane_progress,
	.deadline_ns = lane_deadline,
	.driver_changed = lane_driver_changed,
	.ring_gone = lane_ring_gone,
	.completed = lane_completed,
	.need = twi_ofi_need,
	.peer_describe = twi_ofi_peer_describe,
	.peer_measure = twi_ofi_peer_measure,
};
