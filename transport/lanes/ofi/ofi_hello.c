/*
 * ofi_hello.c - the handshake: two sides that have only an address become peers. See ofi.h and
 * docs/ofi.md.
 *
 *	connector                                acceptor
 *	    AUTH (session 0, from, name, step) -->   a stranger: bounded in number and time
 *	    <-- AUTH (from, name, step)
 *	    [AUTH -->]                               until both are satisfied
 *	    HELLO -->                    <-- HELLO   bounds; a side that sent and got one is up
 *
 * Of a stranger only the fields needed for an answer are read: its number, its address and its step
 * of authentication.
 */
#include "transport/lanes/ofi/ofi_calls.h"

#ifdef TWI_HAVE_OFI

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/op/lane_host.h"

/* Sends the messages of the authentication. */
static int send_auth(struct twi_ofi_peer *peer)
{
	uint8_t step[TWI_AUTH_OUT_MAX];
	uint8_t payload[TWI_OFI_AUTH_HEAD + TWI_OFI_NAME_MAX + TWI_AUTH_OUT_MAX];
	const struct twi_ofi_load load = { .data = payload };
	size_t bytes;

	while ((bytes = twi_auth_out(&peer->auth, step)) > 0) {
		struct twi_ofi_packet packet = { .type = TWI_OFI_AUTH, .value = TWI_OFI_MAGIC };

		packet.payload_bytes = (uint32_t)twi_ofi_auth_put(payload, peer->here,
								  &peer->port->name, step, bytes);
		if (!twi_ofi_send_packet(peer, &packet, &load, true))
			return twi_error(TOW_EBUSY,
					 "too many packets are in flight for a handshake with %s",
					 peer->base.address);
	}
	return TOW_OK;
}

/* The feature word of this side. */
static uint64_t features_of(const struct twi_ofi_peer *peer)
{
	uint32_t lacks = 0;

	if (!peer->port->tagged)
		lacks |= TWI_FEATURE_BIT(ofi_tagged);
	if (!peer->port->reads)
		lacks |= TWI_FEATURE_BIT(ofi_read);
	return twi_features_word(peer->base.engine->features, TWI_LANE_OFI, lacks);
}

static int send_hello(struct twi_ofi_peer *peer)
{
	struct twi_ofi_packet packet = { .type = TWI_OFI_HELLO,
					 .payload_bytes = TWI_OFI_HELLO_BYTES };
	const struct twi_ofi_hello hello = {
		.payload_max_bytes = peer->port->packet_bytes - TWI_OFI_HEAD_BYTES,
		.credit_bytes = peer->inbox.credit.bytes,
		.features = features_of(peer),
	};
	uint8_t payload[TWI_OFI_HELLO_BYTES];
	const struct twi_ofi_load load = { .data = payload };

	twi_ofi_hello_put(payload, &hello);
	peer->said_hello = true;
	if (!twi_ofi_send_packet(peer, &packet, &load, true))
		return twi_error(TOW_EBUSY,
				 "too many packets are in flight for a handshake "
				 "with %s",
				 peer->base.address);
	return TOW_OK;
}

/* Both sides have sent everything: hands the peer to the user. */
static int peer_up(struct twi_ofi_peer *peer)
{
	struct tow_op *op = peer->dial;

	if (!peer->base.connector && peer->port->endpoint == NULL)
		return twi_error(TOW_ECLOSED, "peer %s connects to an endpoint that was closed",
				 peer->base.address);
	twi_auth_wipe(&peer->auth);
	peer->state = TWI_OFI_UP;
	peer->port->strangers--;
	peer->port->timer_ns = 0;
	twi_count(peer->base.engine->diag, TWI_C_peers_connected, 1);
	if (!peer->base.connector) {
		twi_endpoint_ready(peer->port->endpoint, &peer->base);
		return TOW_OK;
	}
	peer->dial = NULL;
	peer->base.shown = true;
	op->lane_state = NULL;
	op->peer = &peer->base;
	twi_op_complete(op, TOW_OK, 0);
	return TOW_OK;
}

static void configure_sends(struct twi_ofi_peer *peer, const struct twi_ofi_hello *hello)
{
	const struct twi_engine *engine = peer->base.engine;
	const struct twi_outbox_config config = {
		.credit_bytes = hello->credit_bytes,
		.eager_bytes =
			twi_min(engine->knobs.eager_max_bytes, (uint64_t)hello->payload_max_bytes),
		.timed_every_ns = TWI_OFI_TIMED_NS,
		.checksum_all = engine->knobs.checksum_all,
		.hears = true,
	};

	twi_outbox_configure(&peer->outbox, &config);
}

