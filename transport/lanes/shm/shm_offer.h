/*
 * shm_offer.h - the word of an offer: 0 free, else generation and state. The one place of the
 * shared memory that both sides write, by compare-and-swap, so that a message is taken or
 * withdrawn, never both.
 */
#ifndef TWI_SHM_OFFER_H
#define TWI_SHM_OFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* States of an offer, in the low byte of its word; the rest is its generation. */
enum twi_shm_state {
	TWI_SHM_FREE,
	TWI_SHM_OFFERED,
	TWI_SHM_ACCEPTED, /* the receiver has it, or views it */
	TWI_SHM_CUT,      /* too long for the receive */
	TWI_SHM_REFUSED,
	TWI_SHM_TAKEN_BACK, /* by the sender */
	TWI_SHM_SPOILED,
	TWI_SHM_UNWRITABLE, /* the receive's memory cannot be written */
	TWI_SHM_UNREADABLE, /* taken back by the sender: its memory cannot be read */
};

static inline uint64_t twi_shm_state_word(uint32_t generation, enum twi_shm_state state)
{
	return (uint64_t)generation << 8 | state;
}

struct twi_shm_offer_word {
	_Alignas(64) _Atomic uint64_t word;
};

/*
 * Both sides decide about an offer: the receiver what becomes of it, the sender that it takes it
 * back. True: it was OFFERED, and is `state` now. Else the other one was first, and *found_out is
 * what the word says; what that side did before is seen here.
 */
bool twi_shm_offer_decide(struct twi_shm_offer_word *offer, uint32_t generation,
			  enum twi_shm_state state, uint64_t *found_out);

#endif
