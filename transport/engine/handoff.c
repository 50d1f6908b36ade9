/* handoff.c - see handoff.h. */
#include "transport/engine/handoff.h"

#include <sys/resource.h>

#include <internal/base.h>

#include "transport/engine/engine_thread.h"

#define LOSS_NS 400000u /* more than one in this time is all the time */

void twi_handoff_init(struct twi_handoff *handoff)
{
	twi_handoff_told(handoff); /* until a thread ends such an operation by its own polls */
	handoff->pause_ns = UINT64_MAX;
}

bool twi_handoff_overdue(const struct twi_handoff *handoff, uint64_t now_ns)
{
	uint32_t how = atomic_load_explicit(&handoff->how, memory_order_relaxed);
	uint64_t left_ns = atomic_load_explicit(&handoff->left_ns, memory_order_relaxed);

	return left_ns != 0 && now_ns > left_ns + TWI_HANDOFF_LATE_NS &&
	       atomic_load_explicit(&handoff->measured, memory_order_relaxed) == how;
}

void twi_handoff_restart(struct twi_handoff *handoff, uint64_t now_ns)
{
	if (atomic_load_explicit(&handoff->left_ns, memory_order_relaxed) != 0)
		atomic_store_explicit(&handoff->left_ns, now_ns, memory_order_relaxed);
}

/* Has the calling thread lost its core all the time since this was asked last? */
static bool loses_core(uint64_t now_ns)
{
	struct twi_thread_record *record = twi_self.record;
	struct rusage usage;
	uint64_t losses, since_ns;

	if (record == NULL || getrusage(RUSAGE_THREAD, &usage) != 0)
		return false;
	losses = (uint64_t)usage.ru_nivcsw - record->polled.losses;
	since_ns = now_ns - twi_min(record->polled.losses_ns, now_ns);
	record->polled.losses += losses;
	record->polled.losses_ns = now_ns;
	return losses * LOSS_NS > since_ns;
}

void twi_handoff_learn_long(struct twi_handoff *handoff, enum twi_left how, uint64_t now_ns)
{
	if (!loses_core(now_ns))
		atomic_store_explicit(&handoff->away_ns[how], TWI_HANDOFF_MOST_NS,
				      memory_order_relaxed);
}
