/*
 * store_codec.c - encodes and decodes frames of the store, and their values. See store_codec.h.
 */
#include "transport/job/store_codec.h"

#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"

void twi_store_copy(void *to, const void *from, size_t bytes)
{
	if (bytes > 0)
		memcpy(to, from, bytes);
}

void twi_store_move(void *to, const void *from, size_t bytes)
{
	memmove(to, from, bytes);
}

static bool known_kind(uint8_t kind)
{
	kind &= (uint8_t)~TWI_STORE_REPLY;
	return kind >= TWI_STORE_KIND_HELLO && kind < TWI_STORE_KIND_END;
}

int twi_store_decode(const uint8_t *in, size_t bytes, struct twi_store_frame *out, size_t *used_out)
{
	uint32_t rest, key;

	if (bytes < 4)
		return TOW_AGAIN;
	rest = (uint32_t)twi_get_le(in, 4);
	if (rest < TWI_STORE_HEAD - 4 || rest > TWI_STORE_FRAME_MAX - 4)
		return twi_error(TOW_EPROTOCOL, "store: a frame of %u bytes, the most is %u", rest,
				 TWI_STORE_FRAME_MAX - 4);
	/* A fault in the head is reported before the rest has come. */
	if (bytes < TWI_STORE_HEAD)
		return TOW_AGAIN;
	key = (uint32_t)in[6] | (uint32_t)in[7] << 8;
	if (!known_kind(in[4]) || in[5] != 0)
		return twi_error(TOW_EPROTOCOL,
				 "store: a frame of kind %u.%u, which does not "
				 "exist",
				 in[4], in[5]);
	if (key > TWI_STORE_KEY_MAX || key > rest - (TWI_STORE_HEAD - 4))
		return twi_error(TOW_EPROTOCOL,
				 "store: a key of %u bytes in a frame of %u; the most is %u", key,
				 rest, TWI_STORE_KEY_MAX);
	if (rest - (TWI_STORE_HEAD - 4) - key > TWI_STORE_VALUE_MAX)
		return twi_error(TOW_EPROTOCOL, "store: a value of %u bytes, the most is %u",
				 rest - (TWI_STORE_HEAD - 4) - key, TWI_STORE_VALUE_MAX);
	if (bytes - 4 < rest)
		return TOW_AGAIN;
	*out = (struct twi_store_frame){
		.kind = in[4],
		.status = (int32_t)twi_get_le(in + 8, 4),
		.number = (uint32_t)twi_get_le(in + 12, 4),
		.wait_ms = (uint32_t)twi_get_le(in + 16, 4),
		.a = twi_get_le(in + 20, 8),
		.b = twi_get_le(in + 28, 8),
		.key = (const char *)in + TWI_STORE_HEAD,
		.key_bytes = key,
		.value = in + TWI_STORE_HEAD + key,
		.value_bytes = rest - (TWI_STORE_HEAD - 4) - key,
	};
	*used_out = rest + 4;
	return TOW_OK;
}

size_t twi_store_encode(const struct twi_store_frame *frame, uint8_t *out)
{
	size_t total = TWI_STORE_HEAD + frame->key_bytes + frame->value_bytes;

	twi_assert(frame->key_bytes <= TWI_STORE_KEY_MAX);
	twi_assert(frame->value_bytes <= TWI_STORE_VALUE_MAX);
	twi_put_le(out, (uint32_t)(total - 4), 4);
	out[4] = frame->kind;
	out[5] = 0;
	out[6] = (uint8_t)frame->key_bytes;
	out[7] = (uint8_t)(frame->key_bytes >> 8);
	twi_put_le(out + 8, (uint32_t)frame->status, 4);
	twi_put_le(out + 12, frame->number, 4);
	twi_put_le(out + 16, frame->wait_ms, 4);
	twi_put_le(out + 20, frame->a, 8);
	twi_put_le(out + 28, frame->b, 8);
	twi_store_copy(out + TWI_STORE_HEAD, frame->key, frame->key_bytes);
	twi_store_copy(out + TWI_STORE_HEAD + frame->key_bytes, frame->value, frame->value_bytes);
	return total;
}

void twi_store_hello_put(uint8_t out[TWI_STORE_HELLO], uint32_t version, uint32_t restarts)
{
	twi_put_le(out, version, 4);
	twi_put_le(out + 4, restarts, 4);
}

