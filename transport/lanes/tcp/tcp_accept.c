/*
 * tcp_accept.c - endpoints, their listening sockets, and the listener's rules: which clients may
 * come in, how many at once, how many a second. tcp_greet.h has the bounds.
 *
 *	kernel's queue --accept4, a token, a slot--> stream in its handshake --member--> peer
 *	      ^                |
 *	      +--- pause ------+  no descriptor or memory (1 ms, doubling to 100), no token, no slot
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/tcp/tcp.h"

#define LISTEN_BACKLOG 1024
#define PAUSE_FIRST_NS (1000ull * 1000)
#define PAUSE_MAX_NS   (100ull * 1000 * 1000)
#define SHORT_NS       SECOND_NS /* shortage of descriptors until clients are refused */
#define SECOND_NS      (1000ull * 1000 * 1000)

static int listen_on(struct twi_tcp_lane *lane, const struct twi_tcp_address *local,
		     const char *address, int *fd_out)
{
	int fd = twi_fd_high(
		socket(local->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	int one = 1, err = 0;

	if (fd < 0)
		return twi_fd_error(errno, "an endpoint");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	/* An accepted socket inherits the options, so a stranger costs no further call. */
	twi_tcp_socket_setup(lane->base.engine, &lane->refused, fd);
	if (bind(fd, &local->any, local->bytes) != 0 || listen(fd, LISTEN_BACKLOG) != 0)
		err = errno;
	if (err == 0) {
		*fd_out = fd;
		return TOW_OK;
	}
	close(fd);
	return twi_error_errno(err == EADDRINUSE      ? TOW_EBUSY
			       : err == EACCES        ? TOW_EPERM
			       : err == EADDRNOTAVAIL ? TOW_EINVAL
						      : TOW_ESYSTEM,
			       err, "listen at tcp://%s", address);
}

static int listener_create(struct twi_tcp_lane *lane, const char *address,
			   struct twi_tcp_listener **out)
{
	struct twi_tcp_listener *listener = calloc(1, sizeof(*listener));
	int status = listener == NULL ? twi_error(TOW_ENOMEM, "no memory for an endpoint")
				      : twi_tcp_parse(address, &listener->at);

	if (status == TOW_OK)
		status = twi_tcp_take_slot(lane, &listener->slot);
	if (status == TOW_OK)
		status = listen_on(lane, &listener->at, address, &listener->fd);
	if (status < 0) {
		free(listener);
		return status;
	}
	listener->at.bytes = sizeof(listener->at.in6);
	getsockname(listener->fd, &listener->at.any, &listener->at.bytes);
	listener->generation = ++lane->slots[listener->slot].generation;
	lane->slots[listener->slot].listener = listener;
	twi_list_push_back(&lane->listeners, &listener->link);
	*out = listener;
	return TOW_OK;
}

/* Handshakes that it accepted have no endpoint now. Those that are to resume a peer go on. */
static void end_handshakes(struct twi_tcp_lane *lane, const struct twi_tcp_listener *listener,
			   bool all)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->handshakes) {
		struct twi_tcp_stream *stream = twi_container_of(pos, struct twi_tcp_stream, link);

		if (stream->listener != listener)
			continue;
		if (stream->peer != NULL && !stream->peer->up)
			twi_tcp_peer_free(stream->peer);
		else if (all)
			twi_tcp_stream_destroy(lane, stream);
		else
			continue;
		next = lane->handshakes.next; /* streams of the same peer may have been freed too */
	}
}

void twi_tcp_listener_release(struct twi_tcp_lane *lane, struct twi_tcp_listener *listener)
{
	twi_assert(listener->users > 0);
	if (--listener->users > 0)
		return;
	end_handshakes(lane, listener, true);
	twi_list_remove(&listener->link);
	lane->slots[listener->slot].listener = NULL;
	shutdown(listener->fd, SHUT_RDWR);
	twi_ring_forget(lane->base.engine, listener->fd);
	close(listener->fd);
	free(listener);
}

