/*
 * tcp_greet.c - the bytes of the exchange that opens a connection. See tcp_greet.h; tcp_hello.c
 * acts on them.
 *
 * Only bytes of the exchange are read, because the next ones belong to the session. Only the proofs
 * may be read together with the HELLO behind them.
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

#define SECOND_NS (1000ull * 1000 * 1000)

int twi_tcp_door_init(struct twi_tcp_door *door)
{
	*door = (struct twi_tcp_door){ .tokens = TWI_STRANGER_BURST, .filled_ns = twi_now_ns() };
	door->spare_fd = twi_fd_high(open("/dev/null", O_RDONLY | O_CLOEXEC));
	door->slots = calloc(TWI_HANDSHAKES_MAX, sizeof(door->slots[0]));
	door->free = calloc(TWI_HANDSHAKES_MAX, sizeof(door->free[0]));
	if (door->slots == NULL || door->free == NULL) {
		twi_tcp_door_fini(door);
		return twi_error(TOW_ENOMEM, "no memory for handshakes");
	}
	/* The first slots are used first, so pages of the others stay untouched in normal use. */
	for (uint32_t i = 0; i < TWI_HANDSHAKES_MAX; i++)
		door->free[door->free_count++] = TWI_HANDSHAKES_MAX - 1 - i;
	return TOW_OK;
}

void twi_tcp_door_fini(struct twi_tcp_door *door)
{
	free(door->slots);
	free(door->free);
	if (door->spare_fd >= 0)
		close(door->spare_fd);
	*door = (struct twi_tcp_door){ .spare_fd = -1 };
}

void twi_tcp_refusal(struct twi_tcp_lane *lane, const char *text)
{
	struct twi_tcp_door *door = &lane->door;
	uint64_t now = twi_engine_now(lane->base.engine);

	if (door->said_ns != 0 && now - door->said_ns < SECOND_NS) {
		door->unsaid++;
		return;
	}
	if (door->unsaid > 0)
		twi_log(lane->base.engine->diag, 2,
			"a handshake was refused: %s (and %llu more before it)", text,
			(unsigned long long)door->unsaid);
	else
		twi_log(lane->base.engine->diag, 2, "a handshake was refused: %s", text);
	door->said_ns = now;
	door->unsaid = 0;
}

/* A new socket takes the few hundred bytes of a handshake at once, or it is of no use. */
static bool send_whole(const struct twi_tcp_stream *stream, const void *data, size_t bytes)
{
	return send(stream->fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)bytes;
}

static int proofs_send(struct twi_tcp_stream *stream)
{
	uint8_t out[TWI_AUTH_OUT_MAX];
	size_t bytes;

	while ((bytes = twi_auth_out(&stream->greet->auth, out)) > 0) {
		if (!send_whole(stream, out, bytes)) {
			stream->left = true;
			return twi_error(TOW_EREFUSED, "the other side ended the handshake");
		}
	}
	return TOW_OK;
}

bool twi_tcp_greet_start(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_tcp_door *door = &lane->door;
	struct twi_tcp_greet *greet = NULL;
	int status;

	if (stream->ours) {
		/* This side chooses how many it dials; strangers must not prevent that. */
		greet = calloc(1, sizeof(*greet));
		if (greet != NULL)
			greet->own_memory = true;
	} else if (door->free_count > 0) {
		uint32_t index = door->free[--door->free_count];

		greet = &door->slots[index];
		*greet = (struct twi_tcp_greet){ .index = index };
	}
	stream->greet = greet;
	if (greet == NULL) {
		status = twi_error(TOW_ENOMEM, "no memory for a handshake");
	} else {
		twi_auth_start(&greet->auth, &lane->base.engine->job_key, stream->ours, "tcp");
		status = proofs_send(stream);
	}
	if (status < 0)
		twi_tcp_handshake_failed(lane, stream, status);
	return status == TOW_OK;
}

void twi_tcp_greet_end(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_tcp_greet *greet = stream->greet;

	stream->greet = NULL;
	if (greet == NULL)
		return;
	explicit_bzero(greet, offsetof(struct twi_tcp_greet, own_memory));
	if (greet->own_memory)
		free(greet);
	else
		lane->door.free[lane->door.free_count++] = greet->index;
}

