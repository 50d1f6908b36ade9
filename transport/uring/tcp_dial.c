/*
 * tcp_dial.c - names, and the handshake by which two TCP connections become a peer.
 *
 *	connector                         acceptor
 *	connect, HELLO(control, S) ---->  checks, makes the peer, token T
 *	               <---- HELLO(control, S, T)
 *	connect, HELLO(bulk, S, T) ---->  finds the peer by (S, T)
 *	               <---- HELLO(bulk, S, T): both are up
 *
 * A HELLO is 96 bytes each way on a fresh socket, so it is written at once or the stream fails.
 *What a stranger can hold here: TWI_HANDSHAKES_MAX streams for connect_timeout_ns.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "diag/counter.h"
#include "diag/diag.h"
#include "diag/error.h"
#include "transport/op.h"
#include "transport/uring/tcp.h"

static int bad_address(const char *address, const char *why)
{
	return twi_error(TOW_EINVAL,
			 "address tcp://%s: %s; it is tcp://HOST:PORT or tcp://[IPV6]:PORT",
			 address, why);
}

/* Splits "HOST:PORT" or "[HOST]:PORT". */
static int split(const char *address, char host[TOW_ADDRESS_MAX], const char **port_out)
{
	const char *colon = strrchr(address, ':'), *start = address, *end = colon;
	char *rest;
	unsigned long port;

	if (strlen(address) >= TOW_ADDRESS_MAX)
		return bad_address("(too long)", "over 127 bytes");
	if (colon == NULL)
		return bad_address(address, "there is no port");
	if (address[0] == '[') {
		if (colon == address || colon[-1] != ']')
			return bad_address(address, "the bracket is not closed");
		start++;
		end--;
	}
	if (end <= start)
		return bad_address(address, "there is no host");
	errno = 0;
	port = strtoul(colon + 1, &rest, 10);
	if (colon[1] < '0' || colon[1] > '9' || *rest != '\0' || port > 65535 || errno != 0)
		return bad_address(address, "the port is not a number from 0 to 65535");
	snprintf(host, TOW_ADDRESS_MAX, "%.*s", (int)(end - start), start);
	*port_out = colon + 1;
	return TOW_OK;
}

int twi_tcp_resolve(const char *address, bool passive, struct sockaddr_storage *out,
		    socklen_t *bytes_out)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *found = NULL;
	char host[TOW_ADDRESS_MAX];
	const char *port = NULL;
	int status = split(address, host, &port), err;

	if (status < 0)
		return status;
	if (passive)
		hints.ai_flags |= AI_PASSIVE;
	err = getaddrinfo(host, port, &hints, &found);
	if (err != 0)
		return twi_error(err == EAI_MEMORY   ? TOW_ENOMEM
				 : err == EAI_SYSTEM ? TOW_ESYSTEM
						     : TOW_EINVAL,
				 "address tcp://%s: %s", address, gai_strerror(err));
	*bytes_out = found->ai_addrlen;
	*out = (struct sockaddr_storage){ 0 };
	memcpy(out, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return TOW_OK;
}

void twi_tcp_format(const struct sockaddr_storage *address, char out[TOW_ADDRESS_MAX])
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (address->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;

		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(out, TOW_ADDRESS_MAX, "tcp://[%s]:%u", host, ntohs(in6->sin6_port));
	} else {
		const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(out, TOW_ADDRESS_MAX, "tcp://%s:%u", host, ntohs(in->sin_port));
	}
}

static uint64_t random_id(void)
{
	uint64_t id = 0;

	while (id == 0) {
		if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
			id = twi_now_ns();
	}
	return id;
}

