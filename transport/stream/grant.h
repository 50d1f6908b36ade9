/*
 * grant.h - what a session keeps, in both directions, of each large message on its way and of each
 * bulk channel. session.h explains the whole, stripe.h how messages are cut.
 */
#ifndef TWI_GRANT_H
#define TWI_GRANT_H

#include "transport/wire/frame.h"

struct tow_op;

#define TWI_GRANTS_MAX 64
#define TWI_READY_MAX  16 /* large messages that are sent unasked */
#define TWI_LARGE_MAX  (TWI_GRANTS_MAX + TWI_READY_MAX)
#define TWI_SLICES_MAX 64                 /* of one message */
#define TWI_EARLY_MAX  (6 * TWI_BULK_MAX) /* see session_early.c */

/*
 * A large message on its way. A receiver has one for each message that it asked for, a sender for
 * each that the peer asked for. stripe.h says which bytes go on which channel.
 */
struct twi_grant {
	struct tow_op *op; /* NULL: taken back; the bytes are dropped here, or an ABORT is due */
	uint64_t seq;
	uint64_t tag;
	uint64_t bytes;
	uint64_t slice_bytes;
	uint64_t given[TWI_BULK_MAX]; /* bit i: slice i belongs to the channel */
	uint8_t slices;
	uint8_t first, count; /* channels */
	uint8_t open;         /* bit c: its end on channel c has not come, or is not out */
	bool used;
	bool sum;                  /* its commits carry checksums */
	bool ready;                /* sent unasked */
	bool spoiled;              /* receiving: a stripe was aborted */
	bool corrupt;              /* receiving: a checksum differs */
	bool faulted;              /* receiving: the sender cannot read its memory */
	uint64_t at[TWI_BULK_MAX]; /* bytes moved, by channel */
	uint64_t summed[TWI_BULK_MAX];
	uint32_t crc[TWI_BULK_MAX]; /* of the first `summed` bytes of the stripe */
};

/* One bulk channel, both directions. */
struct twi_bulk_channel {
	bool broken;
	/* sending */
	bool handed;           /* the lane has bytes of `out`, and _sent has not come yet */
	uint64_t handed_bytes; /* of its payload */
	bool out_padding;      /* `out` was taken back: the rest of the chunk is zeros */
	struct twi_grant *out; /* the message whose chunk or commit is on its way */
	uint64_t out_left;     /* payload bytes of the chunk */
	uint32_t out_head_left, out_tail_left;
	uint8_t out_head[TWI_FRAME_BYTES];
	uint8_t out_tail[TWI_FRAME_BYTES]; /* the commit, behind the last byte of the stripe */
	uint8_t queue[TWI_LARGE_MAX];      /* indices in session->sends, in order */
	uint8_t queue_count;
	uint8_t stale_count;
	uint64_t stale[2 * TWI_LARGE_MAX]; /* aborts to send again, because they were lost */

	/* receiving */
	uint32_t in_fill;
	struct twi_grant *in;
	uint64_t in_left;
	unsigned stale_allowed; /* aborts that may come for messages of our last record */
	bool in_waits;          /* a whole header is here, but its offer is not */
	uint8_t in_head[2 * TWI_FRAME_BYTES]; /* a commit, and the header behind it */
};

/* An answer about bytes that the lane may or may not have sent. */
struct twi_early {
	struct twi_frame frame;
	uint64_t came_ns;
};

#endif
