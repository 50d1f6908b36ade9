/*
 * packet.c - the codec of the ofi lane's packets. See packet.h.
 */
#include "transport/lanes/ofi/packet.h"

#include <internal/base.h>

#include "transport/message/match.h"
#include "transport/wire/feature.h"
#include "transport/wire/frame.h"

#define SPACE_BITS 2

_Static_assert(TWI_SPACE_COUNT <= 1 << SPACE_BITS, "spaces have two bits of a packet");

/* The bounds of each type of packet. */
static const struct {
	bool space, checksum, seq, tag;    /* a type with a space has a channel */
	uint32_t payload_min, payload_max; /* UINT32_MAX: the receiver's limit */
	uint64_t value_min, value_max;
} rules[TWI_OFI_TYPE_END] = {
	[TWI_OFI_AUTH] = { .payload_min = TWI_OFI_AUTH_HEAD,
			   .payload_max = TWI_OFI_AUTH_HEAD + TWI_OFI_NAME_MAX + TWI_OFI_AUTH_MAX,
			   .value_min = TWI_OFI_MAGIC,
			   .value_max = TWI_OFI_MAGIC },
	[TWI_OFI_HELLO] = { .payload_min = TWI_OFI_HELLO_BYTES,
			    .payload_max = TWI_OFI_HELLO_BYTES },
	[TWI_OFI_EAGER] = { .space = true,
			    .checksum = true,
			    .seq = true,
			    .tag = true,
			    .payload_max = UINT32_MAX,
			    .value_max = TWI_OFI_PAYLOAD_MAX },
	[TWI_OFI_MORE] = { .seq = true,
			   .payload_min = 1,
			   .payload_max = UINT32_MAX,
			   .value_max = TWI_OFI_PAYLOAD_MAX },
	[TWI_OFI_RTS] = { .space = true,
			  .checksum = true,
			  .seq = true,
			  .tag = true,
			  .payload_min = TWI_OFI_OFFER_BYTES,
			  .payload_max = TWI_OFI_OFFER_BYTES,
			  .value_min = 1,
			  .value_max = TWI_WIRE_U63_MAX },
	[TWI_OFI_CTS] = { .seq = true,
			  .tag = true,
			  .value_min = TWI_OFI_TAGGED,
			  .value_max = TWI_OFI_WAY_END - 1 },
	[TWI_OFI_FRAG] = { .seq = true,
			   .payload_min = 1,
			   .payload_max = UINT32_MAX,
			   .value_max = TWI_WIRE_U63_MAX },
	[TWI_OFI_DONE] = { .seq = true },
	[TWI_OFI_ACK] = { .seq = true, .tag = true, .value_max = TWI_WIRE_HOLD_MAX_NS },
	[TWI_OFI_CANCEL] = { .seq = true, .value_max = TWI_OFI_CANCEL_END - 1 },
	[TWI_OFI_REFUSE] = { .seq = true,
			     .value_min = TWI_OFI_REFUSE_TRUNCATED,
			     .value_max = TWI_OFI_REFUSE_END - 1 },
	[TWI_OFI_PING] = { .payload_max = 0 },
	[TWI_OFI_PONG] = { .payload_max = 0 },
	[TWI_OFI_BYE] = { .value_max = TWI_WIRE_STATUS_MAX },
};

void twi_ofi_packet_put(uint8_t *out, const struct twi_ofi_packet *p)
{
	twi_put_le64(out, (uint64_t)p->type | (uint64_t)p->space << 8 |
				  (uint64_t)p->flags << SPACE_BITS << 8 |
				  (uint64_t)p->channel << 16 | (uint64_t)p->payload_bytes << 32);
	twi_put_le64(out + 8, p->session);
	twi_put_le64(out + 16, (uint64_t)p->number | (uint64_t)p->checksum << 32);
	twi_put_le64(out + 24, p->seq);
	twi_put_le64(out + 32, p->tag);
	twi_put_le64(out + 40, p->value);
}