int twi_store_hello_take(const struct twi_store_frame *frame, uint32_t *version_out,
			 uint32_t *restarts_out)
{
	if (frame->value_bytes < TWI_STORE_HELLO)
		return twi_error(TOW_EPROTOCOL, "store: a greeting of %u bytes, expected %u",
				 frame->value_bytes, TWI_STORE_HELLO);
	*version_out = (uint32_t)twi_get_le(frame->value, 4);
	*restarts_out = (uint32_t)twi_get_le(frame->value + 4, 4);
	return TOW_OK;
}

size_t twi_store_gathered_put(uint8_t *out, const void *value, uint32_t bytes)
{
	out[0] = (uint8_t)bytes;
	out[1] = (uint8_t)(bytes >> 8);
	twi_store_copy(out + 2, value, bytes);
	return 2 + bytes;
}

int twi_store_gathered_take(const struct twi_store_frame *frame, size_t *at,
			    const uint8_t **value_out, uint32_t *bytes_out)
{
	size_t left = frame->value_bytes - *at;
	const uint8_t *in = frame->value + *at;
	uint32_t bytes;

	if (left < 2)
		return twi_error(TOW_EPROTOCOL, "store: gathered values are cut");
	bytes = (uint32_t)in[0] | (uint32_t)in[1] << 8;
	if (bytes > left - 2)
		return twi_error(TOW_EPROTOCOL, "store: a gathered value of %u bytes in %zu", bytes,
				 left - 2);
	*value_out = in + 2;
	*bytes_out = bytes;
	*at += 2 + bytes;
	return TOW_OK;
}

size_t twi_store_list_put(uint8_t *out, size_t room, const uint32_t *ranks, uint32_t count)
{
	size_t used = 0;

	for (uint32_t at = 0, more; at < count; at += more + 1) {
		for (more = 0; at + more + 1 < count && more < UINT16_MAX; more++) {
			if (ranks[at + more + 1] != ranks[at] + more + 1)
				break;
		}
		if (room - used < 4)
			return 0;
		twi_put_le(out + used, ranks[at], 2);
		twi_put_le(out + used + 2, more, 2);
		used += 4;
	}
	return used;
}

bool twi_store_list_take(const uint8_t *in, size_t bytes, uint16_t *ranks_out, uint32_t count)
{
	uint32_t used = 0;

	for (size_t at = 0; at + 4 <= bytes; at += 4) {
		uint32_t first = (uint32_t)twi_get_le(in + at, 2);
		uint32_t run = (uint32_t)twi_get_le(in + at + 2, 2) + 1;

		if (run > count - used || first + run > UINT16_MAX + 1u)
			return false;
		for (uint32_t i = 0; i < run; i++)
			ranks_out[used++] = (uint16_t)(first + i);
	}
	return used == count && bytes % 4 == 0;
}

size_t twi_store_absent_put(uint8_t *out, size_t room, const char *text, const uint16_t *members,
			    uint32_t count)
{
	size_t list = 1 + 2 * (size_t)twi_min(count, TWI_STORE_ABSENT_MAX), used = strlen(text);

	if (room < list)
		return 0;
	used = twi_min(used, room - list);
	twi_store_copy(out, text, used);
	out[used++] = '\0';
	for (uint32_t i = 0; i < twi_min(count, TWI_STORE_ABSENT_MAX); i++, used += 2)
		twi_put_le(out + used, members[i], 2);
	return used;
}

uint32_t twi_store_absent_take(const struct twi_store_frame *reply, uint32_t members,
			       uint16_t out[TWI_STORE_ABSENT_MAX])
{
	const uint8_t *end =
		reply->value_bytes > 0 ? memchr(reply->value, 0, reply->value_bytes) : NULL;
	size_t bytes = end == NULL ? 0 : reply->value_bytes - (size_t)(end + 1 - reply->value);
	uint32_t count = (uint32_t)(bytes / 2);

	if (bytes % 2 != 0 || count > TWI_STORE_ABSENT_MAX)
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		out[i] = (uint16_t)twi_get_le(end + 1 + 2 * (size_t)i, 2);
		if (out[i] >= members || (i > 0 && out[i] <= out[i - 1]))
			return 0;
	}
	return count;
}
