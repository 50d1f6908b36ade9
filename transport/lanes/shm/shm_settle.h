/*
 * shm_settle.h - the end of an incoming offer: one compare-and-swap on its word, which its sender
 * may have taken back before, and a note about it.
 */
#ifndef TWI_SHM_SETTLE_H
#define TWI_SHM_SETTLE_H

#include "transport/lanes/shm/shm.h"

static inline uint16_t twi_shm_index_of(const struct twi_shm_peer *peer,
					const struct twi_shm_incoming *incoming)
{
	return (uint16_t)(incoming - peer->incoming);
}

/* Says so about it. */
void twi_shm_incoming_note(struct twi_shm_peer *peer, const struct twi_shm_incoming *incoming,
			   enum twi_shm_note_kind kind);

/* The row is free. */
void twi_shm_forget(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming);

/* Changes the offer's word; false when its sender has taken it back, and it is GONE then. */
bool twi_shm_settle(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
		    enum twi_shm_state state, enum twi_shm_note_kind kind);

/*
 * The sender has taken back what the receive had met: it waits on, or ends where that was nobody's
 * wish.
 */
void twi_shm_gone(struct twi_shm_peer *peer, const struct twi_shm_incoming *incoming,
		  struct tow_op *op);

/* The offer is refused, and the receive ends with `status`; unless it is gone anyway. */
void twi_shm_refuse(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming, struct tow_op *op,
		    int status);

/* The memory of its receive, from `from` on, cannot be written. */
void twi_shm_unwritable(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
			uint64_t from);

/* shm_recv.c, for shm_copy.c: all bytes are there; it must come in pieces. */
void twi_shm_commit(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming);
void twi_shm_want(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming);

#endif