int twi_tcp_endpoint_open(struct twi_lane *base, const char *address, struct tow_endpoint **out)
{
	struct twi_tcp_lane *lane = (struct twi_tcp_lane *)(void *)base;
	struct twi_tcp_endpoint *endpoint = twi_endpoint_alloc(sizeof(*endpoint));
	int status;

	if (endpoint == NULL)
		return twi_error(TOW_ENOMEM, "no memory for an endpoint");
	status = listener_create(lane, address, &endpoint->listener);
	if (status < 0) {
		twi_endpoint_free(&endpoint->base);
		return status;
	}
	twi_endpoint_setup(&endpoint->base, base);
	twi_tcp_format(&endpoint->listener->at, endpoint->base.address);
	endpoint->listener->endpoint = endpoint;
	endpoint->listener->users = 1;
	twi_tcp_accept_arm(lane, endpoint->listener);
	*out = &endpoint->base;
	return TOW_OK;
}

void twi_tcp_endpoint_close(struct tow_endpoint *base)
{
	struct twi_tcp_endpoint *endpoint = (struct twi_tcp_endpoint *)(void *)base;
	struct twi_tcp_lane *lane = twi_tcp_lane_of(base->engine);

	endpoint->listener->endpoint = NULL;
	end_handshakes(lane, endpoint->listener, false);
	twi_tcp_listener_release(lane, endpoint->listener);
	twi_endpoint_free(&endpoint->base);
}

static void pause_until(struct twi_tcp_lane *lane, struct twi_tcp_listener *listener,
			uint64_t until_ns)
{
	listener->pause_until_ns = until_ns;
	twi_tcp_due(lane, until_ns);
}

/*
 * Descriptors have been short for a while. Clients that wait are refused with a reason, instead of
 * waiting until their deadlines. The descriptor that is kept for this makes it possible.
 */
