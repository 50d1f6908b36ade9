/*
 * auto_address.c - writing and reading tow:// addresses. See auto_address.h.
 */
#include "transport/lanes/auto/auto_address.h"

#include <stdio.h>
#include <string.h>

#include "diag/base/checksum.h"
#include "diag/base/error.h"

#define HEAD_BYTES 9u
#define CRC_BYTES  2u

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

struct raw {
	uint8_t bytes[TWI_AUTO_BYTES_MAX];
	size_t fill;
	bool full; /* something did not fit */
};

static void put_u8(struct raw *raw, unsigned value)
{
	if (raw->fill < sizeof(raw->bytes))
		raw->bytes[raw->fill++] = (uint8_t)value;
	else
		raw->full = true;
}

static void put_bytes(struct raw *raw, const void *data, size_t bytes)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++)
		put_u8(raw, at[i]);
}

static void put_u16(struct raw *raw, unsigned value)
{
	put_u8(raw, value >> 8);
	put_u8(raw, value & 0xff);
}

bool twi_auto_address_has(const struct twi_auto_address *address, enum twi_lane_id lane)
{
	const struct twi_auto_part *part = &address->parts[lane];

	switch (twi_lane_describe(lane)->form) {
	case TWI_FORM_NAME:
		return part->name[0] != '\0';
	case TWI_FORM_INET:
		return part->in4_count + part->in6_count > 0;
	case TWI_FORM_RAW:
		return part->raw_bytes > 0;
	case TWI_FORM_NONE:
		break;
	}
	return false;
}

static void put_name(struct raw *raw, unsigned type, const char *name)
{
	size_t bytes = strnlen(name, TWI_AUTO_NAME_MAX - 1);

	if (bytes == 0)
		return;
	put_u8(raw, type);
	put_u8(raw, (unsigned)bytes);
	put_bytes(raw, name, bytes);
}

static void put_inet(struct raw *raw, unsigned type, uint16_t port, const void *addresses,
		     unsigned bytes)
{
	if (bytes == 0)
		return;
	put_u8(raw, type);
	put_u8(raw, 2 + bytes);
	put_u16(raw, port);
	put_bytes(raw, addresses, bytes);
}

static void put_raw(struct raw *raw, unsigned type, const struct twi_auto_part *part)
{
	size_t name = strnlen(part->name, TWI_AUTO_NAME_MAX - 1);

	if (part->raw_bytes == 0)
		return;
	put_u8(raw, type);
	put_u8(raw, (unsigned)(1 + name + part->raw_bytes));
	put_u8(raw, (unsigned)name);
	put_bytes(raw, part->name, name);
	put_bytes(raw, part->raw, part->raw_bytes);
}

static void put_part(struct raw *raw, const struct twi_lane_info *lane,
		     const struct twi_auto_part *part)
{
	switch (lane->form) {
	case TWI_FORM_NAME:
		put_name(raw, lane->part, part->name);
		return;
	case TWI_FORM_INET:
		put_inet(raw, lane->part, part->in4_port, part->in4, 4u * part->in4_count);
		put_inet(raw, lane->part + 1u, part->in6_port, part->in6, 16u * part->in6_count);
		return;
	case TWI_FORM_RAW:
		put_raw(raw, lane->part, part);
		return;
	case TWI_FORM_NONE:
		return;
	}
}

static void put_all(struct raw *raw, const struct twi_auto_address *address)
{
	*raw = (struct raw){ .fill = 0 };
	put_u8(raw, TWI_AUTO_VERSION);
	for (int shift = 56; shift >= 0; shift -= 8)
		put_u8(raw, (unsigned)(address->host >> shift & 0xff));
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++)
		put_part(raw, twi_lane_describe((enum twi_lane_id)i), &address->parts[i]);
	put_u16(raw, twi_checksum(0, raw->bytes, raw->fill) & 0xffff);
}

