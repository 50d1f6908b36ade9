/*
 * sized.c - copies public structs between the caller's size and the library's. See sized.h.
 */
#include <stdint.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/base/sized.h"

/* A larger size is not a size but uninitialised memory. */
#define SIZE_MAX_BYTES 65536

/* All structs end at a multiple of this, so the end never cuts a member of 8 bytes in two. */
#define SIZE_STEP_BYTES sizeof(size_t)

#define INITIAL(type, init) static const struct type initial_##type = init;
TWI_SIZED_IN_MAP(INITIAL)
#undef INITIAL

static const struct twi_sized_info kinds[] = {
#define KIND_IN(type, init)                                                                        \
	[TWI_SIZED_##type] = { #type, #init, &initial_##type, sizeof(struct type) },
#define KIND_OUT(type, init) [TWI_SIZED_##type] = { #type, #init, NULL, sizeof(struct type) },
	TWI_SIZED_IN_MAP(KIND_IN) TWI_SIZED_OUT_MAP(KIND_OUT)
#undef KIND_IN
#undef KIND_OUT
};

const struct twi_sized_info *twi_sized_describe(enum twi_sized which)
{
	return &kinds[which];
}

static int check_size(const struct twi_sized_info *kind, const char *call, size_t size)
{
	if (size >= SIZE_STEP_BYTES && size <= SIZE_MAX_BYTES && size % SIZE_STEP_BYTES == 0)
		return TOW_OK;
	return twi_error(TOW_EINVAL,
			 "%s: the size of struct %s is %zu, which no header has set; begin with %s",
			 call, kind->name, size, kind->init);
}

/* Do the 4 bytes at `at` belong to an unset member? */
static bool is_unset(const unsigned char *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return word == 0 || word == UINT32_MAX;
}

int twi_sized_adapt(enum twi_sized which, const char *call, const void *in, void *known)
{
	const struct twi_sized_info *kind = &kinds[which];
	const unsigned char *bytes = in;
	size_t size;
	int status;

	memcpy(&size, in, sizeof(size));
	status = check_size(kind, call, size);
	if (status < 0)
		return status;
	for (size_t at = kind->bytes; at < size; at += 4) {
		if (!is_unset(bytes + at))
			return twi_error(TOW_EINVAL,
					 "%s: struct %s has %zu bytes, of which this library knows "
					 "%zu, and a member at byte %zu is set: the program was "
					 "built for a newer libtowline; install that one, or leave "
					 "the member unset",
					 call, kind->name, size, kind->bytes, at);
	}
	memcpy(known, kind->initial, kind->bytes);
	memcpy(known, in, twi_min(size, kind->bytes));
	memcpy(known, &kind->bytes, sizeof(kind->bytes));
	return TOW_OK;
}

int twi_sized_check_out(enum twi_sized which, const char *call, const void *out)
{
	const struct twi_sized_info *kind = &kinds[which];
	size_t size;

	if (out == NULL)
		return twi_error(TOW_EINVAL, "%s: the struct %s to write to is NULL", call,
				 kind->name);
	memcpy(&size, out, sizeof(size));
	return check_size(kind, call, size);
}

int twi_sized_give(enum twi_sized which, const char *call, const void *known, void *out)
{
	const struct twi_sized_info *kind = &kinds[which];
	int status = twi_sized_check_out(which, call, out);
	size_t size;

	if (status < 0)
		return status;
	memcpy(&size, out, sizeof(size));
	memcpy((char *)out + sizeof(size), (const char *)known + sizeof(size),
	       twi_min(size, kind->bytes) - sizeof(size));
	if (size > kind->bytes)
		memset((char *)out + kind->bytes, 0, size - kind->bytes);
	return TOW_OK;
}
