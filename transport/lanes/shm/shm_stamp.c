/*
 * shm_stamp.c - what a slot carries besides its message: a checksum, or the time of sending.
 */
#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "transport/lanes/shm/shm.h"
#include "transport/op/lane_host.h"

/* Returns whether every small message is timed: everything is recorded and checksum_all is off. */
static bool times_all(const struct twi_shm_peer *peer)
{
#ifndef TWI_NO_DIAGNOSTICS
	const struct twi_engine *engine = peer->base.engine;

	return twi_unlikely(twi_span_all(engine->diag)) && !peer->outbox.checksum_all;
#else
	(void)peer;
	return false;
#endif
}

unsigned twi_shm_stamp(struct twi_shm_peer *peer, struct twi_shm_slot *slot,
		       const struct twi_outbound *out, enum twi_shm_type type)
{
	uint64_t sent_ns = 0;
	uint32_t sum = 0;
	bool summed = !times_all(peer) && twi_outbox_sum(&peer->outbox, out, &sum);

	if (twi_unlikely(summed))
		sent_ns = sum;
	else if (twi_unlikely(twi_outbox_times(&peer->outbox, out)))
		sent_ns = twi_clock_gettime_ns();
	atomic_store_explicit(&slot->sent_ns, sent_ns, memory_order_relaxed);
	return type | (summed ? TWI_SHM_SUMMED : 0);
}

unsigned twi_shm_stamp_offer(const struct twi_shm_peer *peer, struct twi_shm_slot *slot,
			     const struct tow_op *op, enum twi_shm_type type)
{
	uint32_t sum = 0;
	bool summed = twi_outbox_sum_offer(&peer->outbox, op, &sum);

	atomic_store_explicit(&slot->sent_ns, sum, memory_order_relaxed);
	return type | (summed ? TWI_SHM_SUMMED : 0);
}
