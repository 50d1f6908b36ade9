/*
 * handle.c - packs the 128 bytes that NCCL carries from listen to connect. They hold the address of
 * the endpoint, the secret of the listen, and room for the stage of the connect.
 *
 *	0    magic      4 bytes
 *	4    kind       TEXT: the address as it is; PACKED: tow:// and digits of 6 bits
 *	5    length     characters of the address, or digits
 *	8    secret     8 bytes
 *	16   stage      the number of the comm that connects by this handle; 0: none does
 *	24   address    104 bytes
 *
 * A tow:// address can be as long as TOW_ADDRESS_MAX; its digits fit into 91 bytes. The stage is a
 * number and no pointer, because the bytes come from another process.
 */
#include "plugins/nccl/plugin.h"

#include <stdio.h>
#include <string.h>

#define MAGIC  0x314e5754u /* "TWN1" */
#define SCHEME "tow://"

enum handle_kind { TEXT = 1, PACKED = 2 };

struct handle {
	uint32_t magic;
	uint8_t kind;
	uint8_t length;
	uint16_t zero;
	uint64_t secret;
	uint64_t stage;
	uint8_t address[104];
};
_Static_assert(sizeof(struct handle) == NCCL_HANDLE_BYTES, "a handle is as long as NCCL's");

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* False: a character is no digit, or the text is too long. */
static bool pack_digits(struct handle *handle, const char *text)
{
	size_t count = strlen(text);

	if (count * 6 > sizeof(handle->address) * 8)
		return false;
	for (size_t i = 0; i < count; i++) {
		const char *digit = strchr(digits, text[i]);

		if (digit == NULL)
			return false;
		for (size_t bit = 0; bit < 6; bit++)
			if (((digit - digits) >> bit & 1) != 0)
				handle->address[(i * 6 + bit) / 8] |=
					(uint8_t)(1u << ((i * 6 + bit) % 8));
	}
	handle->kind = PACKED;
	handle->length = (uint8_t)count;
	return true;
}

static void unpack_digits(const struct handle *handle, char *out)
{
	for (size_t i = 0; i < handle->length; i++) {
		unsigned value = 0;

		for (size_t bit = 0; bit < 6; bit++)
			value |= (handle->address[(i * 6 + bit) / 8] >> ((i * 6 + bit) % 8) & 1u)
				 << bit;
		*out++ = digits[value];
	}
	*out = '\0';
}

enum nccl_result twn_handle_write(void *bytes, const char *address, uint64_t secret)
{
	struct handle handle = { .magic = MAGIC, .secret = secret };
	size_t length = strlen(address);

	if (strncmp(address, SCHEME, strlen(SCHEME)) != 0 ||
	    !pack_digits(&handle, address + strlen(SCHEME))) {
		if (length > sizeof(handle.address)) {
			twn_log(NCCL_LOG_WARN,
				"the address %s is longer than a handle has room for", address);
			return NCCL_INTERNAL_ERROR;
		}
		memset(handle.address, 0, sizeof(handle.address));
		memcpy(handle.address, address, length);
		handle.kind = TEXT;
		handle.length = (uint8_t)length;
	}
	memcpy(bytes, &handle, sizeof(handle));
	return NCCL_SUCCESS;
}

enum nccl_result twn_handle_read(const void *bytes, char address_out[TOW_ADDRESS_MAX],
				 uint64_t *secret_out)
{
	struct handle handle;

	memcpy(&handle, bytes, sizeof(handle));
	*secret_out = handle.secret;
	if (handle.magic == MAGIC && handle.kind == PACKED &&
	    handle.length * 6u <= sizeof(handle.address) * 8 &&
	    handle.length + sizeof(SCHEME) <= TOW_ADDRESS_MAX) {
		memcpy(address_out, SCHEME, sizeof(SCHEME));
		unpack_digits(&handle, address_out + strlen(SCHEME));
		return NCCL_SUCCESS;
	}
	if (handle.magic == MAGIC && handle.kind == TEXT &&
	    handle.length <= sizeof(handle.address)) {
		snprintf(address_out, TOW_ADDRESS_MAX, "%.*s", (int)handle.length,
			 (const char *)handle.address);
		return NCCL_SUCCESS;
	}
	twn_log(NCCL_LOG_WARN, "the handle is from another plugin or another version of this "
			       "one: all ranks must use the same");
	return NCCL_INVALID_USAGE;
}

uint64_t twn_handle_stage(const void *bytes)
{
	struct handle handle;

	memcpy(&handle, bytes, sizeof(handle));
	return handle.stage;
}

void twn_handle_set_stage(void *bytes, uint64_t stage)
{
	memcpy((char *)bytes + offsetof(struct handle, stage), &stage, sizeof(stage));
}