/* Writes our HELLO. False when the socket does not take it whole. */
static bool greet(struct twi_tcp_stream *stream)
{
	struct twi_tcp_peer *peer = stream->peer;
	const struct tow_options *knobs = &peer->base.engine->knobs;
	struct twi_frame frame = { .type = TWI_FRAME_HELLO, .payload_bytes = TWI_HELLO_BYTES };
	struct twi_hello hello = {
		.kind = stream->bulk ? TWI_STREAM_BULK : TWI_STREAM_CONTROL,
		.session = peer->session_id,
		.token = peer->token,
	};
	uint8_t bytes[TWI_HELLO_FRAME];

	if (!stream->bulk) {
		hello.bulk_count = 1;
		hello.eager_max_bytes = (uint32_t)knobs->eager_max_bytes;
		hello.credit_bytes = (uint64_t)knobs->credit_bytes;
	}
	twi_frame_put(bytes, &frame);
	twi_hello_put(bytes + TWI_FRAME_BYTES, &hello);
	return send(stream->fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) ==
	       (ssize_t)sizeof(bytes);
}

/* The status of a connect that failed with this errno. */
static int connect_status(int err)
{
	switch (err) {
	case ECONNREFUSED:
	case ENETUNREACH:
	case EHOSTUNREACH:
		return TOW_EREFUSED;
	case ETIMEDOUT:
		return TOW_EDEADLINE;
	default:
		return TOW_EPEER;
	}
}

/* The handshake of a peer that we connect has failed. */
static void dial_failed(struct twi_tcp_peer *peer, int status)
{
	struct tow_op *op = peer->dial;

	peer->dial = NULL;
	if (op != NULL) {
		op->lane_state = NULL;
		twi_op_complete(op, status, 0);
	}
	twi_tcp_peer_free(peer);
}

/* Ends a stream that is still in its handshake, and what hangs on it. */
static void handshake_failed(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int status)
{
	struct twi_engine *engine = lane->base.engine;
	struct twi_tcp_peer *peer = stream->peer;

	twi_count(engine->diag, TWI_C_handshakes_refused, 1);
	if (peer == NULL) {
		twi_tcp_stream_destroy(lane, stream);
	} else if (peer->dial != NULL) {
		dial_failed(peer, status);
	} else {
		twi_tcp_peer_free(peer); /* accepted, never shown to the user */
	}
}

static int connect_stream(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, bool bulk)
{
	struct twi_tcp_stream *stream;
	int fd, err, status;

	fd = socket(peer->remote.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "socket");
	twi_tcp_socket_setup(fd);
	err = connect(fd, (struct sockaddr *)(void *)&peer->remote, peer->remote_bytes) == 0
		      ? 0
		      : errno;
	if (err != 0 && err != EINPROGRESS) {
		close(fd);
		return twi_error_errno(connect_status(err), err, "connect to %s",
				       peer->base.address);
	}
	status = twi_tcp_stream_create(lane, fd, &stream);
	if (status < 0)
		return status;
	stream->peer = peer;
	stream->bulk = bulk;
	stream->ours = true;
	stream->state = TWI_TCP_CONNECTING;
	if (bulk)
		peer->bulk = stream;
	else
		peer->control = stream;
	twi_tcp_arm(lane, stream);
	return TOW_OK;
}