/* Makes a part smaller; way 0 costs least. False: this way cannot make the part smaller. */
static bool shrink_part(struct twi_auto_part *part, unsigned way)
{
	switch (way) {
	case 0:
		return part->in4_count > 2 && part->in4_count--;
	case 1:
		return part->in6_count > 1 && part->in6_count--;
	case 2:
		return part->in4_count > 1 && part->in4_count--;
	case 3:
		if (part->raw_bytes == 0)
			return false;
		part->raw_bytes = 0;
		return true;
	default:
		if (part->in6_count == 0 || part->in4_count == 0)
			return false;
		part->in6_count = 0;
		return true;
	}
}

/* Takes the least useful piece out. False: there is none left that could go. */
static bool shrink_address(struct twi_auto_address *address)
{
	for (unsigned way = 0; way < 5; way++) {
		for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
			if (shrink_part(&address->parts[i], way))
				return true;
		}
	}
	return false;
}

static void encode_raw(const struct raw *raw, char *out)
{
	uint32_t bits = 0;
	unsigned have = 0;

	for (size_t i = 0; i < raw->fill; i++) {
		bits = (bits << 8 | raw->bytes[i]) & 0xffff;
		for (have += 8; have >= 6; have -= 6)
			*out++ = digits[bits >> (have - 6) & 63];
	}
	if (have > 0)
		*out++ = digits[bits << (6 - have) & 63];
	*out = '\0';
}

int twi_auto_address_put(struct twi_auto_address *address, char out[TOW_ADDRESS_MAX])
{
	struct raw raw;

	put_all(&raw, address);
	while (raw.full) {
		if (!shrink_address(address))
			return twi_error(TOW_EINVAL, "a tow:// address has no room for its names");
		put_all(&raw, address);
	}
	snprintf(out, TOW_ADDRESS_MAX, "tow://");
	encode_raw(&raw, out + 6);
	return TOW_OK;
}

static int bad_address(const char *text, const char *why)
{
	return twi_error(TOW_EINVAL,
			 "address tow://%.100s: %s; use the whole address that "
			 "tow_endpoint_address gives",
			 text, why);
}

/* NULL, or what is wrong. For given bytes one text is accepted, and no other. */
static const char *decode_raw(const char *text, struct raw *raw)
{
	uint32_t bits = 0;
	unsigned have = 0;

	raw->fill = 0;
	for (; *text != '\0'; text++) {
		const char *digit = strchr(digits, *text);

		if (digit == NULL)
			return "it has a character other than A-Z a-z 0-9 - _";
		bits = (bits << 6 | (uint32_t)(digit - digits)) & 0xffff;
		have += 6;
		if (have < 8)
			continue;
		have -= 8;
		if (raw->fill == sizeof(raw->bytes))
			return "it is too long";
		raw->bytes[raw->fill++] = (uint8_t)(bits >> have);
	}
	if (have >= 6 || (bits & ((1u << have) - 1)) != 0)
		return "it was cut or changed";
	return NULL;
}

static const char *get_name(char out[TWI_AUTO_NAME_MAX], const uint8_t *at, size_t bytes)
{
	if (bytes == 0 || bytes >= TWI_AUTO_NAME_MAX)
		return "a name's length is out of range";
	for (size_t i = 0; i < bytes; i++) {
		if (at[i] <= ' ' || at[i] >= 127 || at[i] == '/')
			return "a name has a character that is not allowed";
		out[i] = (char)at[i];
	}
	out[bytes] = '\0';
	return NULL;
}

/* Reads a port, and at most `max` addresses of `size` bytes each. */
static const char *get_inet(const uint8_t *at, size_t bytes, size_t size, size_t max,
			    uint16_t *port_out, uint8_t *count_out, uint8_t *out)
{
	if (bytes < 2 + size || (bytes - 2) % size != 0 || bytes - 2 > max * size)
		return "a list of IP addresses has a wrong length";
	*port_out = (uint16_t)(at[0] << 8 | at[1]);
	if (*port_out == 0)
		return "a port is 0";
	*count_out = (uint8_t)((bytes - 2) / size);
	for (size_t i = 2; i < bytes; i++)
		out[i - 2] = at[i];
	return NULL;
}