static void clients_refuse(struct twi_tcp_lane *lane, struct twi_tcp_listener *listener)
{
	struct twi_tcp_door *door = &lane->door;
	uint8_t heard[TWI_AUTH_OUT_MAX];

	if (door->spare_fd < 0)
		return;
	close(door->spare_fd);
	for (unsigned i = 0; i < TWI_ACCEPTS_A_TURN; i++) {
		int fd = twi_fd_high(
			accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));

		if (fd < 0)
			break;
		/* Unread bytes would make close send a reset, which could overtake this answer. */
		(void)!recv(fd, heard, sizeof(heard), MSG_DONTWAIT);
		(void)!send(fd, TWI_TCP_FULL, TWI_TCP_FULL_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL);
		close(fd);
		twi_count(lane->base.engine->diag, TWI_C_handshakes_refused, 1);
	}
	door->spare_fd = twi_fd_high(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

/* There is no descriptor or no memory: others may give theirs back during the pause. */
static void accept_failed(struct twi_tcp_lane *lane, struct twi_tcp_listener *listener, int err)
{
	struct twi_engine *engine = lane->base.engine;

	twi_count(engine->diag, TWI_C_accept_failures, 1);
	if (listener->pause_ns == 0) {
		twi_fd_error(err, "a connection that came in");
		twi_log(engine->diag, 2, "accept at port %u, trying again: %s",
			twi_tcp_port(&listener->at), tow_error_message());
	}
	if (lane->door.short_ns == 0)
		lane->door.short_ns = twi_engine_now(engine);
	else if ((err == EMFILE || err == ENFILE) &&
		 twi_engine_now(engine) - lane->door.short_ns >= SHORT_NS)
		clients_refuse(lane, listener);
	listener->pause_ns = twi_min(twi_max(listener->pause_ns * 2, PAUSE_FIRST_NS), PAUSE_MAX_NS);
	pause_until(lane, listener, twi_engine_now(engine) + listener->pause_ns);
}

static void fill_tokens(struct twi_tcp_door *door, uint64_t now_ns)
{
	uint64_t more = (now_ns - door->filled_ns) / (SECOND_NS / TWI_STRANGER_RATE);

	if (more == 0)
		return;
	door->tokens = (uint32_t)twi_min(door->tokens + more, (uint64_t)TWI_STRANGER_BURST);
	door->filled_ns += more * (SECOND_NS / TWI_STRANGER_RATE);
}

/*
 * All slots are in use: frees the oldest stranger that has had the time to prove itself, and has
 * not.
 */
static bool evict_stranger(struct twi_tcp_lane *lane, uint64_t now_ns, uint64_t *retry_ns_out)
{
	struct twi_list *pos, *next;

	*retry_ns_out = now_ns + TWI_STRANGER_NS;
	twi_list_for_each_safe (pos, next, &lane->handshakes) {
		struct twi_tcp_stream *stream = twi_container_of(pos, struct twi_tcp_stream, link);

		if (stream->ours || stream->greet == NULL || stream->greet->member)
			continue;
		if (now_ns - stream->start_ns < TWI_STRANGER_NS) {
			*retry_ns_out = stream->start_ns + TWI_STRANGER_NS;
			return false;
		}
		twi_count(lane->base.engine->diag, TWI_C_handshakes_evicted, 1);
		twi_tcp_stream_destroy(lane, stream);
		return true;
	}
	return false;
}

/* May one more client be admitted? If not, the listener pauses until one may. */
static bool may_admit(struct twi_tcp_lane *lane, struct twi_tcp_listener *listener)
{
	struct twi_tcp_door *door = &lane->door;
	uint64_t now = twi_engine_now(lane->base.engine), retry_ns;

	fill_tokens(door, now);
	if (door->tokens == 0) {
		twi_count(lane->base.engine->diag, TWI_C_handshakes_throttled, 1);
		/* The pause is for several clients: each resume costs a turn of the engine. */
		pause_until(lane, listener,
			    now + TWI_ACCEPTS_A_TURN * SECOND_NS / TWI_STRANGER_RATE);
		return false;
	}
	if (door->free_count == 0 && !evict_stranger(lane, now, &retry_ns)) {
		pause_until(lane, listener, retry_ns);
		return false;
	}
	door->tokens--;
	return true;
}

/* Accepts a client that waits at an endpoint. False: none waits, or no more can be admitted now. */
static bool accept_one(struct twi_tcp_lane *lane, struct twi_tcp_listener *listener)
{
	struct twi_tcp_stream *stream;
	int fd;

	if (!may_admit(lane, listener))
		return false;
	fd = twi_fd_high(accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	if (fd < 0) {
		lane->door.tokens++;
		if (errno == ECONNABORTED || errno == EINTR || errno == EPROTO)
			return true; /* that client has left again */
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			accept_failed(lane, listener, errno);
		return false;
	}
	listener->pause_ns = 0;
	lane->door.short_ns = 0;
	if (twi_tcp_stream_create(lane, fd, &stream) < 0) {
		twi_count(lane->base.engine->diag, TWI_C_handshakes_refused, 1);
		return true;
	}
	stream->listener = listener;
	stream->state = TWI_TCP_GREETING;
	if (twi_tcp_greet_start(lane, stream))
		twi_tcp_arm(lane, stream);
	return true;
}

void twi_tcp_accept_event(struct twi_tcp_lane *lane, struct twi_tcp_listener *listener)
{
	if (listener->pause_until_ns != 0)
		return; /* another ring's poll, from before the pause */
	for (unsigned i = 0; i < TWI_ACCEPTS_A_TURN; i++) {
		if (!accept_one(lane, listener))
			break;
	}
	twi_tcp_accept_arm(lane, listener);
}

uint64_t twi_tcp_accept_resume(struct twi_tcp_lane *lane, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->listeners) {
		struct twi_tcp_listener *listener =
			twi_container_of(pos, struct twi_tcp_listener, link);

		if (listener->pause_until_ns != 0 && listener->pause_until_ns <= now_ns) {
			listener->pause_until_ns = 0;
			twi_tcp_accept_arm(lane, listener);
		}
		if (listener->pause_until_ns != 0)
			next_ns = twi_min(next_ns, listener->pause_until_ns);
	}
	return next_ns;
}
