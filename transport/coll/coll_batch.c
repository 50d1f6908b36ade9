/*
 * coll_batch.c - holds calls back, and fuses them. See coll_batch.h.
 *
 * Budget: records and buffers are reused, so a batch like an earlier one allocates nothing. Each
 * byte of a fused call is copied twice; that is the price of running fewer collectives.
 */
#include "transport/coll/coll_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/base/hash.h"
#include "diag/record/diag.h"
#include "transport/coll/coll_report.h"
#include "transport/coll/reduce/reduce.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/job/group.h"
#include "transport/op/own_memory.h"
#include "transport/op/path.h"

#define PART_ALIGN 64u
#define SPARE_MAX  4u /* fused calls kept for reuse, with their buffers */

struct fused {
	struct tow_op op;
	struct twi_list link; /* on batch->spare_fused */
	struct twi_coll_group *coll;
	struct twi_list parts; /* of struct held, in the order of the calls */
	struct twi_own_any memory;
	uint64_t room;
};

/* One call of the user. */
struct held {
	struct twi_coll_owner owner;
	struct twi_list link; /* on batch->held, fused->parts or batch->spare_held */
	struct twi_coll_group *coll;
	struct fused *fused; /* NULL: it is still held */
	struct twi_coll_call call;
	uint64_t *arrays;
	struct tow_op *op;
	uint64_t bytes, offset; /* in the buffer */
};

struct twi_coll_batch {
	struct twi_list link; /* on engine->coll_batches, while the knob holds calls back */
	bool open;            /* between tow_coll_batch_begin and _end */
	struct twi_list held;
	uint32_t held_n;
	uint64_t held_bytes;
	struct twi_list spare_held, spare_fused;
	uint32_t spare_fused_n, fused_n; /* fused_n: not completed yet */
};

static int make_batch(struct twi_coll_group *coll)
{
	struct twi_coll_batch *batch;

	if (coll->batch != NULL)
		return TOW_OK;
	batch = calloc(1, sizeof(*batch));
	if (batch == NULL)
		return twi_error(TOW_ENOMEM, "no memory to hold collectives back");
	twi_list_init(&batch->link);
	twi_list_init(&batch->held);
	twi_list_init(&batch->spare_held);
	twi_list_init(&batch->spare_fused);
	coll->batch = batch;
	return TOW_OK;
}

static struct held *first_in(const struct twi_list *list)
{
	struct twi_list *pos = twi_list_first(list);

	return pos == NULL ? NULL : twi_container_of(pos, struct held, link);
}

static void free_fused(struct fused *fused)
{
	twi_own_give_any(fused->coll->engine, &fused->memory);
	free(fused);
}

void twi_coll_batch_free(struct twi_coll_group *coll)
{
	struct twi_coll_batch *batch = coll->batch;
	struct twi_list *pos;

	twi_assert_held(coll->engine);
	if (batch == NULL)
		return;
	coll->batch = NULL;
	twi_list_remove(&batch->link);
	while ((pos = twi_list_first(&batch->spare_held)) != NULL) {
		twi_list_remove(pos);
		free(twi_container_of(pos, struct held, link));
	}
	while ((pos = twi_list_first(&batch->spare_fused)) != NULL) {
		twi_list_remove(pos);
		free_fused(twi_container_of(pos, struct fused, link));
	}
	free(batch);
}

uint32_t twi_coll_batch_held(const struct twi_coll_group *coll)
{
	twi_assert_held(coll->engine);
	return coll->batch == NULL ? 0 : coll->batch->held_n;
}

bool twi_coll_batch_busy(const struct twi_coll_group *coll)
{
	twi_assert_held(coll->engine);
	return coll->batch != NULL && coll->batch->fused_n > 0;
}

/* Detaches the user's operation, which it returns. The record becomes spare. */
static struct tow_op *detach_held(struct held *held)
{
	struct tow_op *op = held->op;

	twi_list_remove(&held->link);
	free(held->arrays);
	held->arrays = NULL;
	held->fused = NULL;
	op->owner = NULL;
	atomic_store_explicit(&op->held, TWI_HELD_NOT, memory_order_relaxed);
	twi_list_push_front(&held->coll->batch->spare_held, &held->link);
	return op;
}