static int on_hello(struct twi_ofi_peer *peer, const uint8_t *payload)
{
	struct twi_ofi_hello hello;

	if (!twi_auth_done(&peer->auth) || peer->heard_hello)
		return twi_error(TOW_EPROTOCOL, "peer %s sent a HELLO out of place",
				 peer->base.address);
	if (twi_ofi_hello_get(payload, &hello) < 0)
		return twi_error(TOW_EPROTOCOL, "peer %s: the HELLO is out of bounds",
				 peer->base.address);
	peer->heard_hello = true;
	configure_sends(peer, &hello);
	peer->inbox.claim_above = peer->outbox.eager_bytes;
	peer->piece_bytes =
		twi_min(peer->port->packet_bytes - TWI_OFI_HEAD_BYTES, hello.payload_max_bytes);
	/* AUTH has carried the major version. */
	peer->base.theirs =
		(struct twi_feature_side){ hello.features, TWI_OFI_VERSION, hello.minor };
	return TOW_OK;
}

/* Called when both HELLOs have been sent, so that either side can say why it does not go on. */
static int agree_peer(struct twi_ofi_peer *peer)
{
	const struct twi_feature_side ours = { features_of(peer), TWI_OFI_VERSION, TWI_OFI_MINOR };
	int status = twi_features_agree(peer->base.address, &ours, &peer->base.theirs,
					&peer->base.features);

	peer->can_tagged = (peer->base.features & TWI_FEATURE_BIT(ofi_tagged)) != 0;
	return status;
}

/* Writes the interface: libfabric's name of it, and the host's. */
static void name_iface(const struct twi_ofi_port *port, struct twi_way *way)
{
	const struct fi_info *info = twi_ofi_domain_info(port->domain);

	snprintf(way->iface, sizeof(way->iface), "%s",
		 info->domain_attr->name != NULL ? info->domain_attr->name : "");
	if ((info->addr_format == FI_SOCKADDR || info->addr_format == FI_SOCKADDR_IN ||
	     info->addr_format == FI_SOCKADDR_IN6) &&
	    info->src_addr != NULL &&
	    twi_require_names_iface(port->lane->base.engine->knobs.require))
		twi_iface_of(info->src_addr, way->also);
	if (strcmp(way->also, way->iface) == 0)
		way->also[0] = '\0';
}

/*
 * Checks the knob `require`. Called before this side sends HELLO, which tells the other side that
 * it is connected, and again when both HELLOs have come.
 */
static int meet_peer(struct twi_ofi_peer *peer)
{
	const uint64_t theirs = peer->heard_hello ? peer->base.theirs.word : UINT64_MAX;
	const uint32_t moves = TWI_FEATURE_BIT(ofi_tagged) | TWI_FEATURE_BIT(ofi_read);
	const struct twi_ofi_port *port = peer->port;
	struct twi_way way = { .lane = TWI_LANE_OFI };

	name_iface(port, &way);
	if (twi_ofi_is_software(port->provider))
		way.copied = "the provider carries it over sockets or memory, and copies";
	else if (!port->registered)
		way.copied = "the pool is not registered with the provider";
	else if ((features_of(peer) & theirs & moves) == 0)
		way.copied = "the two sides have neither remote reads nor tagged messages";
	return twi_peer_meet(&peer->base, &way);
}

static int on_auth(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet,
		   const uint8_t *payload)
{
	struct twi_ofi_auth auth;
	size_t used = 0;
	int status;

	if (twi_ofi_auth_get(payload, packet->payload_bytes, &auth) < 0 ||
	    (peer->there != 0 && peer->there != auth.from) || twi_auth_done(&peer->auth))
		return twi_error(TOW_EPROTOCOL, "peer %s: the AUTH is out of bounds or place",
				 peer->base.address);
	peer->there = auth.from;
	status = twi_auth_in(&peer->auth, auth.auth, auth.auth_bytes, &used);
	if (status < 0) {
		char why[TWI_ERROR_BYTES];

		/* sends the refusal, and then restores the message */
		snprintf(why, sizeof(why), "%s", tow_error_message());
		send_auth(peer);
		return twi_error(status, "%s", why);
	}
	if (used != auth.auth_bytes)
		return twi_error(TOW_EPROTOCOL, "peer %s: there are bytes after the AUTH",
				 peer->base.address);
	if (twi_auth_done(&peer->auth) && twi_auth_encrypts(&peer->auth))
		return twi_error(TOW_ENOTSUP,
				 "peer %s wants encryption, which the ofi lane does not have",
				 peer->base.address);
	return send_auth(peer);
}

static int on_bye(struct twi_ofi_peer *peer, uint64_t value)
{
	if ((int)value == -TOW_EAUTH)
		return twi_error(TOW_EAUTH, "%s refused the connection: another job key, or none",
				 peer->base.address);
	if ((int)value == -TOW_EPERM)
		return twi_peer_refused_by(&peer->base);
	if ((int)value == -TOW_EREFUSED)
		return twi_endpoint_refused(peer->base.address);
	peer->left = !peer->base.connector && (int)value != -TOW_EPROTOCOL;
	return twi_error(TOW_EREFUSED, "%s refused the connection", peer->base.address);
}

/* The acceptor sends its HELLO last, because it tells the connector that it is connected. */
static bool may_say_hello(const struct twi_ofi_peer *peer)
{
	return twi_auth_done(&peer->auth) && !peer->said_hello &&
	       (peer->base.connector || peer->heard_hello);
}

