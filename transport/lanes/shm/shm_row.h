/*
 * shm_row.h - what a side knows of an offer: of one that it has made, and of one of the other
 * side's. A peer has a row of each for each number of an offer (shm.h).
 */
#ifndef TWI_SHM_ROW_H
#define TWI_SHM_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/message/inbox.h"
#include "transport/op/lane_host.h"

#define TWI_SHM_PIECES 4u /* of one message that the receiver has not taken */

enum twi_shm_offer_use {
	TWI_SHM_UNUSED,
	TWI_SHM_OPEN,
	TWI_SHM_SETTLED, /* its operation ended by the word; the record is still to come */
	TWI_SHM_REVOKED, /* the sender took it back; GONE is still to come */
	TWI_SHM_IN_VIEW, /* complete; the receiver still has a view of the memory */
};

/* The sender's state of one of its offers. */
struct twi_shm_offer {
	struct twi_list link;   /* on peer->staging, or on peer->revoked */
	struct tow_op *op;      /* set while OPEN, and IN_VIEW if it awaits the view's end */
	struct twi_claim claim; /* SETTLED, IN_VIEW: the lease on the memory */
	uint32_t generation;
	uint8_t use;
	bool wanted;                  /* the receiver wants it in pieces */
	bool asked;                   /* it could read them by itself (shm_help.c) */
	bool plain;                   /* the memory can be read; it was looked at */
	uint64_t staged;              /* bytes copied into pieces */
	void *pieces[TWI_SHM_PIECES]; /* staging chunks that the receiver has not taken yet */
	unsigned piece_count;
	uint16_t next_free;
};

/* An offer of the other side. */
struct twi_shm_incoming {
	struct twi_unexpected arrival;
	struct twi_list link; /* on peer->copying, or on peer->helped */
	struct tow_op *op;    /* set once matched */
	uint64_t where, copied;
	uint64_t came_bytes; /* bytes of all pieces so far */
	uint64_t read_from;  /* helped: from here on all bytes are there */
	uint32_t extent, generation;
	uint8_t type; /* enum twi_shm_type */
	bool used;
	bool wanted;      /* it comes in pieces */
	bool helped;      /* and from the end by process_vm_readv (shm_help.c) */
	bool dropping;    /* pieces that come are of no use: a receive was taken back meanwhile */
	bool pieces_only; /* process_vm_readv fails */
	bool summed;
	uint8_t unanswered; /* dropping: pieces that were not reported as taken */
	bool unreadable;    /* the sender took it back because its memory is bad */
	uint32_t told, sum; /* checksum by the sender; of the bytes so far */
};

/* How many bytes of a matched offer go into memory. The rest is dropped (op->truncate). */
static inline uint64_t twi_shm_takes(const struct twi_shm_incoming *incoming)
{
	return twi_min(incoming->arrival.bytes, incoming->op->bytes);
}

#endif
