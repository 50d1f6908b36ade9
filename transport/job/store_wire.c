/*
 * store_wire.c - authenticates, seals and buffers one connection of a store. See store_wire.h.
 */
#include "transport/job/store_wire.h"

#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"

/* The most received bytes that are kept: an incomplete frame, and what came with its end. */
#define IN_MAX     (2u * TWI_STORE_FRAME_MAX + TWI_CIPHER_RECORD_MAX)
#define RECORD_MAX (TWI_CIPHER_RECORD_MAX + TWI_CIPHER_OVERHEAD)
/* One reply is out at a time, so more than this is a fault of the library. */
#define OUT_MAX (4u * TWI_STORE_FRAME_MAX)

void twi_wire_init(struct twi_wire *wire, const struct twi_job_key *key, bool connector)
{
	*wire = (struct twi_wire){ 0 };
	twi_auth_start(&wire->auth, key, connector, "store");
}

void twi_wire_fini(struct twi_wire *wire)
{
	free(wire->records.bytes);
	free(wire->in.bytes);
	free(wire->out.bytes);
	explicit_bzero(wire, sizeof(*wire));
}

/* Grows the buffer by `more` bytes, to at most `most`. */
static int buffer_reserve(struct twi_wire_buffer *buffer, size_t more, size_t most)
{
	size_t room = buffer->room == 0 ? 512 : buffer->room;
	uint8_t *bytes;

	if (more > most - buffer->used)
		return twi_error(TOW_EPROTOCOL, "store: more than %zu bytes are held for a peer",
				 most);
	while (room < buffer->used + more)
		room *= 2;
	if (room == buffer->room)
		return TOW_OK;
	bytes = realloc(buffer->bytes, room);
	if (bytes == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a connection of the job's store");
	buffer->bytes = bytes;
	buffer->room = room;
	return TOW_OK;
}

static int buffer_append(struct twi_wire_buffer *buffer, const uint8_t *bytes, size_t count,
			 size_t most)
{
	int status = buffer_reserve(buffer, count, most);

	if (status < 0)
		return status;
	twi_store_copy(buffer->bytes + buffer->used, bytes, count);
	buffer->used += count;
	return TOW_OK;
}

/* Removes `count` bytes from the head. */
static void buffer_shift(struct twi_wire_buffer *buffer, size_t count)
{
	buffer->used -= count;
	if (buffer->used > 0)
		twi_store_move(buffer->bytes, buffer->bytes + count, buffer->used);
}

/* Opens the complete records. */
static int open_records(struct twi_wire *wire)
{
	struct twi_wire_buffer *records = &wire->records;
	uint32_t sealed;
	size_t plain;
	int status;

	while (records->used >= 4) {
		status = twi_cipher_length(records->bytes, &sealed);
		if (status < 0)
			return status;
		if (records->used < 4 + (size_t)sealed)
			return TOW_OK;
		status = buffer_reserve(&wire->in, TWI_CIPHER_RECORD_MAX, IN_MAX);
		if (status == TOW_OK)
			status = twi_cipher_open(&wire->open, wire->in.bytes + wire->in.used,
						 records->bytes + 4, sealed, &plain);
		if (status < 0)
			return status;
		wire->in.used += plain;
		buffer_shift(records, 4 + (size_t)sealed);
	}
	return TOW_OK;
}

/* Appends the bytes of the authentication to `out`. */
static int append_auth(struct twi_wire *wire)
{
	uint8_t bytes[TWI_AUTH_OUT_MAX];
	size_t count;
	int status = TOW_OK;

	while (status == TOW_OK && (count = twi_auth_out(&wire->auth, bytes)) > 0)
		status = buffer_append(&wire->out, bytes, count, OUT_MAX);
	return status;
}

int twi_wire_begin(struct twi_wire *wire)
{
	return append_auth(wire);
}

static int feed_auth(struct twi_wire *wire, const uint8_t **bytes, size_t *count)
{
	size_t used = 0;
	int status = twi_auth_in(&wire->auth, *bytes, *count, &used), appended = append_auth(wire);

	*bytes += used;
	*count -= used;
	if (status < 0 || appended < 0)
		return status < 0 ? status : appended;
	if (status == TOW_AGAIN || !twi_auth_done(&wire->auth))
		return TOW_OK;
	wire->ready = true;
	wire->sealed = twi_auth_encrypts(&wire->auth);
	if (wire->sealed)
		twi_auth_ciphers(&wire->auth, &wire->seal, &wire->open);
	return TOW_OK;
}

int twi_wire_feed(struct twi_wire *wire, const uint8_t *bytes, size_t count)
{
	int status;

	while (!wire->ready) {
		const uint8_t *before = bytes;

		if (count == 0)
			return TOW_OK;
		status = feed_auth(wire, &bytes, &count);
		if (status < 0)
			return status;
		if (!wire->ready && bytes == before)
			return twi_error(TOW_EPROTOCOL, "store: a greeting stopped half way");
	}
	if (count == 0)
		return TOW_OK;
	if (!wire->sealed)
		return buffer_append(&wire->in, bytes, count, IN_MAX);
	status = buffer_append(&wire->records, bytes, count, 2 * RECORD_MAX);
	return status < 0 ? status : open_records(wire);
}

int twi_wire_next(struct twi_wire *wire, struct twi_store_frame *out)
{
	size_t used;
	int status;

	if (wire->taken > 0) {
		buffer_shift(&wire->in, wire->taken);
		wire->taken = 0;
	}
	if (!wire->ready || wire->in.used == 0)
		return TOW_AGAIN;
	status = twi_store_decode(wire->in.bytes, wire->in.used, out, &used);
	if (status == TOW_OK)
		wire->taken = used;
	return status;
}

int twi_wire_put(struct twi_wire *wire, const struct twi_store_frame *frame)
{
	size_t bytes = TWI_STORE_HEAD + frame->key_bytes + frame->value_bytes;
	size_t parts = bytes / TWI_CIPHER_RECORD_MAX + 1;
	uint8_t *plain;
	int status = buffer_reserve(&wire->out, bytes + parts * TWI_CIPHER_OVERHEAD, OUT_MAX);

	if (status < 0)
		return status;
	if (!wire->sealed) {
		wire->out.used += twi_store_encode(frame, wire->out.bytes + wire->out.used);
		return TOW_OK;
	}
	plain = malloc(bytes);
	if (plain == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a connection of the job's store");
	twi_store_encode(frame, plain);
	for (size_t at = 0; at < bytes; at += TWI_CIPHER_RECORD_MAX)
		wire->out.used +=
			twi_cipher_seal(&wire->seal, wire->out.bytes + wire->out.used, plain + at,
					twi_min(bytes - at, TWI_CIPHER_RECORD_MAX));
	free(plain);
	return TOW_OK;
}

const uint8_t *twi_wire_out(const struct twi_wire *wire, size_t *count_out)
{
	*count_out = wire->out.used - wire->sent;
	return *count_out == 0 ? NULL : wire->out.bytes + wire->sent;
}

void twi_wire_sent(struct twi_wire *wire, size_t count)
{
	wire->sent += count;
	if (wire->sent < wire->out.used)
		return;
	wire->sent = wire->out.used = 0;
}