static struct tow_op *take_held(struct twi_coll_batch *batch, struct held *held)
{
	struct twi_engine *engine = held->coll->engine;

	batch->held_n--;
	batch->held_bytes -= held->bytes;
	if (batch->held_n == 0 && !twi_list_empty(&batch->link)) {
		twi_list_remove(&batch->link);
		atomic_store_explicit(&engine->colls_held, !twi_list_empty(&engine->coll_batches),
				      memory_order_relaxed);
	}
	twi_op_unwatch(held->op);
	return detach_held(held);
}

static void end_op(struct tow_op *op, int status)
{
	twi_coll_record_fail(op, status);
	twi_op_complete(op, status, 0);
}

void twi_coll_batch_fail(struct twi_coll_group *coll, int status)
{
	struct held *held;

	twi_assert_held(coll->engine);
	while (coll->batch != NULL && (held = first_in(&coll->batch->held)) != NULL) {
		struct tow_op *op = take_held(coll->batch, held);

		twi_error(status, "%s", coll->why);
		end_op(op, status);
	}
}

/*
 * A call could not be issued, with the thread's message. A failure that all ranks find alike leaves
 * the group as it is. After any other this rank is out of step with the others.
 */
static void break_if_uneven(struct twi_coll_group *coll, int status)
{
	if (status != TOW_EINVAL && status != TOW_ENOTSUP)
		twi_coll_break(coll, coll->series.next_seq, status, true);
}

/* --- fused ones --- */

static int take_fused(struct twi_coll_group *coll, struct fused **out)
{
	struct twi_coll_batch *batch = coll->batch;
	struct twi_list *pos = twi_list_first(&batch->spare_fused);
	struct fused *fused;

	if (pos != NULL) {
		twi_list_remove(pos);
		batch->spare_fused_n--;
		*out = twi_container_of(pos, struct fused, link);
		return TOW_OK;
	}
	fused = calloc(1, sizeof(*fused));
	if (fused == NULL)
		return twi_error(TOW_ENOMEM, "no memory to fuse collectives");
	twi_list_init(&fused->link);
	twi_list_init(&fused->parts);
	fused->coll = coll;
	*out = fused;
	return TOW_OK;
}

static void put_fused(struct fused *fused)
{
	struct twi_coll_batch *batch = fused->coll->batch;

	if (batch->spare_fused_n == SPARE_MAX) {
		free_fused(fused);
		return;
	}
	batch->spare_fused_n++;
	twi_list_push_front(&batch->spare_fused, &fused->link);
}

static void copy_part(struct twi_engine *engine, void *to, const void *from, uint64_t bytes)
{
	twi_path_copy_eager(engine, to, from, bytes);
	twi_count(engine->diag, TWI_C_combined_copy_bytes, bytes);
}

/* The fused call has ended: gives each part its result, and ends it. */
static void on_fused(struct tow_op *op, const struct tow_result *result)
{
	struct fused *fused = twi_container_of(op, struct fused, op);
	struct twi_coll_group *coll = fused->coll;
	int status = result->status;
	struct held *part;

	while ((part = first_in(&fused->parts)) != NULL) {
		uint64_t bytes = part->bytes;
		struct tow_op *user;

		if (status >= 0)
			copy_part(coll->engine, part->call.out,
				  (uint8_t *)fused->memory.memory + part->offset, bytes);
		else
			twi_error(status, "%s", coll->why);
		user = detach_held(part);
		if (status < 0)
			twi_coll_record_fail(user, status);
		twi_op_complete(user, status, status >= 0 ? bytes : 0);
	}
	coll->batch->fused_n--;
	put_fused(fused);
}

static void fail_parts(struct fused *fused, int status)
{
	struct twi_coll_group *coll = fused->coll;
	struct held *part;

	while ((part = first_in(&fused->parts)) != NULL)
		end_op(detach_held(part), status);
	coll->batch->fused_n--;
	put_fused(fused);
	break_if_uneven(coll, status);
}

