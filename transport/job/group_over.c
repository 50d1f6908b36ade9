/*
 * group_over.c - drops messages of collectives and barriers that nobody receives. See group_over.h.
 */
#include "transport/job/group_over.h"

#include "transport/engine/engine.h"
#include "transport/message/inbox_over.h"
#include "transport/op/endpoint.h"

static bool has_bit(const uint64_t *bits, uint64_t ctx)
{
	return ctx < TWI_COLL_CTX_MAX && (bits[ctx / 64] >> ctx % 64 & 1) != 0;
}

/* coll/coll_step.c and group_barrier.c say how the tags are made. */
bool twi_group_is_over(const struct tow_peer *peer, uint64_t tag, uint8_t space)
{
	const struct twi_ranks *ranks = peer->home != NULL ? peer->home->ranks : NULL;

	if (ranks == NULL || peer->job_rank < 0)
		return false;
	if (tag >> 62 == 2)
		return has_bit(ranks->is_over[TWI_OVER_COLLS], tag >> 48 & TWI_COLL_CTX_MAX);
	return space == TWI_SPACE_GROUP && has_bit(ranks->is_over[TWI_OVER_BARRIERS], tag >> 32);
}

void twi_group_over(struct twi_ranks *ranks, uint32_t ctx, enum twi_over what,
		    const uint32_t *members, uint32_t size)
{
	twi_assert_held(ranks->engine);
	/* An ordinary group may have the number of a shrunk one, and has barriers then. */
	if (ctx >= (what == TWI_OVER_COLLS ? TWI_COLL_CTX_MAX : TWI_COLL_CTX_SHRUNK))
		return;
	ranks->is_over[what][ctx / 64] |= 1ull << ctx % 64;
	if (ranks->closing || ranks->engine->failing)
		return; /* the connections end */
	for (uint32_t i = 0; i < size; i++) {
		const struct twi_slot *slot = twi_ranks_slot(ranks, members[i]);

		if (slot->state == TWI_SLOT_UP && !slot->lost && slot->peer->inbox != NULL)
			twi_inbox_drop_over(slot->peer->inbox);
	}
}
