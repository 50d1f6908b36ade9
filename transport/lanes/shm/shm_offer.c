/*
 * shm_offer.c - the compare-and-swap that decides an offer. See shm_offer.h.
 */
#include "transport/lanes/shm/shm_offer.h"

bool twi_shm_offer_decide(struct twi_shm_offer_word *offer, uint32_t generation,
			  enum twi_shm_state state, uint64_t *found_out)
{
	*found_out = twi_shm_state_word(generation, TWI_SHM_OFFERED);
	/* acq_rel: pairs with the other side's compare-and-swap; one of the two wins */
	return atomic_compare_exchange_strong_explicit(&offer->word, found_out,
						       twi_shm_state_word(generation, state),
						       memory_order_acq_rel, memory_order_acquire);
}
