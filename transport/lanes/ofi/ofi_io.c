/*
 * ofi_io.c - outgoing and incoming packets, and the completion queue. See ofi.h.
 *
 * A packet that libfabric does not accept (FI_EAGAIN) waits on its peer's list, and all later ones
 * wait behind it, so the order stays. Progress tries again. The slots bound how many can wait.
 */
#include "transport/lanes/ofi/ofi_calls.h"

#ifdef TWI_HAVE_OFI

#include <stdlib.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/op/lane_host.h"

#define SCRATCH_BYTES 4096u
#define BATCH         16
#define ROUNDS        8
#define DEAF_TRIES    100u /* so many polls, and for so long, an endpoint must be deaf */
#define DEAF_NS       (2000ull * 1000 * 1000) /* before it is closed */

struct twi_ofi_slot *twi_ofi_slot_take(struct twi_ofi_port *port, uint32_t bytes, bool control)
{
	struct twi_list *entry = NULL;

	if (bytes <= TWI_OFI_SMALL_BYTES && (control || port->small_count > TWI_OFI_RESERVE))
		entry = twi_list_first(&port->small_free);
	if (entry != NULL) {
		port->small_count--;
	} else {
		entry = twi_list_first(&port->big_free);
		if (entry == NULL)
			return NULL;
		port->big_count--;
	}
	twi_list_remove(entry);
	port->slots_out++;
	return twi_container_of(entry, struct twi_ofi_slot, link);
}

static void slot_free(struct twi_ofi_port *port, struct twi_ofi_slot *slot)
{
	if (slot->peer != NULL)
		slot->peer->slots--;
	slot->peer = NULL;
	slot->req.busy = false;
	twi_list_remove(&slot->link);
	twi_list_push_back(slot->big ? &port->big_free : &port->small_free, &slot->link);
	port->small_count += slot->big ? 0 : 1;
	port->big_count += slot->big ? 1 : 0;
	port->slots_out--;
	port->freed = true;
}

/* Hands a slot to libfabric. Returns false if it must wait. Breaks a peer that is unreachable. */
static bool post_slot(struct twi_ofi_peer *peer, struct twi_ofi_slot *slot)
{
	TWI_UNCANCELED;
	struct twi_ofi_port *port = peer->port;
	ssize_t rc = port->dead ? -FI_EOTHER
				: fi_send(port->ep, slot->data, slot->bytes, port->memory_desc,
					  peer->address, &slot->req.ctx);

	if (rc == -FI_EAGAIN)
		return false;
	if (rc != 0) {
		slot_free(port, slot);
		twi_ofi_unreached(peer, (int)-rc);
		return true;
	}
	slot->req.busy = true;
	port->in_flight++;
	return true;
}

bool twi_ofi_unblock(struct twi_ofi_peer *peer)
{
	struct twi_list *entry;

	while ((entry = twi_list_first(&peer->pending)) != NULL) {
		struct twi_ofi_slot *slot = twi_container_of(entry, struct twi_ofi_slot, link);

		if (peer->broken != 0) {
			slot_free(peer->port, slot);
			continue;
		}
		twi_list_remove(entry);
		if (!post_slot(peer, slot)) {
			twi_list_push_front(&peer->pending, &slot->link);
			return false;
		}
	}
	twi_list_remove(&peer->blocked);
	return true;
}

const struct twi_ofi_load twi_ofi_no_load;

static void build_packet(struct twi_engine *engine, uint8_t *at,
			 const struct twi_ofi_packet *packet, const struct twi_ofi_load *load)
{
	const uint8_t *from = load->data;

	twi_ofi_packet_put(at, packet);
	at += TWI_OFI_HEAD_BYTES;
	if (load->op != NULL)
		twi_op_copy_out(load->op, packet->value, at, packet->payload_bytes);
	else if (load->message)
		twi_path_copy_small(engine, load->space, at, from, packet->payload_bytes);
	else
		for (uint32_t i = 0; i < packet->payload_bytes; i++)
			at[i] = from[i];
}

