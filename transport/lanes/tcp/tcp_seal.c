/*
 * tcp_seal.c - encrypted streams. Bytes of the session are sealed into a staging buffer, and sent
 * from there. Bytes that come are gathered, opened record by record, and given to the session.
 *
 *	session --control_out, bulk_out--> seal --> out [head..tail) --> socket
 *	session <--control_in, bulk_in---- plain <-- open <-- in [0..fill) <-- socket
 *
 * This code reads and writes the payload, not the kernel. So it first checks 1 MiB ahead for memory
 * that cannot be read or written (reach.h). The message of such memory ends as it does when the
 * kernel returns EFAULT.
 *
 * For the session, sealed bytes count as sent. If the connection breaks, the resume record tells
 * what has arrived, even if sealed bytes were still here. The payload of a large message is copied
 * once more on each side than without encryption: by sealing, and from `plain` to its place. These
 * copies are counted.
 */
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/tcp/tcp.h"
#include "transport/op/lane_host.h"

#define RECORDS      4u /* in one system call */
#define SEALED_BYTES (RECORDS * (TWI_CIPHER_RECORD_MAX + TWI_CIPHER_OVERHEAD))

struct twi_tcp_seal {
	struct twi_cipher send, receive;
	size_t out_head, out_tail;
	size_t in_fill;
	size_t plain_at, plain_bytes; /* opened, and not yet taken by the session */
	struct twi_access_checked readable, writable;
	uint8_t out[SEALED_BYTES];
	uint8_t in[SEALED_BYTES];
	uint8_t plain[TWI_CIPHER_RECORD_MAX];
};

int twi_tcp_seal_create(struct twi_tcp_stream *stream, struct twi_auth *auth)
{
	struct twi_tcp_seal *seal = malloc(sizeof(*seal));

	if (seal == NULL)
		return twi_error(TOW_ENOMEM, "no memory for an encrypted connection (%zu bytes)",
				 sizeof(*seal));
	seal->out_head = seal->out_tail = 0;
	seal->in_fill = 0;
	seal->plain_at = seal->plain_bytes = 0;
	seal->readable = seal->writable = (struct twi_access_checked){ 0 };
	twi_auth_ciphers(auth, &seal->send, &seal->receive);
	stream->seal = seal;
	return TOW_OK;
}

void twi_tcp_seal_destroy(struct twi_tcp_seal *seal)
{
	if (seal == NULL)
		return;
	twi_cipher_wipe(&seal->send);
	twi_cipher_wipe(&seal->receive);
	free(seal);
}

size_t twi_tcp_seal_hello(struct twi_tcp_seal *seal, uint8_t *out, const uint8_t *plain,
			  size_t bytes)
{
	return twi_cipher_seal(&seal->send, out, plain, bytes);
}

int twi_tcp_open_hello(struct twi_tcp_seal *seal, uint8_t *plain_out, const uint8_t *sealed,
		       size_t bytes, size_t *plain_bytes_out)
{
	return twi_cipher_open(&seal->receive, plain_out, sealed, bytes, plain_bytes_out);
}

static void put_record(struct twi_tcp_seal *seal, const void *plain, size_t bytes)
{
	seal->out_tail += twi_cipher_seal(&seal->send, seal->out + seal->out_tail, plain, bytes);
}

static size_t seal_room(const struct twi_tcp_seal *seal)
{
	size_t left = SEALED_BYTES - seal->out_tail;

	return left <= TWI_CIPHER_OVERHEAD
		       ? 0
		       : twi_min(left - TWI_CIPHER_OVERHEAD, (size_t)TWI_CIPHER_RECORD_MAX);
}

/* Seals control bytes. False: the session has no more, or there is no room. */
static bool seal_control(struct twi_session *session, struct twi_tcp_seal *seal)
{
	struct iovec out;
	size_t n = seal_room(seal);

	if (n == 0 || !twi_session_control_out(session, &out))
		return false;
	n = twi_min(n, out.iov_len);
	put_record(seal, out.iov_base, n);
	twi_session_control_sent(session, n);
	return true;
}

static bool memory_accessible(struct twi_access_checked *known, const struct tow_op *op,
			      struct iovec part, bool write)
{
	return twi_access_check(known, op->seq, part.iov_base, part.iov_len,
				twi_op_end_of(op, part.iov_base), write);
}