/* Returns what is wrong with a header, or NULL. */
static const char *judge_packet(const struct twi_ofi_packet *p, uint32_t payload_max_bytes)
{
	uint32_t payload_max;

	if (p->type == 0 || p->type >= TWI_OFI_TYPE_END)
		return "the packet type is unknown";
	payload_max = rules[p->type].payload_max;
	if (payload_max == UINT32_MAX)
		payload_max = payload_max_bytes;
	if (p->channel != 0 && !rules[p->type].space)
		return "a reserved field is not zero";
	if (p->space >= (rules[p->type].space ? TWI_SPACE_COUNT : 1))
		return "the tag space is out of bounds";
	if ((p->flags & ~(rules[p->type].checksum ? TWI_OFI_CHECKSUM : 0)) != 0 ||
	    ((p->flags & TWI_OFI_CHECKSUM) == 0 && p->checksum != 0))
		return "the flags are not ones that this type can have";
	if (p->payload_bytes < rules[p->type].payload_min || p->payload_bytes > payload_max)
		return "the payload length is out of bounds";
	if (rules[p->type].seq ? p->seq > TWI_WIRE_U63_MAX : p->seq != 0)
		return "the sequence number is out of bounds";
	if (p->type == TWI_OFI_EAGER && p->value != 0 &&
	    (p->value <= p->payload_bytes || p->value > payload_max))
		return "the message's length is out of bounds";
	if (!rules[p->type].tag && p->tag != 0)
		return "the tag field is out of bounds";
	if (p->value < rules[p->type].value_min || p->value > rules[p->type].value_max)
		return p->type == TWI_OFI_AUTH ? "it is not Towline's, or of another version"
					       : "the value field is out of bounds";
	return NULL;
}

int twi_ofi_packet_get(const uint8_t *in, size_t bytes, uint32_t payload_max_bytes,
		       struct twi_ofi_packet *out, const char **fault_out)
{
	struct twi_ofi_packet p;
	uint64_t first, third;

	*fault_out = "it is shorter than a header";
	if (bytes < TWI_OFI_HEAD_BYTES)
		return TOW_EPROTOCOL;
	first = twi_get_le64(in);
	third = twi_get_le64(in + 16);
	p = (struct twi_ofi_packet){
		.type = (uint8_t)first,
		.space = first >> 8 & ((1u << SPACE_BITS) - 1),
		.flags = (uint8_t)(first >> 8) >> SPACE_BITS,
		.channel = (uint16_t)(first >> 16),
		.payload_bytes = (uint32_t)(first >> 32),
		.session = twi_get_le64(in + 8),
		.number = (uint32_t)third,
		.checksum = (uint32_t)(third >> 32),
		.seq = twi_get_le64(in + 24),
		.tag = twi_get_le64(in + 32),
		.value = twi_get_le64(in + 40),
	};
	*fault_out = judge_packet(&p, payload_max_bytes);
	if (*fault_out == NULL && p.payload_bytes != bytes - TWI_OFI_HEAD_BYTES)
		*fault_out = "the payload length is not the message's";
	if (*fault_out != NULL)
		return TOW_EPROTOCOL;
	*out = p;
	return TOW_OK;
}

static void put_bytes(uint8_t *out, const uint8_t *in, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		out[i] = in[i];
}

size_t twi_ofi_auth_put(uint8_t *out, uint64_t from, const struct twi_ofi_name *name,
			const uint8_t *auth, size_t auth_bytes)
{
	twi_put_le64(out, from);
	twi_put_le64(out + 8, (uint64_t)name->count | (uint64_t)auth_bytes << 16);
	twi_put_le64(out + 16, 0);
	put_bytes(out + TWI_OFI_AUTH_HEAD, name->bytes, name->count);
	put_bytes(out + TWI_OFI_AUTH_HEAD + name->count, auth, auth_bytes);
	return TWI_OFI_AUTH_HEAD + name->count + auth_bytes;
}