int twi_tcp_dial(struct tow_endpoint *base, const char *address, struct tow_op *op)
{
	struct twi_tcp_lane *lane = twi_tcp_lane_of(base->engine);
	struct twi_tcp_peer *peer;
	struct sockaddr_storage remote;
	char text[TOW_ADDRESS_MAX];
	socklen_t bytes;
	int status = twi_tcp_resolve(address, false, &remote, &bytes);

	if (status < 0)
		return status;
	twi_tcp_format(&remote, text);
	peer = twi_tcp_peer_create(lane, text);
	if (peer == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a peer");
	peer->remote = remote;
	peer->remote_bytes = bytes;
	peer->session_id = random_id();
	status = connect_stream(lane, peer, false);
	if (status == TOW_EREFUSED || status == TOW_EPEER || status == TOW_EDEADLINE) {
		/* The answer was there at once: it is the operation's, not the call's. */
		twi_tcp_peer_free(peer);
		twi_op_complete(op, status, 0);
		return TOW_OK;
	}
	if (status < 0) {
		twi_tcp_peer_free(peer);
		return status;
	}
	peer->dial = op;
	op->lane_state = peer;
	return TOW_OK;
}

void twi_tcp_dial_abort(struct tow_op *op, int status)
{
	struct twi_tcp_peer *peer = op->lane_state;

	if (peer != NULL)
		dial_failed(peer, status);
	else
		twi_op_complete(op, status, 0);
}

void twi_tcp_accepted(struct twi_tcp_lane *lane, struct twi_tcp_endpoint *endpoint, int fd)
{
	struct twi_tcp_stream *stream;

	if (lane->handshake_count >= TWI_HANDSHAKES_MAX ||
	    twi_tcp_stream_create(lane, fd, &stream) < 0) {
		twi_count(lane->base.engine->diag, TWI_C_handshakes_refused, 1);
		if (lane->handshake_count >= TWI_HANDSHAKES_MAX)
			close(fd);
		return;
	}
	twi_tcp_socket_setup(fd);
	twi_tcp_route_setup(fd);
	stream->endpoint = endpoint;
	stream->state = TWI_TCP_GREETING;
	twi_tcp_arm(lane, stream);
}

static int start_session(struct twi_tcp_peer *peer, const struct twi_hello *hello, bool connector)
{
	const struct tow_options *knobs = &peer->base.engine->knobs;
	struct twi_session_config config = {
		.lane = TWI_LANE_TCP,
		.connector = connector,
		.local_credit_bytes = (uint64_t)knobs->credit_bytes,
		.remote_credit_bytes = hello->credit_bytes,
		.eager_max_bytes =
			twi_min((uint32_t)knobs->eager_max_bytes, hello->eager_max_bytes),
	};
	int status = twi_session_init(&peer->base.session, peer->base.engine, &peer->base, &config);

	peer->session_up = status == TOW_OK;
	return status;
}

static void stream_up(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	twi_list_remove(&stream->link);
	twi_list_init(&stream->link);
	lane->handshake_count--;
	stream->state = TWI_TCP_UP;
	twi_tcp_arm(lane, stream);
}

/* Both streams are greeted: the peer is the user's. */
static void peer_up(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer)
{
	struct tow_op *op = peer->dial;

	stream_up(lane, peer->control);
	stream_up(lane, peer->bulk);
	twi_count(lane->base.engine->diag, TWI_C_peers_connected, 1);
	twi_log(lane->base.engine->diag, 3, "peer %s is up", peer->base.address);
	if (op != NULL) {
		peer->dial = NULL;
		op->lane_state = NULL;
		op->peer = &peer->base;
		peer->base.shown = true;
		twi_op_complete(op, TOW_OK, 0);
		return;
	}
	twi_endpoint_ready(&peer->endpoint->base, &peer->base);
}

/* A control HELLO came in on an accepted stream: this is a new peer. */
static int welcome_control(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			   const struct twi_hello *hello)
{
	struct twi_tcp_peer *peer;
	char text[TOW_ADDRESS_MAX];
	struct sockaddr_storage remote = { 0 };
	socklen_t bytes = sizeof(remote);

	if (getpeername(stream->fd, (struct sockaddr *)(void *)&remote, &bytes) != 0)
		return twi_error_errno(TOW_EPEER, errno, "getpeername");
	twi_tcp_format(&remote, text);
	peer = twi_tcp_peer_create(lane, text);
	if (peer == NULL)
		return TOW_ENOMEM;
	peer->session_id = hello->session;
	peer->token = random_id();
	peer->endpoint = stream->endpoint;
	peer->control = stream;
	stream->peer = peer;
	stream->state = TWI_TCP_PAIRING;
	if (start_session(peer, hello, false) < 0 || !greet(stream))
		return TOW_EPEER;
	return TOW_OK;
}

/* A bulk HELLO came in: its token says which peer it belongs to. */
static int welcome_bulk(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			const struct twi_hello *hello)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->handshakes) {
		struct twi_tcp_stream *control = twi_container_of(pos, struct twi_tcp_stream, link);
		struct twi_tcp_peer *peer = control->peer;

		if (control->ours || control->state != TWI_TCP_PAIRING ||
		    peer->session_id != hello->session || peer->token != hello->token)
			continue;
		stream->peer = peer;
		stream->bulk = true;
		peer->bulk = stream;
		if (!greet(stream))
			return TOW_EPEER;
		peer_up(lane, peer);
		return TOW_OK;
	}
	return twi_error(TOW_EPROTOCOL, "a bulk stream names no peer that waits for one");
}