/* Sends a packet that libfabric copies within the call. Returns false if that is impossible now. */
static bool inject_packet(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet,
			  const struct twi_ofi_load *load)
{
	TWI_UNCANCELED;
	struct twi_ofi_port *port = peer->port;
	uint32_t bytes = TWI_OFI_HEAD_BYTES + packet->payload_bytes;
	uint8_t scratch[SCRATCH_BYTES];

	if (bytes > port->inject_bytes || bytes > sizeof(scratch) || port->dead ||
	    peer->state != TWI_OFI_UP || packet->type == TWI_OFI_PING ||
	    !twi_list_empty(&peer->pending))
		return false;
	build_packet(peer->base.engine, scratch, packet, load);
	return fi_inject(port->ep, scratch, bytes, peer->address) == 0;
}

bool twi_ofi_send_packet(struct twi_ofi_peer *peer, struct twi_ofi_packet *packet,
			 const struct twi_ofi_load *load, bool control)
{
	struct twi_ofi_port *port = peer->port;
	struct twi_ofi_slot *slot;

	if (peer->broken != 0 || peer->unreached_ns != 0)
		return true;
	packet->session = peer->there;
	packet->number = peer->number_out;
	if (packet->type != TWI_OFI_EAGER && packet->type != TWI_OFI_MORE)
		twi_count(peer->base.engine->diag, TWI_C_control_frames_sent, 1);
	if (twi_likely(inject_packet(peer, packet, load))) {
		peer->number_out++;
		return true;
	}
	slot = twi_ofi_slot_take(port, TWI_OFI_HEAD_BYTES + packet->payload_bytes, control);
	if (slot == NULL)
		return false;
	build_packet(peer->base.engine, slot->data, packet, load);
	slot->bytes = TWI_OFI_HEAD_BYTES + packet->payload_bytes;
	slot->peer = peer;
	peer->slots++;
	peer->number_out++;
	if (twi_list_empty(&peer->pending) && post_slot(peer, slot))
		return true;
	twi_list_push_back(&peer->pending, &slot->link);
	if (twi_list_empty(&peer->blocked))
		twi_list_push_back(&port->blocked, &peer->blocked);
	peer->base.engine->armed_since_enter = true; /* a sleeper must retry */
	return true;
}

/*
 * Stores a control packet that finds no slot, at most one for each operation that can exist. A peer
 * that accepts so little counts as lost.
 */
static void owe_packet(struct twi_ofi_peer *peer, uint8_t type, uint64_t seq, uint64_t tag,
		       uint64_t value)
{
	uint32_t room = peer->owed_room == 0 ? 64 : peer->owed_room * 2;
	struct twi_ofi_owed *owed = peer->owed;

	if (peer->owed_count == peer->owed_room) {
		owed = peer->owed_count > peer->base.engine->knobs.max_ops
			       ? NULL
			       : realloc(owed, room * sizeof(owed[0]));
		if (owed == NULL) {
			twi_error(TOW_EPEER, "peer %s does not accept control messages",
				  peer->base.address);
			twi_ofi_break(peer, TOW_EPEER);
			return;
		}
		peer->owed = owed;
		peer->owed_room = room;
	}
	owed[peer->owed_count++] =
		(struct twi_ofi_owed){ .type = type, .seq = seq, .tag = tag, .value = value };
	if (twi_list_empty(&peer->stalled))
		twi_list_push_back(&peer->port->stalled, &peer->stalled);
}

bool twi_ofi_say(struct twi_ofi_peer *peer, uint8_t type, uint64_t seq, uint64_t tag,
		 uint64_t value)
{
	struct twi_ofi_packet packet = { .type = type, .seq = seq, .tag = tag, .value = value };

	if (peer->owed_count == 0 && twi_ofi_send_packet(peer, &packet, &twi_ofi_no_load, true))
		return true;
	if (type != TWI_OFI_ACK && type != TWI_OFI_PING)
		owe_packet(peer, type, seq, tag, value);
	return false;
}

static int on_bye(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p)
{
	char rank[TWI_PEER_RANK];

	peer->heard_bye = true;
	if (twi_ofi_withdraw_unsent(peer) && !peer->said_bye)
		twi_ofi_say(peer, TWI_OFI_BYE, 0, 0, 0);
	peer->said_bye = true;
	return twi_rule_bye_error(peer->base.address, twi_peer_rank(&peer->base, rank),
				  (int)p->value);
}

/* Handles packets of a peer that this side is closing: only those about what is under way count. */
static int handle_last(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p)
{
	switch (p->type) {
	case TWI_OFI_DONE:
		return twi_ofi_arrived(peer, p);
	case TWI_OFI_REFUSE:
		return twi_ofi_refused(peer, p);
	case TWI_OFI_CANCEL:
		return twi_ofi_withdrawn(peer, p);
	case TWI_OFI_BYE:
		return on_bye(peer, p);
	default:
		return TOW_OK;
	}
}