void twi_coll_batch_refuse(struct tow_op *op, int status)
{
	twi_assert_held(op->engine);
	fail_parts(twi_container_of(op, struct fused, op), status);
}

void twi_coll_batch_parts(struct tow_op *op, void (*each)(void *arg, struct tow_op *op), void *arg)
{
	struct fused *fused = twi_container_of(op, struct fused, op);
	struct twi_list *pos, *next;

	twi_assert_held(op->engine);
	twi_list_for_each_safe (pos, next, &fused->parts)
		each(arg, twi_container_of(pos, struct held, link)->op);
}

/* One that is still held ends the group: other ranks may fuse it with calls behind it. */
static void abort_held(struct tow_op *op, int status)
{
	const struct held *held = op->owner;
	struct tow_op *fused = held->fused == NULL ? NULL : &held->fused->op;

	if (fused == NULL) {
		twi_error(status,
			  "rank %u has %s a collective that it held back to be fused: a batch's "
			  "end, a wait or tow_flush lets it go",
			  held->coll->rank,
			  status == TOW_ECANCELED ? "canceled" : "had no more time for");
		twi_coll_break(held->coll, held->coll->series.next_seq, status, true);
	} else if (fused->stage != TWI_STAGE_COMPLETING) {
		fused->ops->abort(fused, status);
	}
}

const struct tow_op *twi_coll_batch_of(const struct tow_op *op)
{
	const struct held *held = op->owner;

	twi_assert_held(op->engine);
	return held->owner.abort == abort_held && held->fused != NULL ? &held->fused->op : NULL;
}

/* Makes the next `count` held calls parts of `fused`, and makes the fused call. */
static void gather_held(struct fused *fused, uint32_t count, struct twi_coll_call *call)
{
	struct twi_coll_group *coll = fused->coll;
	uint64_t end = 0, parts = TWI_HASH_BASIS;

	*call = first_in(&coll->batch->held)->call;
	fused->op.deadline_ns = UINT64_MAX;
	for (uint32_t i = 0; i < count; i++) {
		struct held *held = first_in(&coll->batch->held);

		held->offset = twi_align_up(end, PART_ALIGN);
		end = held->offset + held->bytes;
		/* Batches of different parts get different signatures, even for equal sums. */
		parts = twi_hash_step(parts, held->call.count);
		fused->op.deadline_ns = twi_min(fused->op.deadline_ns, held->op->deadline_ns);
		take_held(coll->batch, held);
		twi_list_remove(&held->link);
		held->fused = fused;
		held->op->owner = held;
		held->op->bytes = held->bytes;
		held->owner.abort = abort_held;
		twi_list_push_back(&fused->parts, &held->link);
	}
	call->in = call->out = NULL;
	call->scale = 0; /* each part has its own factor */
	call->in_place = true;
	call->count = end / tow_type_bytes(call->type);
	call->parts = parts | 1;
	snprintf(call->name, sizeof(call->name), "%u " TWI_COLL_COMBINED, count);
}

int twi_coll_batch_fill(struct tow_op *op, struct twi_coll_call *call)
{
	struct fused *fused = twi_container_of(op, struct fused, op);
	struct twi_coll_group *coll = fused->coll;
	uint64_t bytes = twi_max(call->count * tow_type_bytes(call->type), (uint64_t)PART_ALIGN);
	uint64_t end = 0;
	struct twi_list *pos, *next;
	int status = TOW_OK;

	twi_assert_held(op->engine);
	if (fused->room < bytes) {
		twi_own_give_any(coll->engine, &fused->memory);
		fused->room = 0;
		status = twi_own_take_any(coll->engine, bytes, PART_ALIGN, TWI_SITE_NONE,
					  &fused->memory);
		if (status < 0)
			return status;
		fused->room = bytes;
	}
	twi_list_for_each_safe (pos, next, &fused->parts) {
		const struct held *part = twi_container_of(pos, struct held, link);
		uint8_t *memory = fused->memory.memory;

		/* Padding is reduced with the rest, so it must hold numbers. */
		memset(memory + end, 0, part->offset - end);
		copy_part(coll->engine, memory + part->offset, part->call.in, part->bytes);
		if (part->call.scale != 0)
			twi_reduce_scale(call->type, memory + part->offset, memory + part->offset,
					 part->call.count, part->call.scale);
		end = part->offset + part->bytes;
	}
	call->in = call->out = fused->memory.memory;
	return TOW_OK;
}

