/*
 * stripe.c - see stripe.h.
 */
#include "transport/stream/stripe.h"

#include <internal/base.h>

#include "transport/stream/session.h"

#define SLICES_EACH 4u /* at least so many for each channel, if slices are given later */

_Static_assert(TWI_SLICES_MAX == 64, "the masks of a grant have a bit for each");
_Static_assert(TWI_SLICES_MAX >= SLICES_EACH * TWI_BULK_MAX, "each channel has a first one");

static uint64_t divide_up(uint64_t bytes, uint64_t by)
{
	return bytes / by + (bytes % by != 0);
}

/* All slices have the length of the first one, except the last, which is not empty. */
static void cut_slices(struct twi_grant *grant, uint64_t slice_bytes)
{
	grant->slice_bytes = slice_bytes;
	grant->slices = (uint8_t)divide_up(grant->bytes, slice_bytes);
}

void twi_stripes_cut(const struct twi_session_config *config, struct twi_grant *grant)
{
	uint64_t least = config->stripe_bytes, align = twi_max(least / 16, 1);
	unsigned channels = config->bulk_count;

	grant->first = 0;
	grant->count = 1;
	if (twi_likely(channels == 1) || grant->bytes / channels < least) {
		grant->first = (uint8_t)(grant->seq % channels);
		cut_slices(grant, grant->bytes);
	} else if (config->slices) {
		uint64_t share = divide_up(grant->bytes, TWI_SLICES_MAX);

		grant->count = (uint8_t)channels;
		share = divide_up(twi_max(share, least / SLICES_EACH), align) * align;
		cut_slices(grant, share);
	} else {
		/* if there are few bytes for each, the last channels may have none */
		cut_slices(grant, (grant->bytes / channels / align + 1) * align);
		grant->count = grant->slices;
	}
	grant->open = (uint8_t)(((1u << grant->count) - 1) << grant->first);
	for (unsigned i = 0; i < grant->count; i++)
		grant->given[grant->first + i] = 1ull << i;
}

/* The message's last slice may be shorter. It is also the last of its stripe. */
uint64_t twi_stripe_slices_bytes(const struct twi_grant *grant, unsigned c)
{
	const uint64_t given = grant->given[c], last = 1ull << (grant->slices - 1);
	uint64_t bytes = (uint64_t)__builtin_popcountll(given) * grant->slice_bytes;

	if ((given & last) != 0)
		bytes -= grant->slices * grant->slice_bytes - grant->bytes;
	return bytes;
}

uint64_t twi_stripe_slices_at(const struct twi_grant *grant, unsigned c, uint64_t at,
			      uint64_t *left_out)
{
	uint64_t given = grant->given[c], before = at / grant->slice_bytes, begin;
	const uint64_t within = at % grant->slice_bytes;

	*left_out = 0;
	if (at == twi_stripe_slices_bytes(grant, c)) {
		begin = (uint64_t)(63 - __builtin_clzll(given)) * grant->slice_bytes;
		return twi_min(begin + grant->slice_bytes, grant->bytes);
	}
	while (before-- > 0)
		given &= given - 1;
	begin = (uint64_t)__builtin_ctzll(given) * grant->slice_bytes;
	*left_out = twi_min(grant->slice_bytes, grant->bytes - begin) - within;
	return begin + within;
}

static uint64_t given_slices(const struct twi_grant *grant)
{
	uint64_t given = 0;

	for (unsigned c = grant->first; c < (unsigned)grant->first + grant->count; c++)
		given |= grant->given[c];
	return given;
}

bool twi_stripe_take(struct twi_grant *grant, unsigned c)
{
	const uint64_t given = given_slices(grant);
	/* Slices are given in the order of the message: those that are given are the first ones. */
	const unsigned next = (unsigned)__builtin_popcountll(given);

	twi_assert((given & (given + 1)) == 0);
	if (next == grant->slices)
		return false;
	grant->given[c] |= 1ull << next;
	return true;
}

bool twi_stripe_given(struct twi_grant *grant, unsigned c, uint64_t offset)
{
	const uint64_t next = offset / grant->slice_bytes;
	uint64_t bit;

	if (offset % grant->slice_bytes != 0 || next >= grant->slices)
		return false;
	bit = 1ull << next;
	if (bit < grant->given[c] || (given_slices(grant) & bit) != 0)
		return false;
	grant->given[c] |= bit;
	return true;
}

bool twi_stripes_final(const struct twi_grant *grant)
{
	return grant->slices == grant->count ||
	       (unsigned)__builtin_popcountll(given_slices(grant)) == grant->slices;
}
