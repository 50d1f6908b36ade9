/*
 * group_tries.c - records since when a rank is dialed in vain, and how the attempts end.
 *
 * The record serves the question why a job does not go on. A rank that is connected has none.
 */
#include <stdio.h>
#include <string.h>

#include "diag/judge/rank_state.h"
#include "transport/job/group.h"
#include "transport/op/endpoint.h"

#define KEPT_NS 30000000000ull /* how long a failure without a new attempt is kept */

void twi_tries_begin(struct twi_slot *slot, struct tow_op *connect, uint64_t now_ns)
{
	struct twi_tries *tries = &slot->tries;

	if (tries->attempts == 0 || (tries->failed_ns != 0 && now_ns - tries->failed_ns > KEPT_NS))
		*tries = (struct twi_tries){ .since_ns = now_ns, .wanted = tries->wanted };
	tries->attempts++;
	tries->op = connect;
}

void twi_tries_fail(struct twi_slot *slot, int error, uint64_t now_ns)
{
	slot->tries.error = error;
	slot->tries.failed_ns = now_ns;
}

void twi_tries_end(struct twi_slot *slot)
{
	slot->tries = (struct twi_tries){ .op = slot->tries.op };
}

bool twi_tries_tell(const struct twi_ranks *ranks, uint32_t rank, uint64_t now_ns,
		    struct twi_state_dial *out)
{
	const struct twi_slot *slot = &ranks->slots[rank];
	const struct twi_tries *tries = &slot->tries;
	const struct tow_op *op = tries->op;
	const char *address = ranks->addresses[rank];

	twi_assert_held(ranks->engine);
	if (slot->state == TWI_SLOT_UP || tries->attempts == 0 ||
	    (slot->state == TWI_SLOT_NONE &&
	     (tries->failed_ns == 0 || now_ns - tries->failed_ns > KEPT_NS)))
		return false;
	*out = (struct twi_state_dial){ .rank = rank,
					.wanted = tries->wanted,
					.attempts = tries->attempts,
					.since_ns = tries->since_ns,
					.failed_ns = tries->failed_ns,
					.error = (uint32_t)tries->error };
	if (strlen(address) < sizeof(out->address)) /* else it names several lanes */
		snprintf(out->address, sizeof(out->address), "%s", address);
	if (op != NULL)
		twi_connect_measure(op, out);
	return true;
}