int twi_ofi_auth_get(const uint8_t *in, size_t bytes, struct twi_ofi_auth *out)
{
	uint64_t lengths;
	struct twi_ofi_auth a;

	if (bytes < TWI_OFI_AUTH_HEAD)
		return TOW_EPROTOCOL;
	lengths = twi_get_le64(in + 8);
	a = (struct twi_ofi_auth){
		.from = twi_get_le64(in),
		.name_bytes = (uint16_t)lengths,
		.auth_bytes = (uint16_t)(lengths >> 16),
		.name = in + TWI_OFI_AUTH_HEAD,
	};
	if (a.from == 0 || lengths >> 32 != 0 || twi_get_le64(in + 16) != 0 || a.name_bytes == 0 ||
	    a.name_bytes > TWI_OFI_NAME_MAX || a.auth_bytes > TWI_OFI_AUTH_MAX ||
	    bytes != (size_t)TWI_OFI_AUTH_HEAD + a.name_bytes + a.auth_bytes)
		return TOW_EPROTOCOL;
	a.auth = a.name + a.name_bytes;
	*out = a;
	return TOW_OK;
}

void twi_ofi_hello_put(uint8_t *out, const struct twi_ofi_hello *hello)
{
	twi_put_le64(out, hello->payload_max_bytes);
	twi_put_le64(out + 8, hello->credit_bytes);
	twi_put_le64(out + 16, hello->features);
	twi_put_le64(out + 24, TWI_OFI_MINOR);
}

int twi_ofi_hello_get(const uint8_t *in, struct twi_ofi_hello *out)
{
	uint64_t payload_max = twi_get_le64(in), credit = twi_get_le64(in + 8);
	uint64_t features = twi_get_le64(in + 16), last = twi_get_le64(in + 24);

	/* A field that only a newer minor version uses is ignored. */
	if (payload_max > TWI_OFI_PAYLOAD_MAX || payload_max < TWI_OFI_PAYLOAD_MIN ||
	    credit < twi_frame_cost(0) || credit > TWI_WIRE_CREDIT_MAX ||
	    !twi_features_valid(features) || ((uint16_t)last <= TWI_OFI_MINOR && last >> 16 != 0))
		return TOW_EPROTOCOL;
	*out = (struct twi_ofi_hello){
		.payload_max_bytes = (uint32_t)payload_max,
		.credit_bytes = credit,
		.features = features,
		.minor = (uint16_t)last,
	};
	return TOW_OK;
}

void twi_ofi_where_put(uint8_t *out, const struct twi_ofi_where *where)
{
	twi_put_le64(out, where->address);
	twi_put_le64(out + 8, where->key);
	twi_put_le64(out + 16, where->cell_address);
	twi_put_le64(out + 24, where->cell_key);
	twi_put_le64(out + 32, where->cell);
	twi_put_le64(out + 40, (where->tagged ? 1u : 0u) | (where->read ? 2u : 0u));
}

int twi_ofi_where_get(const uint8_t *in, uint64_t bytes, struct twi_ofi_where *out)
{
	struct twi_ofi_where w = {
		.address = twi_get_le64(in),
		.key = twi_get_le64(in + 8),
		.cell_address = twi_get_le64(in + 16),
		.cell_key = twi_get_le64(in + 24),
		.cell = twi_get_le64(in + 32),
	};
	uint64_t ways = twi_get_le64(in + 40);

	if (ways > 3)
		return TOW_EPROTOCOL;
	w.tagged = (ways & 1) != 0;
	w.read = (ways & 2) != 0;
	if (w.read ? w.cell == 0 || w.address > UINT64_MAX - bytes
		   : w.address != 0 || w.key != 0 || w.cell_address != 0 || w.cell_key != 0 ||
			     w.cell != 0)
		return TOW_EPROTOCOL;
	*out = w;
	return TOW_OK;
}