static bool port_full(const struct twi_ofi_port *port)
{
	return port->endpoint != NULL && twi_endpoint_full(port->endpoint);
}

int twi_ofi_greeted(struct twi_ofi_peer *peer, const struct twi_ofi_packet *packet,
		    const uint8_t *payload)
{
	int status;

	if (packet->type == TWI_OFI_BYE)
		return on_bye(peer, packet->value);
	if (packet->type == TWI_OFI_AUTH)
		status = on_auth(peer, packet, payload);
	else if (packet->type == TWI_OFI_HELLO)
		status = on_hello(peer, payload);
	else
		status = twi_error(TOW_EPROTOCOL, "peer %s sent a packet of type %u as a greeting",
				   peer->base.address, packet->type);
	if (status == TOW_OK && (may_say_hello(peer) || (peer->said_hello && peer->heard_hello)))
		status = meet_peer(peer);
	if (status == TOW_OK && may_say_hello(peer))
		status = peer->base.connector || !port_full(peer->port)
				 ? send_hello(peer)
				 : twi_endpoint_refused(peer->port->endpoint->address);
	if (status == TOW_OK && peer->said_hello && peer->heard_hello)
		status = agree_peer(peer);
	if (status == TOW_OK && peer->said_hello && peer->heard_hello)
		status = peer_up(peer);
	if (status < 0 && peer->there != 0)
		twi_ofi_say(peer, TWI_OFI_BYE, 0, 0,
			    (uint64_t) - (peer->base.unmet ? TOW_EPERM : status));
	return status;
}

/* Handles the first packet of an unknown sender. A bad packet costs nothing but a counter. */
void twi_ofi_stranger(struct twi_ofi_port *port, const struct twi_ofi_packet *packet,
		      const uint8_t *payload)
{
	struct twi_engine *engine = port->lane->base.engine;
	struct twi_ofi_name name;
	struct twi_ofi_auth auth;
	struct twi_ofi_peer *peer = NULL;
	char address[TOW_ADDRESS_MAX];
	int status;

	if (port->endpoint != NULL && packet->type == TWI_OFI_AUTH && packet->number == 0 &&
	    port->strangers < TWI_OFI_STRANGERS &&
	    twi_ofi_auth_get(payload, packet->payload_bytes, &auth) == TOW_OK) {
		name.count = (uint8_t)auth.name_bytes;
		for (unsigned i = 0; i < name.count; i++)
			name.bytes[i] = auth.name[i];
		if (twi_ofi_address_put(port->provider, &name, address) == TOW_OK)
			peer = twi_ofi_peer_create(port, &name, address);
	}
	if (peer == NULL) {
		twi_count(engine->diag, TWI_C_handshakes_refused, 1);
		return;
	}
	twi_auth_start(&peer->auth, &engine->job_key, false, "ofi");
	peer->number_in = 1;
	status = twi_ofi_greeted(peer, packet, payload);
	if (status < 0)
		twi_ofi_break(peer, status);
}

int twi_ofi_dial(struct tow_endpoint *base, const char *text, struct tow_op *op)
{
	struct twi_ofi_endpoint *endpoint = (struct twi_ofi_endpoint *)(void *)base;
	struct twi_ofi_port *port = endpoint->port;
	char provider[TWI_OFI_PROVIDER_MAX], address[TOW_ADDRESS_MAX];
	struct twi_ofi_name name;
	struct twi_ofi_peer *peer;
	int status = twi_ofi_address_connect(text, provider, &name);

	if (status < 0)
		return status;
	if (!twi_ofi_provider_is(port->provider, provider))
		return twi_error(TOW_EINVAL,
				 "address ofi://%.100s is of provider %s, the endpoint %s of %s",
				 text, provider, base->address, port->provider);
	if (port->dead)
		return twi_error(TOW_ESYSTEM, "endpoint %s was closed by a failure", base->address);
	snprintf(address, sizeof(address), "ofi://%.*s", TOW_ADDRESS_MAX - 8, text);
	peer = twi_ofi_peer_create(port, &name, address);
	if (peer == NULL)
		return TOW_EBUSY;
	peer->base.connector = true;
	peer->dial = op;
	op->lane_state = peer;
	twi_auth_start(&peer->auth, &base->engine->job_key, true, "ofi");
	status = send_auth(peer);
	if (status < 0) {
		op->lane_state = NULL;
		twi_ofi_peer_free(peer);
		return status;
	}
	base->engine->armed_since_enter = true;
	return TOW_OK;
}

void twi_ofi_dial_abort(struct tow_op *op, int status)
{
	struct twi_ofi_peer *peer = op->lane_state;

	op->lane_state = NULL;
	if (peer != NULL) {
		if (peer->there != 0)
			twi_ofi_say(peer, TWI_OFI_BYE, 0, 0, (uint64_t)-status);
		peer->dial = NULL;
		twi_ofi_peer_free(peer);
	}
	twi_op_complete(op, status, 0);
}

#endif
