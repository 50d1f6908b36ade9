/*
 * shm_stamp.c - what a slot carries beside its message: a checksum, or the time that it was sent.
 */
#include "diag/base/checksum.h"
#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "transport/lanes/shm/shm.h"
#include "transport/op/lane_host.h"

/* Whether message seq carries a checksum: one in so many, or all. */
static bool has_sum(const struct twi_shm_peer *peer, uint64_t seq, uint64_t bytes)
{
	if (twi_unlikely(peer->base.engine->knobs.checksum_all))
		return true;
	return twi_unlikely(twi_checksum_chosen(seq)) && bytes <= TWI_SHM_SUM_MAX;
}

/* Every small message is timed: everything is recorded, and not every payload checked. */
static bool times_all(const struct twi_shm_peer *peer)
{
#ifndef TWI_NO_DIAGNOSTICS
	const struct twi_engine *engine = peer->base.engine;

	return twi_unlikely(twi_span_all(engine->diag)) && !engine->knobs.checksum_all;
#else
	(void)peer;
	return false;
#endif
}

/* What cannot be read goes without a checksum: whoever moves it says what is wrong. */
static bool can_sum(const struct tow_op *op)
{
	return op->claim.kind == TWI_CLAIM_POOL ||
	       twi_reach(op->data, op->bytes, false) == op->bytes;
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
	bool all = small && times_all(peer);
	bool summed = !all && has_sum(peer, op->seq, op->bytes);
	uint64_t sent_ns = 0;

	if (twi_unlikely(summed) && !small && !can_sum(op))
		summed = false;
	if (twi_unlikely(summed))
		sent_ns = twi_checksum(0, op->data, op->bytes);
	else if (twi_unlikely(all || twi_shm_timed(peer, op)))
		sent_ns = twi_clock_gettime_ns();
	atomic_store_explicit(&slot->sent_ns, sent_ns, memory_order_relaxed);
	return type | (summed ? TWI_SHM_SUMMED : 0);
}