static void issue_fused(struct twi_coll_group *coll, uint32_t count)
{
	const struct tow_op_options options = { .size = sizeof(options),
						.timeout_ns = TOW_FOREVER,
						.done = on_fused };
	struct twi_coll_call call;
	struct twi_list *pos, *next;
	struct fused *fused = NULL;
	int status = take_fused(coll, &fused);

	if (status < 0) {
		while (count-- > 0)
			end_op(take_held(coll->batch, first_in(&coll->batch->held)), status);
		break_if_uneven(coll, status);
		return;
	}
	twi_op_embed(&fused->op, coll->engine, &twi_coll_op_ops, &options);
	gather_held(fused, count, &call);
	coll->batch->fused_n++;
	twi_count(coll->engine->diag, TWI_C_combined_collectives, count);
	if (twi_coll_has_room(coll))
		status = twi_coll_batch_fill(&fused->op, &call);
	if (status == TOW_OK)
		status = twi_coll_start(coll, &call, &fused->op);
	if (status < 0) {
		fail_parts(fused, status);
		return;
	}
	twi_list_for_each_safe (pos, next, &fused->parts) {
		struct tow_op *op = twi_container_of(pos, struct held, link)->op;

		op->wait.memory_polled = fused->op.wait.memory_polled;
		op->wait.crowd = fused->op.wait.crowd;
	}
}

static void issue_one(struct twi_coll_group *coll, struct held *held)
{
	struct twi_coll_call call = held->call;
	uint64_t *arrays = held->arrays;
	struct tow_op *op;
	int status;

	held->arrays = NULL; /* the call uses them */
	op = take_held(coll->batch, held);
	status = twi_coll_start(coll, &call, op);
	free(arrays);
	if (status < 0) {
		end_op(op, status);
		break_if_uneven(coll, status);
	}
}

/* --- what is fused with what --- */

static bool are_alike(const struct twi_coll_call *a, const struct twi_coll_call *b)
{
	return a->kind == TWI_COLL_ALL_REDUCE && b->kind == TWI_COLL_ALL_REDUCE &&
	       a->type == b->type && a->reduce == b->reduce && a->priority == b->priority &&
	       a->forced == b->forced;
}

static uint64_t limit_of(const struct twi_coll_group *coll)
{
	return coll->engine->knobs.combine_threshold_bytes;
}

/* How many of the calls in front can be fused. */
static uint32_t run_length(struct twi_coll_group *coll)
{
	const struct held *first = first_in(&coll->batch->held);
	struct twi_list *pos, *next;
	uint64_t payload = 0;
	uint32_t count = 0;

	twi_list_for_each_safe (pos, next, &coll->batch->held) {
		const struct held *held = twi_container_of(pos, struct held, link);

		if (!are_alike(&first->call, &held->call) || held->bytes > limit_of(coll) - payload)
			break;
		payload += held->bytes;
		count++;
	}
	return limit_of(coll) == 0 ? 1 : twi_max(count, 1u);
}

void twi_coll_batch_issue(struct twi_coll_group *coll)
{
	struct held *held;

	twi_assert_held(coll->engine);
	/* Each may break the group, which ends all held calls. */
	while (coll->batch != NULL && (held = first_in(&coll->batch->held)) != NULL) {
		uint32_t count = run_length(coll);

		if (count > 1)
			issue_fused(coll, count);
		else
			issue_one(coll, held);
	}
}

void twi_coll_batch_issue_all(struct twi_engine *engine)
{
	struct twi_list *pos;

	twi_group_enter(engine);
	while ((pos = twi_list_first(&engine->coll_batches)) != NULL) {
		struct twi_coll_batch *batch = twi_container_of(pos, struct twi_coll_batch, link);

		twi_coll_batch_issue(first_in(&batch->held)->coll); /* takes it off the list */
	}
	twi_engine_leave(engine);
}

