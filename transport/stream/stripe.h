/*
 * stripe.h - which bytes of a large message go on which channel.
 *
 * Both sides cut a message into slices in the same way, from its seq, its length and the number of
 * channels. A channel carries a stripe: some slices in the order of the message, and a commit
 * behind them. The first slices are given to the channels in turn, one to each. Each other slice is
 * given to a channel that has sent all that it had; the header of the slice informs the receiver.
 *
 *	0 | 1 | 2 | 2 | 1 | 2 | 2 | 0     a message of at least count * 1 MiB: channel of each slice
 *	0     | 1     | 2                 the same, without slices that are given later
 *	1                                 a smaller one, whose seq % 3 is 1
 *
 * A slice stays with its channel, also when the connection breaks. Then it comes over the next
 * connection (session_resume.c).
 */
#ifndef TWI_STRIPE_H
#define TWI_STRIPE_H

#include "transport/stream/grant.h"

struct twi_session_config;

/* Cuts the message: sets the grant's members for slices and channels, and `open`. */
void twi_stripes_cut(const struct twi_session_config *config, struct twi_grant *grant);

/* The general case of the two functions below: a message of several slices. */
uint64_t twi_stripe_slices_bytes(const struct twi_grant *grant, unsigned c);
uint64_t twi_stripe_slices_at(const struct twi_grant *grant, unsigned c, uint64_t at,
			      uint64_t *left_out);

static inline bool twi_stripe_on(const struct twi_grant *grant, unsigned c)
{
	return c >= grant->first && c - grant->first < grant->count;
}

/* The length of the stripe of channel c, by the slices that it has been given up to now. */
static inline uint64_t twi_stripe_bytes(const struct twi_grant *grant, unsigned c)
{
	return grant->slices == 1 ? grant->bytes : twi_stripe_slices_bytes(grant, c);
}

/*
 * Where byte `at` of the stripe lies in the message. *left_out: how many bytes from there on belong
 * to the same slice; 0 at the end of the last slice.
 */
static inline uint64_t twi_stripe_at(const struct twi_grant *grant, unsigned c, uint64_t at,
				     uint64_t *left_out)
{
	if (grant->slices > 1)
		return twi_stripe_slices_at(grant, c, at, left_out);
	*left_out = grant->bytes - at;
	return at;
}

/* Where the channel stands in the message: behind the bytes that it has moved. */
static inline uint64_t twi_stripe_place(const struct twi_grant *grant, unsigned c)
{
	uint64_t left;

	return twi_stripe_at(grant, c, grant->at[c], &left);
}

/* Sending: gives the channel the next slice that no channel has. False: there is none. */
bool twi_stripe_take(struct twi_grant *grant, unsigned c);

/*
 * Receiving: the peer has given the slice that begins at `offset` to the channel. False: that is
 * impossible. No slice begins there, a channel has it, or it lies before a slice of this channel.
 */
bool twi_stripe_given(struct twi_grant *grant, unsigned c, uint64_t offset);

/* Has each slice a channel? Then no stripe grows any more. */
bool twi_stripes_final(const struct twi_grant *grant);

/* Is the commit next on the channel? */
static inline bool twi_stripe_through(const struct twi_grant *grant, unsigned c)
{
	return grant->at[c] == twi_stripe_bytes(grant, c) && twi_stripes_final(grant);
}

#endif
