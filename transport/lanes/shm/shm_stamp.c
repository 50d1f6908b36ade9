/*
 * shm_stamp.c - what a slot carries beside its message: a checksum, or the time that it was sent.
 */
#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "transport/lanes/shm/shm.h"
#include "transport/op/lane_host.h"

/* Every small message is timed: everything is recorded, and not every payload checked. */
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

/*
 * The type of a slot, with the checksum of op's payload in it, or the time that it was sent, where
 * that is looked at: by the kernel's clock, for each process has its own scale of the fast one.
 * There is room for one of them; while everything is recorded that is the time.
 */
unsigned twi_shm_stamp(struct twi_shm_peer *peer, struct twi_shm_slot *slot,
		       const struct tow_op *op, enum twi_shm_type type)
{
	bool small = type == TWI_SHM_INLINED || type == TWI_SHM_IN_AREA;
	uint64_t sent_ns = 0;
	uint32_t sum = 0;
	bool summed = !(small && times_all(peer)) && twi_outbox_sum(&peer->outbox, op, &sum);

	if (twi_unlikely(summed))
		sent_ns = sum;
	else if (small && twi_unlikely(twi_outbox_times(&peer->outbox, op)))
		sent_ns = twi_clock_gettime_ns();
	atomic_store_explicit(&slot->sent_ns, sent_ns, memory_order_relaxed);
	return type | (summed ? TWI_SHM_SUMMED : 0);
}
