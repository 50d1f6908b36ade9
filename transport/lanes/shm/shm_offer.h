/*
 * shm_offer.h - the word of an offer: 0 if free, else its generation and state.
 *
 * It is the only shared memory that both sides write. They write it by compare-and-swap, so a
 * message is either taken or withdrawn, never both.
 */
#ifndef TWI_SHM_OFFER_H
#define TWI_SHM_OFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* States of an offer, in the low byte of its word. The other bits are its generation. */
enum twi_shm_state {
	TWI_SHM_FREE,
	TWI_SHM_OFFERED,
	TWI_SHM_ACCEPTED, /* the receiver has copied it, or views it */
	TWI_SHM_CUT,      /* longer than the receive */
	TWI_SHM_REFUSED,
	TWI_SHM_TAKEN_BACK, /* by the sender */
	TWI_SHM_SPOILED,
	TWI_SHM_UNWRITABLE, /* the receive's memory cannot be written */
	TWI_SHM_UNREADABLE, /* by the sender, whose memory cannot be read */
};

static inline uint64_t twi_shm_state_word(uint32_t generation, enum twi_shm_state state)
{
	return (uint64_t)generation << 8 | state;
}

struct twi_shm_offer_word {
	_Alignas(64) _Atomic uint64_t word;
};

/*
 * Changes an offer from OFFERED to `state`: the receiver decides the result, or the sender takes
 * the offer back. Returns true if this side was first. Returns false if the other side was first;
 * *found_out is then the word, and everything that the other side did before is visible here.
 */
bool twi_shm_offer_decide(struct twi_shm_offer_word *offer, uint32_t generation,
			  enum twi_shm_state state, uint64_t *found_out);

#endif
