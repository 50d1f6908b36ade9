/*
 * stripe.h - which bytes of a large message go on which channel.
 *
 * Both sides cut a message into slices alike, from its seq, its length and the number of channels.
 * What one channel carries is its stripe: slices in the order of the message, behind each other,
 * and a commit. The first slices are given to the channels in turn, one to each; the others, where
 * there are any, each to the channel that is through with what it has, and its header tells the
 * receiver.
 *
 *	0 | 1 | 2 | 2 | 1 | 2 | 2 | 0     a message of at least count * 1 MiB: who carries which
 *	0     | 1     | 2                 likewise, without slices that are given by and by
 *	1                                 a smaller one, whose seq % 3 is 1
 *
 * A slice stays with the channel that it was given to, also when its connection breaks: then it
 * comes over the next one (session_resume.c).
 */
#ifndef TWI_STRIPE_H
#define TWI_STRIPE_H

#include "transport/stream/grant.h"

struct twi_session_config;

/* Writes how the message is cut: all of the grant's members that say so, and `open`. */
void twi_stripes_cut(const struct twi_session_config *config, struct twi_grant *grant);

/* A stripe on several channels, or of one of several slices: what the functions below come to. */
uint64_t twi_stripe_slices_bytes(const struct twi_grant *grant, unsigned c);
uint64_t twi_stripe_slices_at(const struct twi_grant *grant, unsigned c, uint64_t at,
			      uint64_t *left_out);

static inline bool twi_stripe_on(const struct twi_grant *grant, unsigned c)
{
	return c >= grant->first && c - grant->first < grant->count;
}

/* How long the stripe of channel c is, by the slices that it has been given up to now. */
static inline uint64_t twi_stripe_bytes(const struct twi_grant *grant, unsigned c)
{
	return grant->slices == 1 ? grant->bytes : twi_stripe_slices_bytes(grant, c);
}

/*
 * Where byte `at` of the stripe lies in the message; *left_out: how many bytes from it on belong to
 * the same slice, 0 at the end of the last one.
 */
static inline uint64_t twi_stripe_at(const struct twi_grant *grant, unsigned c, uint64_t at,
				     uint64_t *left_out)
{
	if (grant->slices > 1)
		return twi_stripe_slices_at(grant, c, at, left_out);
	*left_out = grant->bytes - at;
	return at;
}

/* Where in the message the channel stands: behind what it has moved. */
static inline uint64_t twi_stripe_place(const struct twi_grant *grant, unsigned c)
{
	uint64_t left;

	return twi_stripe_at(grant, c, grant->at[c], &left);
}

/* Sending: the channel gets the next slice that no channel has. False: there is none. */
bool twi_stripe_take(struct twi_grant *grant, unsigned c);

/*
 * Receiving: the peer has given the slice that begins at `offset` to the channel. False: it cannot
 * have: none begins there, a channel has it, or it lies before what this channel has had.
 */
bool twi_stripe_given(struct twi_grant *grant, unsigned c, uint64_t offset);

/* Whether each slice has a channel: no stripe grows any more. */
bool twi_stripes_final(const struct twi_grant *grant);

/* Whether the commit is what comes next on the channel. */
static inline bool twi_stripe_through(const struct twi_grant *grant, unsigned c)
{
	return grant->at[c] == twi_stripe_bytes(grant, c) && twi_stripes_final(grant);
}

#endif
