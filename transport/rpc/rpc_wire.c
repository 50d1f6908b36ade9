/*
 * rpc_wire.c - writes and reads headers of calls. See rpc_wire.h.
 */
#include "transport/rpc/rpc_wire.h"

#include <internal/base.h>

#include "diag/base/hash.h"

void twi_rpc_head_put(uint8_t out[TWI_RPC_HEAD_BYTES], const struct twi_rpc_head *head)
{
	out[0] = head->type;
	out[1] = head->flags;
	twi_put_le(out + 2, head->unread, 2);
	twi_put_le(out + 4, head->inline_bytes, 4);
	twi_put_le(out + 8, head->id, 8);
	if (head->type == TWI_RPC_RESPONSE) {
		twi_put_le(out + 16, (uint32_t)head->status, 4);
		twi_put_le(out + 20, (uint32_t)head->code, 4);
	} else {
		twi_put_le(out + 16, head->method, 8);
	}
	twi_put_le(out + 24, head->bytes, 8);
	twi_put_le(out + 32, head->tag, 8);
	twi_put_le(out + 40, head->a, 8);
	twi_put_le(out + 48, head->b, 8);
	twi_put_le(out + 56, head->c, 8);
}

static uint8_t flags_of(uint8_t type)
{
	switch (type) {
	case TWI_RPC_REQUEST:
		return TWI_RPC_STREAM;
	case TWI_RPC_CHUNK:
		return TWI_RPC_END | TWI_RPC_TO_SERVER;
	case TWI_RPC_WINDOW:
		return TWI_RPC_TO_SERVER;
	default:
		return 0;
	}
}

const char *twi_rpc_head_get(const uint8_t *in, uint64_t bytes, struct twi_rpc_head *out)
{
	bool response, carries;

	if (bytes < TWI_RPC_HEAD_BYTES)
		return "it is shorter than a header";
	response = in[0] == TWI_RPC_RESPONSE;
	*out = (struct twi_rpc_head){
		.type = in[0],
		.flags = in[1],
		.inline_bytes = (uint32_t)twi_get_le(in + 4, 4),
		.id = twi_get_le(in + 8, 8),
		.method = response ? 0 : twi_get_le(in + 16, 8),
		.status = response ? (int32_t)(uint32_t)twi_get_le(in + 16, 4) : 0,
		.code = response ? (int32_t)(uint32_t)twi_get_le(in + 20, 4) : 0,
		.bytes = twi_get_le(in + 24, 8),
		.tag = twi_get_le(in + 32, 8),
		.a = twi_get_le(in + 40, 8),
		.b = twi_get_le(in + 48, 8),
		.c = twi_get_le(in + 56, 8),
		.unread = (uint16_t)twi_get_le(in + 2, 2),
	};
	if (out->type < TWI_RPC_REQUEST || out->type > TWI_RPC_GIVE_UP)
		return "its type is unknown";
	if ((out->flags & ~flags_of(out->type)) != 0)
		return "it has a flag that its type does not have";
	if (!response && out->unread != 0)
		return "it has a time, but its type has none";
	if (out->inline_bytes != bytes - TWI_RPC_HEAD_BYTES)
		return "its length is not that of the message";
	if (out->bytes > TWI_RPC_BODY_MAX)
		return "its body is longer than any";
	carries = out->type <= TWI_RPC_CHUNK;
	if (out->tag == 0 ? out->bytes != out->inline_bytes : out->inline_bytes != 0)
		return "its body is neither inline nor elsewhere";
	if (!carries && (out->bytes != 0 || out->tag != 0))
		return "it has a body, but its type has none";
	if (out->tag != 0 && out->bytes == 0)
		return "it names a body of no bytes";
	if (out->type == TWI_RPC_CHUNK && ((out->flags & TWI_RPC_END) != 0) != (out->bytes == 0))
		return "it is an empty piece of a stream, or an end that is not empty";
	return NULL;
}

#define FRACTION_BITS 11u

uint16_t twi_rpc_unread_put(uint64_t ns)
{
	unsigned bits = ns == 0 ? 0 : 64 - (unsigned)__builtin_clzll(ns), shift;

	if (bits <= FRACTION_BITS)
		return (uint16_t)ns;
	shift = bits - FRACTION_BITS - 1;
	if (shift > 30)
		return UINT16_MAX;
	return (uint16_t)((shift + 1) << FRACTION_BITS |
			  (ns >> shift & ((1u << FRACTION_BITS) - 1)));
}

uint64_t twi_rpc_unread_get(uint16_t coded)
{
	uint64_t exponent = coded >> FRACTION_BITS, fraction = coded & ((1u << FRACTION_BITS) - 1);

	return exponent == 0 ? fraction : (fraction | 1u << FRACTION_BITS) << (exponent - 1);
}

void twi_rpc_name_set(char out[TOW_METHOD_NAME_MAX], const char *name)
{
	size_t i = 0;

	for (; i + 1 < TOW_METHOD_NAME_MAX && name[i] != '\0'; i++)
		out[i] = name[i];
	out[i] = '\0';
}

uint64_t twi_rpc_hash(const char *name)
{
	uint64_t hash = twi_hash_text(name);

	return hash == 0 ? 1 : hash;
}