/* Headers and commits have records of their own: they are 32 bytes, in a chunk of megabytes. */
static bool seal_bulk(struct twi_session *session, struct twi_tcp_seal *seal, unsigned channel)
{
	struct twi_bulk_out out;
	size_t sent = 0;

	if (seal_room(seal) == 0 ||
	    !twi_session_bulk_out(session, channel, TWI_CIPHER_RECORD_MAX, &out))
		return false;
	if (out.payload_part >= 0 &&
	    !memory_accessible(&seal->readable, out.op, out.parts[out.payload_part], false) &&
	    twi_session_out_faulted(session, channel))
		return true;
	for (int i = 0; i < out.count; i++) {
		size_t n = twi_min(seal_room(seal), out.parts[i].iov_len);

		if (n > 0)
			put_record(seal, out.parts[i].iov_base, n);
		sent += n;
		if (n < out.parts[i].iov_len)
			break;
	}
	/* Nothing was read since bulk_out, so no answer can have waited for this. */
	(void)twi_session_bulk_sent(session, channel, sent);
	return sent > 0;
}

bool twi_tcp_seal_out(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, struct iovec *out)
{
	struct twi_tcp_seal *seal = stream->seal;
	struct twi_session *session = &stream->peer->session;

	(void)lane;
	if (seal->out_head == seal->out_tail) {
		seal->out_head = seal->out_tail = 0;
		while (stream->line == 0 ? seal_control(session, seal)
					 : seal_bulk(session, seal, stream->line - 1u))
			;
	}
	*out = (struct iovec){ seal->out + seal->out_head, seal->out_tail - seal->out_head };
	return seal->out_tail > seal->out_head;
}

void twi_tcp_seal_sent(struct twi_tcp_stream *stream, size_t bytes)
{
	twi_assert(bytes <= stream->seal->out_tail - stream->seal->out_head);
	stream->seal->out_head += bytes;
}

bool twi_tcp_seal_room(struct twi_tcp_stream *stream, struct iovec *out)
{
	struct twi_tcp_seal *seal = stream->seal;

	if (seal->plain_bytes > seal->plain_at)
		return false;
	/* There is always room for the rest of a record, because the buffer holds four. */
	*out = (struct iovec){ seal->in + seal->in_fill, sizeof(seal->in) - seal->in_fill };
	return true;
}

/* Moves bulk bytes to where the session wants them. TOW_AGAIN: it wants none now. */
static int bulk_deliver(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_session *session = &stream->peer->session;
	struct twi_tcp_seal *seal = stream->seal;
	unsigned channel = stream->line - 1u;

	while (seal->plain_at < seal->plain_bytes) {
		size_t left = seal->plain_bytes - seal->plain_at, taken = 0;
		struct iovec parts[2];
		int count = twi_session_bulk_want(session, channel, left, parts), status;
		const struct tow_op *op;

		if (count == 0)
			return TOW_AGAIN;
		op = twi_session_bulk_op(session, channel);
		if (op != NULL && !memory_accessible(&seal->writable, op, parts[0], true) &&
		    twi_session_in_faulted(session, channel))
			continue;
		for (int i = 0; i < count && taken < left; i++) {
			size_t n = twi_min(parts[i].iov_len, left - taken);

			twi_path_copy_opened(lane->base.engine->diag, parts[i].iov_base,
					     seal->plain + seal->plain_at + taken, n);
			taken += n;
		}
		seal->plain_at += taken;
		status = twi_session_bulk_in(session, channel, taken);
		if (status < 0)
			return status;
	}
	return TOW_OK;
}

static int plain_deliver(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_tcp_seal *seal = stream->seal;
	size_t bytes = seal->plain_bytes - seal->plain_at;
	const uint8_t *at = seal->plain + seal->plain_at;

	if (bytes == 0)
		return TOW_OK;
	if (stream->line > 0)
		return bulk_deliver(lane, stream);
	seal->plain_at = seal->plain_bytes;
	return twi_session_control_in(&stream->peer->session, at, bytes);
}

/* Opens the record that begins `at`. TOW_AGAIN: it is not whole yet. */
static int open_record(struct twi_tcp_seal *seal, size_t *at)
{
	uint32_t sealed;
	int status;

	if (seal->in_fill - *at < 4)
		return TOW_AGAIN;
	status = twi_cipher_length(seal->in + *at, &sealed);
	if (status < 0)
		return status;
	if (seal->in_fill - *at - 4 < sealed)
		return TOW_AGAIN;
	seal->plain_at = 0;
	status = twi_cipher_open(&seal->receive, seal->plain, seal->in + *at + 4, sealed,
				 &seal->plain_bytes);
	if (status < 0)
		return status;
	*at += 4 + (size_t)sealed;
	return TOW_OK;
}

int twi_tcp_seal_in(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, size_t bytes)
{
	struct twi_tcp_seal *seal = stream->seal;
	size_t at = 0;
	int status;

	seal->in_fill += bytes;
	twi_assert(seal->in_fill <= sizeof(seal->in));
	do {
		status = plain_deliver(lane, stream);
		if (status == TOW_OK)
			status = open_record(seal, &at);
	} while (status == TOW_OK);
	if (status != TOW_AGAIN)
		return status;
	seal->in_fill -= at;
	memmove(seal->in, seal->in + at, seal->in_fill);
	return TOW_OK;
}