static int handle_packet(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p,
			 const uint8_t *payload)
{
	if (peer->state == TWI_OFI_GREETING)
		return twi_ofi_greeted(peer, p, payload);
	if (peer->state == TWI_OFI_CLOSING)
		return handle_last(peer, p);
	if (peer->state != TWI_OFI_UP)
		return TOW_OK;
	if (peer->inbox.filling.left > 0 && p->type != TWI_OFI_MORE)
		return twi_ofi_fault(peer, TWI_RULE_DATA_PLACE,
				     "did not send the rest of message %llu",
				     (unsigned long long)peer->inbox.filling.seq);
	switch (p->type) {
	case TWI_OFI_EAGER:
		return twi_ofi_eager(peer, p, payload);
	case TWI_OFI_MORE:
		return twi_ofi_more(peer, p, payload);
	case TWI_OFI_RTS:
		return twi_ofi_offered(peer, p, payload);
	case TWI_OFI_CTS:
		return twi_ofi_asked(peer, p);
	case TWI_OFI_FRAG:
		return twi_ofi_frag(peer, p, payload);
	case TWI_OFI_DONE:
		return twi_ofi_arrived(peer, p);
	case TWI_OFI_ACK:
		return twi_ofi_acked(peer, p);
	case TWI_OFI_CANCEL:
		return twi_ofi_withdrawn(peer, p);
	case TWI_OFI_REFUSE:
		return twi_ofi_refused(peer, p);
	case TWI_OFI_PING:
		twi_ofi_say(peer, TWI_OFI_PONG, 0, 0, 0);
		return TOW_OK;
	case TWI_OFI_PONG:
		return TOW_OK;
	case TWI_OFI_BYE:
		return on_bye(peer, p);
	default:
		return twi_ofi_fault(peer, TWI_FAULT_ORDER, "sent a packet of type %u out of place",
				     p->type);
	}
}

static void take_packet(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p,
			const uint8_t *payload)
{
	int status;

	peer->number_in++;
	if (peer->broken != 0)
		return;
	if (p->type != TWI_OFI_EAGER && p->type != TWI_OFI_MORE)
		twi_count(peer->base.engine->diag, TWI_C_control_frames_received, 1);
	status = handle_packet(peer, p, payload);
	if (status == TOW_EPROTOCOL)
		twi_count(peer->base.engine->diag, TWI_C_protocol_errors, 1);
	if (status < 0)
		twi_ofi_break(peer, status);
}

static void peer_misnumbered(struct twi_ofi_peer *peer)
{
	twi_count(peer->base.engine->diag, TWI_C_protocol_errors, 1);
	twi_ofi_fault(peer, TWI_RULE_PACKETS, "sends packets twice, or one of them never");
	twi_ofi_break(peer, TOW_EPROTOCOL);
}

/* Stores a packet that has overtaken others, because this provider completes out of order. */
static void hold_packet(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p,
			const uint8_t *data, uint32_t bytes)
{
	struct twi_ofi_early *early;
	struct twi_list *pos = peer->early.prev;

	if ((int32_t)(p->number - peer->number_in) < 0 || peer->early_count >= TWI_OFI_EARLY_MAX) {
		peer_misnumbered(peer);
		return;
	}
	early = malloc(sizeof(*early) + bytes);
	if (early == NULL) {
		twi_error(TOW_EPEER, "no memory for a packet of peer %s", peer->base.address);
		twi_ofi_break(peer, TOW_EPEER);
		return;
	}
	early->number = p->number;
	early->bytes = bytes;
	/* A packet without payload is the library's own. */
	twi_path_copy_small(peer->base.engine, p->payload_bytes > 0 ? p->space : TWI_SPACE_LINK,
			    early->data, data, bytes);
	while (pos != &peer->early &&
	       (int32_t)(twi_container_of(pos, struct twi_ofi_early, link)->number - p->number) > 0)
		pos = pos->prev;
	twi_list_init(&early->link);
	twi_list_push_front(pos, &early->link); /* after pos */
	peer->early_count++;
}

