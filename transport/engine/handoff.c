/* handoff.c - see handoff.h. */
#include "transport/engine/handoff.h"

#include <sys/resource.h>

#include <internal/base.h>

#include "transport/engine/engine_thread.h"

#define LOSS_NS  400000u /* more than one in this time is all the time */
#define LOSSY_NS 100000u /* and in this time is for lack of cores */

void twi_handoff_init(struct twi_handoff *handoff)
{
	twi_handoff_told(handoff); /* until a thread ends such an operation by its own polls */
	handoff->pause_ns = UINT64_MAX;
}

bool twi_handoff_overdue(const struct twi_handoff *handoff, uint64_t now_ns, uint64_t late_ns)
{
	uint32_t how = atomic_load_explicit(&handoff->how, memory_order_relaxed);
	uint64_t left_ns = atomic_load_explicit(&handoff->left_ns, memory_order_relaxed);

	return left_ns != 0 && now_ns > left_ns + late_ns &&
	       atomic_load_explicit(&handoff->measured, memory_order_relaxed) == how;
}

void twi_handoff_suspect(struct twi_handoff *handoff)
{
	atomic_store_explicit(&handoff->deserts, TWI_DESERTS_PERHAPS, memory_order_relaxed);
}

bool twi_handoff_deserts(struct twi_handoff *handoff)
{
	if (atomic_load_explicit(&handoff->deserts, memory_order_relaxed) != TWI_DESERTS_SO)
		return false;
	atomic_store_explicit(&handoff->deserts, TWI_DESERTS_NOT, memory_order_relaxed);
	return true;
}

/* The thread is back that the library's thread may have missed. */
static void confirm_desertion(struct twi_handoff *handoff, bool lost_core)
{
	if (atomic_load_explicit(&handoff->deserts, memory_order_relaxed) == TWI_DESERTS_PERHAPS)
		atomic_store_explicit(&handoff->deserts,
				      lost_core ? TWI_DESERTS_NOT : TWI_DESERTS_SO,
				      memory_order_relaxed);
}

void twi_handoff_restart(struct twi_handoff *handoff, uint64_t now_ns)
{
	if (atomic_load_explicit(&handoff->left_ns, memory_order_relaxed) != 0)
		atomic_store_explicit(&handoff->left_ns, now_ns, memory_order_relaxed);
}

/*
 * How often has the calling thread lost its core since this was asked last? UINT64_MAX: never.
 * Else the mean time between two losses.
 */
static uint64_t loss_period(uint64_t now_ns)
{
	struct twi_thread_record *record = twi_self.record;
	struct rusage usage;
	uint64_t losses, since_ns;

	if (record == NULL || getrusage(RUSAGE_THREAD, &usage) != 0)
		return UINT64_MAX;
	losses = (uint64_t)usage.ru_nivcsw - record->polled.losses;
	since_ns = now_ns - twi_min(record->polled.losses_ns, now_ns);
	record->polled.losses += losses;
	record->polled.losses_ns = now_ns;
	return losses == 0 ? UINT64_MAX : since_ns / losses;
}

void twi_handoff_learn_long(struct twi_handoff *handoff, enum twi_left how, uint64_t now_ns)
{
	uint64_t period_ns = loss_period(now_ns);

	if (period_ns >= LOSS_NS)
		atomic_store_explicit(&handoff->away_ns[how], TWI_HANDOFF_MOST_NS,
				      memory_order_relaxed);
	confirm_desertion(handoff, period_ns < LOSSY_NS);
}
