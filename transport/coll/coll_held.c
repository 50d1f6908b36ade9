/*
 * coll_held.c - collectives that wait until an earlier one has ended. See coll_held.h.
 *
 * Budget: records are reused, so a program that is no further ahead than before allocates nothing,
 * except the arrays of kinds that have some.
 */
#include "transport/coll/coll_held.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/coll/coll_batch.h"
#include "transport/coll/coll_report.h"
#include "transport/engine/engine.h"
#include "transport/engine/held_count.h"

struct behind {
	struct twi_coll_owner owner;
	struct twi_list link; /* on coll->held or coll->held_spare */
	struct twi_coll_group *coll;
	struct twi_coll_call call;
	uint64_t *arrays;
	struct tow_op *op;
	bool asked; /* its deadline has passed once, and the others were asked */
};

static struct behind *behind_first(const struct twi_list *list)
{
	struct twi_list *pos = twi_list_first(list);

	return pos == NULL ? NULL : twi_container_of(pos, struct behind, link);
}

static void mark_held(void *arg, struct tow_op *op)
{
	const enum twi_op_held *held = arg;

	atomic_store_explicit(&op->held, (uint8_t)*held, memory_order_relaxed);
}

/* Marks the operation, or a fused call's parts, so that waits report what they wait for. */
static void mark_op(struct tow_op *op, enum twi_op_held held)
{
	if (op->embedded)
		twi_coll_batch_parts(op, mark_held, &held);
	else
		mark_held(&held, op);
}

/*
 * When the deadline passes for the first time, the ranks are asked about the oldest collective in
 * flight. The group breaks when they have answered. If that collective has ended meanwhile, the
 * deadline passes a second time, and this breaks the group.
 */
static void abort_behind(struct tow_op *op, int status)
{
	struct behind *behind = op->owner;
	struct twi_coll_group *coll = behind->coll;
	uint64_t first = coll->series.finished + 1;

	if (status == TOW_EDEADLINE && !behind->asked) {
		behind->asked = true;
		twi_coll_late(coll, op, first);
		return;
	}
	twi_error(status, "rank %u has %s a collective that was held back behind %u others",
		  coll->rank, status == TOW_ECANCELED ? "canceled" : "had no more time for",
		  coll->series.in_flight);
	twi_coll_break(coll, first, status, true);
}

static struct behind *make_behind(struct twi_coll_group *coll)
{
	struct behind *behind = behind_first(&coll->held_spare);

	if (behind != NULL) {
		twi_list_remove(&behind->link);
		return behind;
	}
	behind = calloc(1, sizeof(*behind));
	if (behind != NULL)
		twi_list_init(&behind->link);
	return behind;
}

int twi_coll_hold(struct twi_coll_group *coll, const struct twi_coll_call *call, struct tow_op *op)
{
	struct behind *behind = make_behind(coll);
	int status = TOW_OK;

	twi_assert_held(coll->engine);
	if (behind == NULL)
		return twi_error(TOW_ENOMEM, "no memory to hold a collective back");
	behind->call = *call;
	status = twi_coll_call_keep(&behind->call, coll->size, &behind->arrays);
	if (status < 0) {
		twi_list_push_front(&coll->held_spare, &behind->link);
		return twi_error(status, "no memory to hold a collective back");
	}
	if (!op->embedded && op->stamp.record == NULL)
		twi_coll_record_begin(coll, call, call->name, op);
	behind->owner.abort = abort_behind;
	behind->coll = coll;
	behind->op = op;
	behind->asked = false;
	op->owner = behind;
	twi_op_watch(op);
	mark_op(op, TWI_HELD_BEHIND);
	twi_list_push_back(&coll->held, &behind->link);
	coll->held_n++;
	twi_count(coll->engine->diag, TWI_C_colls_held_back, 1);
	return TOW_OK;
}

/* Takes the first held call. Its record becomes spare with behind_done(). */
static struct behind *behind_take(struct twi_coll_group *coll)
{
	struct behind *behind = behind_first(&coll->held);

	if (behind == NULL)
		return NULL;
	twi_assert_hot(coll->held_n > 0);
	twi_list_remove(&behind->link);
	coll->held_n--;
	twi_op_unwatch(behind->op);
	behind->op->owner = NULL;
	mark_op(behind->op, TWI_HELD_NOT);
	return behind;
}

static void behind_done(struct twi_coll_group *coll, struct behind *behind)
{
	free(behind->arrays);
	behind->arrays = NULL;
	twi_list_push_front(&coll->held_spare, &behind->link);
}

/* A call could not begin, with the thread's message. What all ranks refuse alike breaks nothing. */
static void refuse_op(struct twi_coll_group *coll, struct tow_op *op, int status)
{
	twi_held_count(coll->engine, TWI_C_colls_completed, 1);
	if (op->embedded) {
		twi_coll_batch_refuse(op, status);
		return;
	}
	twi_coll_record_fail(op, status);
	twi_op_complete(op, status, 0);
	if (status != TOW_EINVAL && status != TOW_ENOTSUP)
		twi_coll_break(coll, coll->series.next_seq, status, true);
}

static void begin_behind(struct twi_coll_group *coll, struct behind *behind)
{
	struct tow_op *op = behind->op;
	int status = TOW_OK;

	if (op->embedded)
		status = twi_coll_batch_fill(op, &behind->call);
	if (status == TOW_OK)
		status = twi_coll_begin(coll, &behind->call, op, true);
	if (status < 0)
		refuse_op(coll, op, status);
	behind_done(coll, behind);
}

static bool may_begin(struct twi_coll_group *coll)
{
	if (!twi_coll_held_may_go(coll))
		return false;
	if (twi_unlikely(coll->series.next_seq > coll->left_seq))
		twi_coll_check_left(coll);
	return coll->state == TWI_COLL_READY;
}

unsigned twi_coll_held_go(struct twi_coll_group *coll)
{
	uint64_t work = coll->engine->coll_work;
	unsigned begun = 0;

	twi_assert_held(coll->engine);
	while (may_begin(coll) && coll->engine->coll_work - work < TWI_COLL_TURN_BYTES) {
		begin_behind(coll, behind_take(coll));
		begun++;
	}
	return begun;
}

void twi_coll_held_fail(struct twi_coll_group *coll, int status)
{
	struct behind *behind;

	twi_assert_held(coll->engine);
	while ((behind = behind_take(coll)) != NULL) {
		struct tow_op *op = behind->op;

		twi_error(status, "%s", coll->why);
		twi_coll_record_fail(op, status);
		twi_op_complete(op, status, 0);
		twi_held_count(coll->engine, TWI_C_colls_completed, 1);
		behind_done(coll, behind);
	}
}

bool twi_coll_held_waits(const struct tow_op *op, uint32_t *ctx_out, uint64_t *seq_out)
{
	const struct twi_coll_owner *owner = op->owner;
	const struct behind *behind = op->owner;

	twi_assert_held(op->engine);
	if (owner->abort != abort_behind)
		return false;
	*ctx_out = behind->coll->ctx;
	*seq_out = behind->coll->series.finished + 1;
	return true;
}

void twi_coll_held_free(struct twi_coll_group *coll)
{
	struct behind *behind;

	twi_assert_held(coll->engine);
	while ((behind = behind_first(&coll->held_spare)) != NULL) {
		twi_list_remove(&behind->link);
		free(behind);
	}
}