/* Reads until `want` bytes are there. */
static int fetch_bytes(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, size_t want)
{
	struct twi_tcp_greet *greet = stream->greet;
	ssize_t n;

	if (want > sizeof(greet->in) || greet->fill >= sizeof(greet->in))
		return twi_error(TOW_EPROTOCOL, "handshake: it is longer than a handshake can "
						"be");
	n = recv(stream->fd, greet->in + greet->fill, want - greet->fill, MSG_DONTWAIT);
	if (n > 0) {
		greet->fill += (uint32_t)n;
		return TOW_OK;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		twi_tcp_poll_in(lane, stream);
		return TOW_AGAIN;
	}
	/* A side that closes with our greeting unread causes a reset: that gives no reason. */
	stream->left = true;
	if (n == 0 && greet->said)
		stream->denial = TWI_TCP_UNKNOWN;
	if (!twi_auth_done(&greet->auth))
		return twi_error(
			TOW_EREFUSED,
			"the other side ended the handshake before it was proved that both "
			"are of one job; its log says why (its knob job_key or require, for "
			"instance)");
	return twi_error(TOW_EREFUSED,
			 "the other side ended the handshake; its log says why (its knob "
			 "require, for instance)");
}

static void take_bytes(struct twi_tcp_greet *greet, size_t bytes)
{
	twi_assert(bytes <= greet->fill);
	greet->fill -= (uint32_t)bytes;
	memmove(greet->in, greet->in + bytes, greet->fill);
}

static int stream_proved(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_tcp_greet *greet = stream->greet;
	struct twi_tcp_door *door = &lane->door;

	/* Without a key every client gets here, so none is more than a stranger yet. */
	greet->member = lane->base.engine->job_key.set;
	if (greet->member && !stream->ours && door->tokens < TWI_STRANGER_BURST)
		door->tokens++;
	return twi_auth_encrypts(&greet->auth) ? twi_tcp_seal_create(stream, &greet->auth) : TOW_OK;
}

/* The other side could accept, but has no descriptor for more. */
static bool says_full(const struct twi_tcp_stream *stream)
{
	return stream->ours && stream->greet->fill >= TWI_TCP_FULL_BYTES &&
	       memcmp(stream->greet->in, TWI_TCP_FULL, TWI_TCP_FULL_BYTES) == 0;
}

int twi_tcp_greet_prove(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_tcp_greet *greet = stream->greet;

	while (!twi_auth_done(&greet->auth)) {
		size_t used = 0;
		int status, said;

		if (twi_unlikely(says_full(stream)))
			return twi_error(TOW_EREFUSED,
					 "%s has no descriptor left for a connection (`ulimit -n` "
					 "there)",
					 stream->peer->base.address);
		status = greet->fill == 0
				 ? TOW_AGAIN
				 : twi_auth_in(&greet->auth, greet->in, greet->fill, &used);
		said = proofs_send(stream); /* a refusal, too */

		if (status == TOW_EAUTH || status == TOW_EPROTOCOL) {
			twi_count(lane->base.engine->diag, TWI_C_auth_refused, 1);
			return status;
		}
		if (said < 0)
			return said;
		take_bytes(greet, used);
		if (status == TOW_OK)
			return stream_proved(lane, stream);
		status = fetch_bytes(lane, stream, sizeof(greet->in));
		if (status != TOW_OK)
			return status;
	}
	return TOW_OK;
}

int twi_tcp_greet_say(struct twi_tcp_stream *stream, const struct twi_tcp_words *words)
{
	struct twi_frame frame = { .type = TWI_FRAME_HELLO, .payload_bytes = TWI_HELLO_BYTES };
	uint8_t plain[TWI_GREET_PLAIN], sealed[TWI_GREET_MAX];
	size_t bytes = TWI_HELLO_FRAME + 4 + words->tail_bytes;
	bool sent;

	twi_frame_put(plain, &frame);
	twi_hello_put(plain + TWI_FRAME_BYTES, &words->hello);
	twi_put_le32(plain + TWI_HELLO_FRAME, (uint32_t)words->tail_bytes);
	memcpy(plain + TWI_HELLO_FRAME + 4, words->tail, words->tail_bytes);
	if (stream->seal != NULL) {
		bytes = twi_tcp_seal_hello(stream->seal, sealed, plain, bytes);
		sent = send_whole(stream, sealed, bytes);
	} else {
		sent = send_whole(stream, plain, bytes);
	}
	stream->left = !sent;
	return sent ? TOW_OK : twi_error(TOW_EPEER, "the connection broke in its handshake");
}