/* Handles stored packets that follow the packet just handled. */
static void handle_early(struct twi_ofi_peer *peer)
{
	uint32_t payload_max = peer->port->packet_bytes - TWI_OFI_HEAD_BYTES;
	struct twi_list *entry;
	const char *fault;

	while ((entry = twi_list_first(&peer->early)) != NULL) {
		struct twi_ofi_early *early = twi_container_of(entry, struct twi_ofi_early, link);
		struct twi_ofi_packet p;

		if ((int32_t)(early->number - peer->number_in) > 0)
			return;
		twi_list_remove(entry);
		peer->early_count--;
		if (early->number != peer->number_in)
			peer_misnumbered(peer);
		else if (twi_ofi_packet_get(early->data, early->bytes, payload_max, &p, &fault) ==
			 TOW_OK)
			take_packet(peer, &p, early->data + TWI_OFI_HEAD_BYTES);
		free(early);
	}
}

static void on_packet(struct twi_ofi_port *port, const uint8_t *data, size_t bytes)
{
	struct twi_engine *engine = port->lane->base.engine;
	struct twi_ofi_packet p;
	struct twi_ofi_peer *peer;
	const char *fault;

	if (twi_ofi_packet_get(data, bytes, port->packet_bytes - TWI_OFI_HEAD_BYTES, &p, &fault) !=
	    TOW_OK) {
		/* The peer that the packet names may not be its sender. */
		twi_count(engine->diag, TWI_C_protocol_errors, 1);
		twi_log(engine->diag, 2, "ofi: a message of %zu bytes was dropped: %s", bytes,
			fault);
		return;
	}
	if (p.session == 0) {
		twi_ofi_stranger(port, &p, data + TWI_OFI_HEAD_BYTES);
		return;
	}
	peer = twi_ofi_peer_find(port, p.session);
	if (peer == NULL)
		return; /* it was closed meanwhile */
	peer->heard_ns = twi_engine_now(engine);
	if (twi_likely(p.number == peer->number_in))
		take_packet(peer, &p, data + TWI_OFI_HEAD_BYTES);
	else
		hold_packet(peer, &p, data, (uint32_t)bytes);
	if (twi_unlikely(peer->early_count > 0))
		handle_early(peer);
}

static int post_buffer(struct twi_ofi_port *port, struct twi_ofi_buffer *buffer)
{
	struct iovec iov = { buffer->data, port->buffer_bytes };
	struct fi_msg msg = {
		.msg_iov = &iov,
		.desc = &port->memory_desc,
		.iov_count = 1,
		.addr = FI_ADDR_UNSPEC,
		.context = &buffer->req.ctx,
	};
	ssize_t rc = fi_recvmsg(port->ep, &msg, port->multi_recv ? FI_MULTI_RECV : 0);

	buffer->posted = rc == 0;
	return (int)-rc;
}

int twi_ofi_post_buffers(struct twi_ofi_port *port)
{
	for (uint32_t i = 0; i < port->buffer_count; i++) {
		int err = port->buffers[i].posted ? 0 : post_buffer(port, &port->buffers[i]);

		if (err == FI_EAGAIN && i > 0) {
			port->buffer_count = i; /* no room for more: those posted must do */
			return TOW_OK;
		}
		if (err != 0)
			return twi_fi_error(err, "fi_recv");
	}
	return TOW_OK;
}

/* libfabric has given the buffer back. If it does not take it now, later polls try again. */
static void buffer_free(struct twi_ofi_port *port, struct twi_ofi_buffer *buffer)
{
	if (twi_likely(post_buffer(port, buffer) == 0))
		return;
	port->unposted++;
	port->lane->base.engine->armed_since_enter = true; /* a sleeper must retry */
}

/* Posts the buffers that libfabric did not take. Returns its error, positive. */
static int post_again(struct twi_ofi_port *port)
{
	int err = 0;

	for (uint32_t i = 0; i < port->buffer_count && err == 0; i++) {
		if (port->buffers[i].posted)
			continue;
		err = post_buffer(port, &port->buffers[i]);
		port->unposted -= err == 0;
	}
	return err;
}

/* Whether the port receives nothing, has not for long, and was polled all the time. */
static bool deaf_for_long(struct twi_ofi_port *port, bool deaf)
{
	uint64_t now_ns = twi_engine_now(port->lane->base.engine);

	if (!deaf)
		port->deaf_tries = 0;
	else if (port->deaf_tries++ == 0)
		port->deaf_ns = now_ns;
	return port->deaf_tries > DEAF_TRIES && now_ns - port->deaf_ns > DEAF_NS;
}

