/*
 * tcp_dial.c - connecting: a peer's first lines, and new streams for lines that broke.
 *
 * The first stream uses the address that the user named (rail 0). The other side then sends its
 * addresses, which give further rails (tcp_rails.h). Bulk streams are spread over the rails, and
 * each redial takes the next one.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/tcp/tcp.h"
#include "transport/op/lane_host.h"

#define INTERFACES_NS  (1000ull * 1000 * 1000) /* least time between reads of interfaces */
#define ATTEMPT_MIN_NS (100ull * 1000 * 1000)
#define ATTEMPT_MAX_NS (2000ull * 1000 * 1000)

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

int twi_tcp_connect_error(struct twi_tcp_peer *peer, int err)
{
	peer->dial_errno = err;
	return twi_error_errno(connect_status(err), err, "connect to %s", peer->base.address);
}

void twi_tcp_refresh_interfaces(struct twi_tcp_lane *lane)
{
	uint64_t now = twi_engine_now(lane->base.engine);

	if (lane->have_ns != 0 && now - lane->have_ns < INTERFACES_NS)
		return;
	twi_tcp_interfaces_read(lane->base.engine->knobs.interfaces, &lane->have);
	lane->have_ns = now;
}

static int open_socket(struct twi_tcp_lane *lane, const struct twi_tcp_rail *rail, int *fd_out)
{
	int fd = twi_fd_high(
		socket(rail->remote.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	char text[TOW_ADDRESS_MAX];
	int one = 1;

	if (fd < 0)
		return twi_fd_error(errno, "a connection");
	twi_tcp_socket_setup(lane->base.engine, &lane->refused, fd);
	if (rail->local.bytes != 0) {
		/* The port is chosen at connect, when the whole four-tuple is known to be free. */
		setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
		if (bind(fd, &rail->local.any, rail->local.bytes) != 0) {
			int err = errno;

			close(fd);
			twi_tcp_format(&rail->local, text);
			return twi_error_errno(TOW_ESYSTEM, err, "connect from %s %s", text,
					       rail->name);
		}
	}
	*fd_out = fd;
	return TOW_OK;
}

/*
 * What a failed connect tells of the peer's process. Only a refusal at the address where the peer
 * was proves that no process listens. Another address that the peer has sent may belong to another
 * host.
 */
enum twi_tcp_denial twi_tcp_denial_of(const struct twi_tcp_peer *peer,
				      const struct twi_tcp_address *remote, int err)
{
	return err == ECONNREFUSED && twi_tcp_same_host(remote, &peer->remote) ? TWI_TCP_NOBODY
									       : TWI_TCP_NO_ANSWER;
}

/*
 * Begins to connect a stream for a line. After a failed connect, *denial_out tells whether no
 * process listens.
 */
static int connect_stream(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line,
			  unsigned rail, bool redial, enum twi_tcp_denial *denial_out)
{
	const struct twi_tcp_rail *way = &peer->rails.rows[rail];
	struct twi_tcp_stream *stream;
	int fd = -1, err, status = open_socket(lane, way, &fd);

	if (status < 0)
		return status;
	err = connect(fd, &way->remote.any, way->remote.bytes) == 0 ? 0 : errno;
	if (err != 0 && err != EINPROGRESS) {
		close(fd);
		*denial_out = twi_tcp_denial_of(peer, &way->remote, err);
		return twi_tcp_connect_error(peer, err);
	}
	status = twi_tcp_stream_create(lane, fd, &stream);
	if (status < 0)
		return status;
	stream->peer = peer;
	stream->line = (uint8_t)line;
	stream->rail = (uint8_t)rail;
	stream->ours = true;
	stream->denial = (uint8_t)twi_tcp_denial_of(peer, &way->remote, ECONNREFUSED);
	stream->redial = redial;
	stream->state = TWI_TCP_CONNECTING;
	if (redial)
		peer->lines[line].trial = stream;
	else
		peer->lines[line].stream = stream;
	twi_tcp_arm(lane, stream);
	return TOW_OK;
}

static void choose_rails(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer,
			 const struct twi_tcp_address *dialed)
{
	twi_tcp_refresh_interfaces(lane);
	twi_tcp_rails_choose(lane->base.engine->knobs.interfaces, &lane->have, dialed,
			     &peer->advertised, &peer->rails);
	twi_tcp_rails_bind(&peer->rails, &peer->listener->at);
}

int twi_tcp_dial(struct tow_endpoint *base, const char *address, struct tow_op *op)
{
	struct twi_tcp_endpoint *endpoint = (struct twi_tcp_endpoint *)(void *)base;
	struct twi_tcp_lane *lane = twi_tcp_lane_of(base->engine);
	enum twi_tcp_denial denial;
	struct twi_tcp_address remote;
	struct twi_tcp_peer *peer;
	char text[TOW_ADDRESS_MAX];
	int status = twi_tcp_parse(address, &remote);

	if (status < 0)
		return status;
	twi_tcp_format(&remote, text);
	peer = twi_tcp_peer_create(lane, text, endpoint->listener);
	if (peer == NULL)
		return TOW_ENOMEM;
	peer->base.connector = true;
	peer->remote = remote;
	peer->session_id = twi_tcp_random_id();
	choose_rails(lane, peer, &remote);
	status = connect_stream(lane, peer, 0, 0, false, &denial);
	if (status == TOW_EREFUSED || status == TOW_EPEER || status == TOW_EDEADLINE) {
		/* The answer came at once: it is the result of the operation, not of the call. */
		op->moved = (uint64_t)peer->dial_errno;
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

/* Control is greeted: dials the bulk streams, over all rails in turn. */
int twi_tcp_dial_lines(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer)
{
	enum twi_tcp_denial denial;

	choose_rails(lane, peer, &peer->remote);
	for (unsigned line = 1; line < peer->line_count; line++) {
		unsigned rail = (line - 1) % peer->rails.count;
		int status = connect_stream(lane, peer, line, rail, false, &denial);

		if (status < 0 && rail > 0)
			status = connect_stream(lane, peer, line, 0, false, &denial);
		if (status < 0)
			return status;
	}
	return TOW_OK;
}

/* A first bulk stream failed on a further rail: dials rail 0, which the user named. */
int twi_tcp_dial_elsewhere(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_tcp_peer *peer = stream->peer;
	unsigned line = stream->line, rail = stream->rail;
	enum twi_tcp_denial denial;
	int status;

	if (!stream->ours || stream->redial || stream->full || line == 0 || rail == 0)
		return TOW_EPEER;
	twi_log(lane->base.engine->diag, 2, "peer %s: no bulk stream by interface %s: %s",
		peer->base.address, peer->rails.rows[rail].name, tow_error_message());
	status = connect_stream(lane, peer, line, 0, false, &denial);
	if (status == TOW_OK)
		twi_tcp_stream_destroy(lane, stream);
	return status;
}

void twi_tcp_dial_failed(struct twi_tcp_peer *peer, int status)
{
	struct tow_op *op = peer->dial;

	peer->dial = NULL;
	if (op != NULL) {
		op->lane_state = NULL;
		op->moved = status < 0 ? (uint64_t)peer->dial_errno : 0;
		twi_op_complete(op, status, 0);
	}
	twi_tcp_peer_free(peer);
}

void twi_tcp_dial_abort(struct tow_op *op, int status)
{
	struct twi_tcp_peer *peer = op->lane_state;

	if (peer != NULL)
		twi_tcp_dial_failed(peer, status);
	else
		twi_op_complete(op, status, 0);
}

/* The address to reach the peer again. The acceptor has only addresses that the peer has sent. */
static const struct twi_tcp_address *dialed_address(const struct twi_tcp_peer *peer)
{
	if (peer->base.connector)
		return &peer->remote;
	return peer->advertised.count > 0 ? &peer->advertised.rows[0] : NULL;
}

static bool goes_by(const struct twi_tcp_rail *rail, const struct twi_tcp_way *way)
{
	return twi_tcp_same_host(&rail->remote, &way->remote) &&
	       (rail->local.bytes == 0 || twi_tcp_same_host(&rail->local, &way->local));
}

/* The next rail, or the first one behind it on which the line has not stalled. */
static unsigned take_rail(const struct twi_tcp_peer *peer, struct twi_tcp_line *line)
{
	unsigned first = line->rail++ % peer->rails.count;

	for (unsigned i = 0; i < peer->rails.count; i++) {
		unsigned rail = (first + i) % peer->rails.count;

		if (!line->stall.shuns || !goes_by(&peer->rails.rows[rail], &line->stall.way))
			return rail;
	}
	return first;
}

static void limit_attempt(struct twi_tcp_lane *lane, const struct twi_tcp_line *line)
{
	uint64_t ns = lane->base.engine->knobs.peer_timeout_ns / 4;

	ns = twi_min(twi_max(ns, ATTEMPT_MIN_NS), ATTEMPT_MAX_NS);
	line->trial->deadline_ns = line->trial->start_ns + ns;
	twi_tcp_due(lane, line->trial->deadline_ns);
}

int twi_tcp_dial_again(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line,
		       enum twi_tcp_denial *denial_out)
{
	const struct twi_tcp_address *to = dialed_address(peer);
	struct twi_tcp_line *at = &peer->lines[line];
	int status;

	*denial_out = TWI_TCP_NO_ANSWER;
	if (to == NULL)
		return twi_error(TOW_EPEER, "peer %s has sent no address that can be dialed",
				 peer->base.address);
	choose_rails(lane, peer, to);
	status = connect_stream(lane, peer, line, take_rail(peer, at), true, denial_out);
	if (status == TOW_OK)
		limit_attempt(lane, at);
	return status;
}

int twi_tcp_dial_back(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line)
{
	const struct twi_tcp_address *to = dialed_address(peer);
	struct twi_tcp_line *at = &peer->lines[line];
	enum twi_tcp_denial denial;
	unsigned rail = 0;
	int status;

	if (to == NULL)
		return TOW_EPEER;
	choose_rails(lane, peer, to);
	while (rail < peer->rails.count && !goes_by(&peer->rails.rows[rail], &at->stall.way))
		rail++;
	if (rail == peer->rails.count)
		return TOW_EPEER; /* its interface is down */
	status = connect_stream(lane, peer, line, rail, true, &denial);
	if (status == TOW_OK)
		limit_attempt(lane, at);
	return status;
}