static const char *get_raw(struct twi_auto_part *out, const uint8_t *at, size_t bytes)
{
	size_t name = bytes > 0 ? at[0] : 0;

	if (name == 0 || name >= TWI_AUTO_NAME_MAX || bytes < name + 2 ||
	    bytes - name - 1 > TWI_AUTO_RAW_MAX)
		return "a provider's part has a wrong length";
	for (size_t i = 0; i < name; i++) {
		if (at[1 + i] <= ' ' || at[1 + i] >= 127 || at[1 + i] == '/' || at[1 + i] == '@')
			return "a provider's name has a character that is not allowed";
		out->name[i] = (char)at[1 + i];
	}
	out->name[name] = '\0';
	out->raw_bytes = (uint8_t)(bytes - name - 1);
	for (size_t i = 0; i < out->raw_bytes; i++)
		out->raw[i] = at[1 + name + i];
	return NULL;
}

/* Reads a part. A type that no lane here has is of a later version, or of another build. */
static const char *get_part(struct twi_auto_address *out, unsigned type, const uint8_t *at,
			    size_t bytes)
{
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		const struct twi_lane_info *lane = twi_lane_describe((enum twi_lane_id)i);
		struct twi_auto_part *part = &out->parts[i];

		if (lane->form == TWI_FORM_NAME && type == lane->part)
			return get_name(part->name, at, bytes);
		if (lane->form == TWI_FORM_RAW && type == lane->part)
			return get_raw(part, at, bytes);
		if (lane->form == TWI_FORM_INET && type == lane->part)
			return get_inet(at, bytes, 4, TWI_AUTO_IN4_MAX, &part->in4_port,
					&part->in4_count, part->in4[0]);
		if (lane->form == TWI_FORM_INET && type == lane->part + 1u)
			return get_inet(at, bytes, 16, TWI_AUTO_IN6_MAX, &part->in6_port,
					&part->in6_count, part->in6[0]);
	}
	return NULL;
}

static const char *get_parts(struct twi_auto_address *out, const uint8_t *at, size_t left)
{
	uint64_t seen[4] = { 0 };

	while (left > 0) {
		unsigned type = at[0];
		size_t bytes = left > 1 ? at[1] : 0;
		const char *why;

		if (left < 2 + bytes)
			return "a part of it is cut";
		if ((seen[type / 64] & 1ull << type % 64) != 0)
			return "a part of it is there twice";
		seen[type / 64] |= 1ull << type % 64;
		why = get_part(out, type, at + 2, bytes);
		if (why != NULL)
			return why;
		at += 2 + bytes;
		left -= 2 + bytes;
	}
	return NULL;
}

int twi_auto_address_get(const char *text, struct twi_auto_address *out)
{
	struct raw raw;
	const char *why = decode_raw(text, &raw);
	size_t body;
	unsigned crc;

	*out = (struct twi_auto_address){ 0 };
	if (why != NULL)
		return bad_address(text, why);
	if (raw.fill < HEAD_BYTES + CRC_BYTES)
		return bad_address(text, "it is too short");
	body = raw.fill - CRC_BYTES;
	crc = (unsigned)raw.bytes[body] << 8 | raw.bytes[body + 1];
	if ((twi_checksum(0, raw.bytes, body) & 0xffff) != crc)
		return bad_address(text, "it was cut or changed");
	if (raw.bytes[0] != TWI_AUTO_VERSION)
		return bad_address(text, "it is of another version of this library");
	for (unsigned i = 1; i < HEAD_BYTES; i++)
		out->host = out->host << 8 | raw.bytes[i];
	why = get_parts(out, raw.bytes + HEAD_BYTES, body - HEAD_BYTES);
	return why == NULL ? TOW_OK : bad_address(text, why);
}