void twi_coll_batch_wanted(struct tow_op *op)
{
	struct twi_engine *engine = op->engine;

	twi_group_enter(engine);
	/* Another thread may have been first. */
	if (atomic_load_explicit(&op->held, memory_order_relaxed) == TWI_HELD_TO_FUSE)
		twi_coll_batch_issue(((struct held *)op->owner)->coll);
	twi_engine_leave(engine);
}

static struct held *new_held(struct twi_coll_batch *batch)
{
	struct twi_list *pos = twi_list_first(&batch->spare_held);
	struct held *held;

	if (pos != NULL) {
		twi_list_remove(pos);
		return twi_container_of(pos, struct held, link);
	}
	held = calloc(1, sizeof(*held));
	if (held == NULL)
		twi_error(TOW_ENOMEM, "no memory to hold a collective back");
	else
		twi_list_init(&held->link);
	return held;
}

static int hold_op(struct twi_coll_group *coll, const struct twi_coll_call *call, struct tow_op *op)
{
	struct twi_coll_batch *batch = coll->batch;
	struct twi_engine *engine = coll->engine;
	struct held *held = new_held(batch);
	int status;

	if (held == NULL)
		return TOW_ENOMEM;
	held->coll = coll;
	held->call = *call;
	held->op = op;
	held->bytes =
		call->kind == TWI_COLL_ALL_REDUCE ? call->count * tow_type_bytes(call->type) : 0;
	status = twi_coll_call_keep(&held->call, coll->size, &held->arrays);
	if (status < 0) {
		twi_list_push_front(&batch->spare_held, &held->link);
		return status;
	}
	twi_list_push_back(&batch->held, &held->link);
	batch->held_n++;
	batch->held_bytes += held->bytes;
	op->owner = held;
	held->owner.abort = abort_held;
	twi_op_watch(op);
	if (batch->open)
		return TOW_OK;
	atomic_store_explicit(&op->held, TWI_HELD_TO_FUSE, memory_order_relaxed);
	if (twi_list_empty(&batch->link))
		twi_list_push_back(&engine->coll_batches, &batch->link);
	atomic_store_explicit(&engine->colls_held, true, memory_order_relaxed);
	return TOW_OK;
}

/* Whether the knob holds the call back. Issues held calls that it cannot be fused with. */
static bool holds_call(struct twi_coll_group *coll, const struct twi_coll_call *call)
{
	uint64_t bytes = call->count * tow_type_bytes(call->type);
	struct held *first = first_in(&coll->batch->held);
	bool small =
		call->kind == TWI_COLL_ALL_REDUCE && limit_of(coll) > 0 && bytes <= limit_of(coll);

	if (first != NULL && (!small || !are_alike(&first->call, call) ||
			      bytes > limit_of(coll) - coll->batch->held_bytes))
		twi_coll_batch_issue(coll);
	return small;
}

int twi_coll_batch_add(struct twi_coll_group *coll, const struct twi_coll_call *call,
		       struct tow_op *op)
{
	int status = make_batch(coll);

	twi_assert_held(coll->engine);
	if (status < 0)
		return status;
	if (coll->state == TWI_COLL_BROKEN || (!coll->batch->open && !holds_call(coll, call)))
		return twi_coll_start(coll, call, op);
	return hold_op(coll, call, op);
}

int twi_coll_batch_open(struct twi_coll_group *coll)
{
	int status = make_batch(coll);

	twi_assert_held(coll->engine);
	if (status < 0)
		return status;
	if (coll->batch->open)
		return twi_error(TOW_EINVAL, "tow_coll_batch_begin: one is open already");
	twi_coll_batch_issue(coll); /* calls that the knob has held back are not part of it */
	coll->batch->open = true;
	coll->holds_back = true;
	return TOW_OK;
}

int twi_coll_batch_close(struct twi_coll_group *coll)
{
	twi_assert_held(coll->engine);
	if (coll->batch == NULL || !coll->batch->open)
		return twi_error(TOW_EINVAL, "tow_coll_batch_end: none is open");
	twi_coll_batch_issue(coll);
	coll->batch->open = false;
	coll->holds_back = coll->engine->knobs.combine;
	return TOW_OK;
}