/* Parses the HELLO frame, once all of it is there. */
static int parse_hello(const struct twi_tcp_stream *stream, const uint8_t *in,
		       struct twi_hello *out)
{
	struct twi_frame_limits limits = { .control = true };
	enum twi_frame_fault fault = TWI_FAULT_NONE;
	struct twi_frame frame;
	int status = twi_frame_get(in, &limits, &frame, &fault);

	if (status == TOW_OK)
		status = twi_hello_get(in + TWI_FRAME_BYTES, stream->ours, out, &fault);
	if (status == TOW_OK)
		return TOW_OK;
	if (fault == TWI_FAULT_VERSION)
		return twi_error(TOW_EPROTOCOL,
				 "handshake: the peer speaks version %u.%u of the protocol, this "
				 "side %u.%u",
				 out->version_major, out->version_minor, TWI_WIRE_MAJOR,
				 TWI_WIRE_MINOR);
	return twi_error(TOW_EPROTOCOL, "handshake: %s", twi_frame_fault_text(fault));
}

/* TOW_OK; TOW_AGAIN, *need_out bytes are needed; TOW_EPROTOCOL. */
static int parse_words(const struct twi_tcp_stream *stream, const uint8_t *in, size_t bytes,
		       struct twi_tcp_words *out, size_t *need_out)
{
	uint32_t tail;
	int status;

	*need_out = TWI_HELLO_FRAME + 4;
	if (bytes < TWI_HELLO_FRAME)
		return TOW_AGAIN;
	status = parse_hello(stream, in, &out->hello);
	if (status < 0 || bytes < TWI_HELLO_FRAME + 4)
		return status < 0 ? status : TOW_AGAIN;
	tail = twi_get_le32(in + TWI_HELLO_FRAME);
	if (tail > TWI_TAIL_MAX)
		return twi_error(TOW_EPROTOCOL, "handshake: %u bytes behind the HELLO", tail);
	*need_out += tail;
	if (bytes < *need_out)
		return TOW_AGAIN;
	memcpy(out->tail, in + TWI_HELLO_FRAME + 4, tail);
	out->tail_bytes = tail;
	return TOW_OK;
}

static int parse_sealed(const struct twi_tcp_stream *stream, struct twi_tcp_greet *greet,
			struct twi_tcp_words *out, size_t *need_out)
{
	uint8_t plain[TWI_GREET_PLAIN];
	uint32_t sealed = 0;
	size_t bytes = 0, need;
	int status;

	*need_out = 4;
	if (greet->fill < 4)
		return TOW_AGAIN;
	status = twi_cipher_length(greet->in, &sealed);
	if (status < 0 || sealed > TWI_GREET_MAX - 4)
		return twi_error(TOW_EPROTOCOL, "handshake: an encrypted record is out of bounds");
	*need_out = 4 + (size_t)sealed;
	if (greet->fill < *need_out)
		return TOW_AGAIN;
	status = twi_tcp_open_hello(stream->seal, plain, greet->in + 4, sealed, &bytes);
	if (status < 0)
		return status;
	status = parse_words(stream, plain, bytes, out, &need);
	if (status == TOW_AGAIN || (status == TOW_OK && need != bytes))
		return twi_error(TOW_EPROTOCOL, "handshake: the record is longer than its "
						"content");
	return status;
}

int twi_tcp_greet_hear(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
		       struct twi_tcp_words *out)
{
	struct twi_tcp_greet *greet = stream->greet;

	for (;;) {
		size_t need = 0;
		int status = stream->seal != NULL
				     ? parse_sealed(stream, greet, out, &need)
				     : parse_words(stream, greet->in, greet->fill, out, &need);

		if (status == TOW_OK && need != greet->fill)
			return twi_error(TOW_EPROTOCOL, "handshake: more bytes than expected");
		if (status != TOW_AGAIN)
			return status;
		status = fetch_bytes(lane, stream, need);
		if (status != TOW_OK)
			return status;
	}
}
