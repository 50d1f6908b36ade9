/*
 * shm_settle.h - the end of an incoming offer: one compare-and-swap on its word, and a control
 * record about it. The sender may have taken the offer back before.
 */
#ifndef TWI_SHM_SETTLE_H
#define TWI_SHM_SETTLE_H

#include "transport/lanes/shm/shm.h"

static inline uint16_t twi_shm_index_of(const struct twi_shm_peer *peer,
					const struct twi_shm_incoming *incoming)
{
	return (uint16_t)(incoming - peer->incoming);
}

/* Sends a control record about the offer. */
void twi_shm_incoming_note(struct twi_shm_peer *peer, const struct twi_shm_incoming *incoming,
			   enum twi_shm_note_kind kind);

/* Frees the row of the offer. */
void twi_shm_forget(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming);

/*
 * Changes the offer's word and reports `kind`. If the sender took the offer back, reports GONE
 * instead and returns false.
 */
bool twi_shm_settle(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
		    enum twi_shm_state state, enum twi_shm_note_kind kind);

/*
 * The sender has taken back the offer that a receive had met. The receive waits for the next
 * message, or ends if the reason was the sender's bad memory.
 */
void twi_shm_gone(struct twi_shm_peer *peer, const struct twi_shm_incoming *incoming,
		  struct tow_op *op);

/* Refuses the offer and ends the receive with `status`, unless the sender took the offer back. */
void twi_shm_refuse(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming, struct tow_op *op,
		    int status);

/* Ends an offer because its receive's memory cannot be written from offset `from` on. */
void twi_shm_unwritable(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
			uint64_t from);

#define TWI_SHM_HELP_MIN_BYTES (64 << 10) /* shorter messages are read without help */

/*
 * shm_help.c. ask: a matched offer whose memory can be read; false: it is copied without help.
 * came: `bytes` of a piece of it have been copied since begun_ns. work: reads a part if pieces stay
 * away. alone: reading failed, so pieces have to bring it. commit: all of it is there. lost: ends
 * the receive if nothing can bring it any more. give: what a record WANTED asks of the sender;
 * false: it is out of place.
 */
bool twi_shm_help_ask(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming);
void twi_shm_help_came(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
		       uint64_t begun_ns, uint64_t bytes);
unsigned twi_shm_help_work(struct twi_shm_peer *peer);
void twi_shm_help_alone(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming);
void twi_shm_help_commit(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming);
void twi_shm_help_lost(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming);
bool twi_shm_help_give(struct twi_shm_peer *peer, struct twi_shm_offer *offer,
		       const struct twi_shm_remark *remark);

/* shm_recv.c, for shm_copy.c. commit: all bytes have come. want: the offer must come in pieces. */
void twi_shm_commit(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming);
void twi_shm_want(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming);

#endif