/*
 * A buffer is not posted, or the queue cannot be read (`err`). If that does not pass, all peers of
 * the port are lost.
 */
static void port_recover(struct twi_ofi_port *port, int err)
{
	bool unread = err != 0, lasting;

	if (!unread)
		err = post_again(port);
	lasting = deaf_for_long(port, unread || port->unposted == port->buffer_count);
	if (!lasting && (unread || err == 0 || err == FI_EAGAIN))
		return;
	twi_error(TOW_EPEER, "libfabric: %s has stopped receiving: %s: %s", port->provider,
		  unread ? "fi_cq_read" : "fi_recv", twi_fi.strerror(err));
	twi_log(port->lane->base.engine->diag, 1, "%s", tow_error_message());
	twi_ofi_port_kill(port);
}

static void req_completed(struct twi_ofi_port *port, struct twi_ofi_req *req,
			  const struct fi_cq_data_entry *entry)
{
	struct twi_ofi_buffer *buffer;

	if (req == NULL)
		return;
	switch (req->kind) {
	case TWI_OFI_REQ_BUFFER:
		buffer = req->owner;
		if ((entry->flags & FI_RECV) != 0)
			on_packet(port, port->multi_recv ? entry->buf : buffer->data, entry->len);
		if (!port->multi_recv || (entry->flags & FI_MULTI_RECV) != 0)
			buffer_free(port, buffer);
		return;
	case TWI_OFI_REQ_SLOT:
		port->in_flight--;
		slot_free(port, req->owner);
		return;
	case TWI_OFI_REQ_PULL:
		port->in_flight--;
		twi_ofi_pull_done(req, 0, entry->len);
		return;
	default:
		port->in_flight--;
		twi_ofi_give_done(req->owner, 0);
	}
}

/* A request has failed. A request without a context was injected: silence will show the loss. */
static void req_failed(struct twi_ofi_port *port, const struct fi_cq_err_entry *entry)
{
	struct twi_ofi_req *req = entry->op_context;
	struct twi_ofi_slot *slot;
	struct twi_ofi_peer *peer;

	if (req == NULL)
		return;
	switch (req->kind) {
	case TWI_OFI_REQ_BUFFER:
		if (!port->dead && entry->err != FI_ECANCELED)
			buffer_free(port, req->owner);
		return;
	case TWI_OFI_REQ_SLOT:
		port->in_flight--;
		slot = req->owner;
		peer = slot->peer;
		slot_free(port, slot);
		if (peer != NULL)
			twi_ofi_unreached(peer, entry->err);
		return;
	case TWI_OFI_REQ_PULL:
		port->in_flight--;
		twi_ofi_pull_done(req, entry->err, 0);
		return;
	default:
		port->in_flight--;
		twi_ofi_give_done(req->owner, entry->err);
	}
}

/* *err_out: why the queue cannot be read; 0: it can, and may be empty. */
static unsigned queue_read(struct twi_ofi_port *port, int *err_out)
{
	TWI_UNCANCELED;
	struct fi_cq_data_entry entries[BATCH];
	unsigned events = 0;

	*err_out = 0;

	for (int round = 0; round < ROUNDS && !port->dead; round++) {
		ssize_t n = fi_cq_read(port->cq, entries, BATCH);

		if (n == -FI_EAVAIL) {
			struct fi_cq_err_entry error = { 0 };

			if (fi_cq_readerr(port->cq, &error, 0) != 1)
				return events;
			req_failed(port, &error);
			events++;
			continue;
		}
		if (n <= 0) {
			*err_out = twi_likely(n == -FI_EAGAIN) ? 0 : (int)-n;
			return events;
		}
		for (ssize_t i = 0; i < n; i++)
			req_completed(port, entries[i].op_context, &entries[i]);
		events += (unsigned)n;
		if (n < BATCH)
			return events;
	}
	return events;
}

unsigned twi_ofi_poll(struct twi_ofi_port *port)
{
	int err;
	unsigned events = queue_read(port, &err);

	if (twi_unlikely(err != 0 || port->unposted > 0 || port->deaf_tries > 0) && !port->dead)
		port_recover(port, err);
	return events;
}

#endif