/* The answer to our HELLO. */
static int answered(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
		    const struct twi_hello *hello)
{
	struct twi_tcp_peer *peer = stream->peer;
	int status;

	if (hello->session != peer->session_id || (stream->bulk && hello->token != peer->token))
		return twi_error(TOW_EPROTOCOL, "peer %s answered for another session",
				 peer->base.address);
	if (stream->bulk) {
		peer_up(lane, peer);
		return TOW_OK;
	}
	peer->token = hello->token;
	status = start_session(peer, hello, true);
	if (status < 0)
		return status;
	stream->state = TWI_TCP_PAIRING;
	return connect_stream(lane, peer, true);
}

static int take_hello(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	const struct twi_frame_limits limits = { .control = !stream->bulk };
	enum twi_frame_fault fault = TWI_FAULT_NONE;
	struct twi_frame frame;
	struct twi_hello hello;
	bool bulk;

	if (twi_frame_get(stream->hello, &limits, &frame, &fault) != TOW_OK ||
	    twi_hello_get(stream->hello + TWI_FRAME_BYTES, stream->ours, &hello, &fault) !=
		    TOW_OK) {
		twi_log(lane->base.engine->diag, 2, "a handshake was refused: %s",
			twi_frame_fault_text(fault));
		return twi_error(TOW_EPROTOCOL, "handshake: %s", twi_frame_fault_text(fault));
	}
	bulk = hello.kind == TWI_STREAM_BULK;
	if (stream->ours)
		return bulk == stream->bulk ? answered(lane, stream, &hello) : TOW_EPROTOCOL;
	return bulk ? welcome_bulk(lane, stream, &hello) : welcome_control(lane, stream, &hello);
}

static void read_hello(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	ssize_t n = recv(stream->fd, stream->hello + stream->hello_fill,
			 TWI_HELLO_FRAME - stream->hello_fill, MSG_DONTWAIT);
	int status;

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		twi_tcp_poll_in(lane, stream);
		return;
	}
	if (n <= 0) {
		twi_error(TOW_EREFUSED, "the other side ended the handshake");
		handshake_failed(lane, stream, TOW_EREFUSED);
		return;
	}
	stream->hello_fill += (uint32_t)n;
	if (stream->hello_fill < TWI_HELLO_FRAME) {
		twi_tcp_poll_in(lane, stream);
		return;
	}
	status = take_hello(lane, stream);
	if (status < 0)
		handshake_failed(lane, stream, status);
}

void twi_tcp_handshake_event(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	int err = 0;
	socklen_t bytes = sizeof(err);

	if (stream->state == TWI_TCP_GREETING) {
		read_hello(lane, stream);
		return;
	}
	if (stream->state != TWI_TCP_CONNECTING)
		return; /* PAIRING: nothing may come before the peer is up; the bulk stream decides
			 */
	getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &err, &bytes);
	if (err != 0) {
		twi_error_errno(connect_status(err), err, "connect to %s",
				stream->peer->base.address);
		handshake_failed(lane, stream, connect_status(err));
		return;
	}
	twi_tcp_route_setup(stream->fd);
	if (!greet(stream)) {
		handshake_failed(lane, stream, TOW_EPEER);
		return;
	}
	stream->state = TWI_TCP_GREETING;
	twi_tcp_arm(lane, stream);
}

void twi_tcp_handshake_expire(struct twi_tcp_lane *lane, uint64_t now_ns)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->handshakes) {
		struct twi_tcp_stream *stream = twi_container_of(pos, struct twi_tcp_stream, link);

		if (stream->deadline_ns > now_ns)
			continue;
		twi_error(TOW_EDEADLINE, "a handshake took longer than connect_timeout_ns");
		handshake_failed(lane, stream, TOW_EDEADLINE);
		next = lane->handshakes.next; /* it may have taken its sibling along */
	}
}
