/*
 * coll_hooks.c - what collectives do for operations (op/op.h), groups and ranks (engine/hooks.h).
 */
#include <stdio.h>

#include <towline/status.h>

#include "diag/record/span.h"
#include "transport/coll/coll.h"
#include "transport/coll/coll_batch.h"
#include "transport/coll/coll_kept.h"
#include "transport/coll/coll_line.h"
#include "transport/coll/coll_report.h"
#include "transport/engine/engine.h"
#include "transport/engine/hooks.h"

/* Issues what is held back, and records the time of the first wait. */
static void note_wait(struct tow_op *op, uint64_t now_ns)
{
	if (atomic_load_explicit(&op->held, memory_order_relaxed) == TWI_HELD_TO_FUSE)
		twi_coll_batch_wanted(op);
	if (op->stamp.record != NULL)
		twi_coll_waited(op, now_ns != 0 ? now_ns : twi_engine_clock(op->engine));
}

static void abort_op(struct tow_op *op, int status)
{
	const struct twi_coll_owner *owner = op->owner;

	owner->abort(op, status);
}

static bool waits_for(const struct tow_op *op, char *out, size_t room)
{
	bool behind = atomic_load_explicit(&op->held, memory_order_relaxed) == TWI_HELD_BEHIND;

	if (behind)
		snprintf(out, room, "waiting in a collective that is held back behind %u others",
			 TOW_COLL_IN_FLIGHT);
	else
		snprintf(out, room, "waiting in a collective");
	return true;
}

const struct twi_op_ops twi_coll_op_ops = { .kind = TWI_OP_CALL,
					    .noun = "collective",
					    .span = TWI_SPAN_COLL,
					    .wait_kind = TWI_WAITED_COLL,
					    .abort = abort_op,
					    .waited = note_wait,
					    .waits_for = waits_for };

/* A failure is reported when a collective is started on the group. */
static void group_begin(struct tow_group *group)
{
	struct twi_coll_group *coll;

	(void)twi_coll_of(group, &coll);
}

const struct twi_coll_hooks twi_coll_hooks = { .group_begin = group_begin,
					       .group_end = twi_coll_group_end,
					       .say_barrier = twi_coll_say_barrier };

static int rank_up(struct twi_ranks *ranks, uint32_t rank, struct tow_peer *peer)
{
	struct twi_coll_line *line = twi_coll_line_make(ranks, rank, peer);

	if (line == NULL)
		return TOW_ENOMEM;
	twi_coll_line_up(line);
	twi_coll_shrink_up(ranks);
	return TOW_OK;
}

static void ranks_end(struct twi_ranks *ranks)
{
	twi_coll_lines_end(ranks);
	twi_coll_regions_end(ranks);
	twi_coll_shrinks_end(ranks);
}

const struct twi_rank_hooks twi_coll_rank_hooks = { .up = rank_up, .end = ranks_end };
