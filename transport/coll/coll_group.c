/*
 * coll_group.c - a group's collectives: their order, their beginning and their end. See coll.h.
 */
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/coll/coll_account.h"
#include "transport/coll/coll_batch.h"
#include "transport/coll/coll_held.h"
#include "transport/coll/coll_kept.h"
#include "transport/coll/coll_line.h"
#include "transport/coll/coll_local.h"
#include "transport/coll/coll_report.h"
#include "transport/engine/engine.h"
#include "transport/engine/held_count.h"
#include "transport/job/group.h"
#include "transport/op/path.h"

#define TIME_NS (1000ull * 1000)

/* A call that came before the group was READY. */
struct pending {
	struct twi_coll_owner owner;
	struct twi_list link;
	struct twi_coll_group *coll;
	struct twi_coll_call call;
	uint64_t *arrays;
	struct tow_op *op;
	uint64_t seq;
};

int twi_coll_of(struct tow_group *group, struct twi_coll_group **out)
{
	struct twi_coll_group *coll;

	twi_assert_held(group->ranks->engine);
	if (group->coll != NULL) {
		*out = group->coll;
		return TOW_OK;
	}
	if (!group->shrunk && group->id >= TWI_COLL_CTX_SHRUNK)
		return twi_error(TOW_EBUSY,
				 "the job has made %u groups; the first %u can have collectives",
				 group->id, TWI_COLL_CTX_SHRUNK);
	coll = calloc(1, sizeof(*coll));
	if (coll != NULL)
		coll->members = calloc(group->size, sizeof(coll->members[0]));
	if (coll == NULL || coll->members == NULL) {
		free(coll);
		return twi_error(TOW_ENOMEM, "no memory for the collectives of a group");
	}
	for (uint32_t i = 0; i < group->size; i++)
		coll->members[i] = group->members[i];
	coll->group = group;
	coll->ranks = group->ranks;
	coll->engine = group->ranks->engine;
	coll->ctx = group->id;
	coll->rank = group->rank;
	coll->size = group->size;
	coll->series = (struct twi_series){ .ctx = group->id,
					    .rank = group->rank,
					    .size = group->size,
					    .members = coll->members,
					    .next_seq = 1,
					    .why = coll->why };
	coll->left_seq = UINT64_MAX;
	coll->holds_back = coll->engine->knobs.combine;
	twi_coll_log_make(coll->engine);
	twi_list_init(&coll->link);
	twi_list_init(&coll->active);
	twi_list_init(&coll->runs);
	twi_list_init(&coll->polled);
	twi_list_init(&coll->pending);
	twi_list_init(&coll->held);
	twi_list_init(&coll->held_spare);
	twi_list_init(&coll->ages);
	for (unsigned i = 0; i < TWI_COLL_BUCKETS; i++)
		twi_list_init(&coll->buckets[i]);
	twi_list_push_back(&group->ranks->colls, &coll->link);
	twi_list_push_back(&coll->engine->coll_groups, &coll->all);
	twi_list_push_back(&coll->engine->series, &coll->series.link);
	twi_ranks_use(group->ranks);
	group->coll = coll;
	*out = coll;
	twi_coll_line_group(coll);
	return TOW_OK;
}

/* Puts the run behind all of its priority or a higher one. */
static void insert_run(struct twi_coll_group *coll, struct twi_coll_run *run)
{
	struct twi_list *pos, *next, *at = &coll->runs;

	twi_list_for_each_safe (pos, next, &coll->runs) {
		if (twi_container_of(pos, struct twi_coll_run, link)->priority < run->priority) {
			at = pos;
			break;
		}
	}
	twi_list_push_back(at, &run->link); /* before `at` */
}

/* Makes a run for the call, ready to begin. */
static int prepare_run(struct twi_coll_group *coll, const struct twi_coll_call *call,
		       struct twi_coll_run **out)
{
	const struct twi_coll_call *asked = call;
	struct twi_coll_call scaled;
	struct twi_coll_entry *entry;
	struct twi_coll_run *run;
	int status;

	if (twi_unlikely(call->scale != 0))
		call = twi_coll_scaled(coll, call, &scaled);
	status = twi_coll_entry_find(coll, call, &entry);
	if (status == TOW_OK)
		status = twi_coll_run_make(coll, entry, &run);
	if (status < 0)
		return status;
	entry->users++;
	entry->calls++;
	run->state = TWI_COLL_QUEUED;
	run->status = TOW_OK;
	run->priority = call->priority;
	run->in = run->user_in = call->in;
	run->out = run->user_out = call->out;
	run->site = call->site;
	twi_path_copy_own(run->name, call->name, sizeof(run->name));
	run->staged_in = run->staged_out = false;
	run->staged_bytes = 0;
	run->outside = run->pipelined = run->starved = false;
	run->steps_announced = run->copied = run->halved = 0;
	run->scale = call->scale;
	run->scale_from = asked->in;
	run->scale_bytes = 0;
	run->is_scaled = false;
	run->program = run->repeat = run->begun = run->active = 0;
	run->syncs = 0;
	run->synced = 0;
	run->agreed = run->challenged = run->left = false;
	run->suspicion = 0;
	run->doubt[0] = '\0';
	run->entered_ns = run->moving_ns = 0;
	*out = run;
	return TOW_OK;
}

/* Records the call for other ranks, which may ask how far this one is. */
static void past_begun(struct twi_coll_group *coll, const struct twi_coll_run *run)
{
	const struct twi_coll_call *call = &run->entry->call;

	*twi_series_past(&coll->series, run->seq) = (struct twi_state_past){
		.seq = run->seq,
		.signature = run->entry->signature,
		.bytes = twi_max(run->entry->in_bytes, run->entry->out_bytes),
		.start_ns = run->start_ns,
		.kind = (uint8_t)call->kind,
		.type = (uint8_t)call->type,
	};
}

static void past_ended(struct twi_coll_group *coll, uint64_t seq, int status)
{
	struct twi_state_past *past = twi_series_past(&coll->series, seq);

	if (past->seq != seq)
		return;
	past->done_ns = twi_engine_batch_now(coll->engine);
	past->status = (int8_t)status;
}

/* First shows what other ranks wait for (fast path); all records are written after that. */
static void begin_run(struct twi_coll_group *coll, struct twi_coll_run *run, struct tow_op *op,
		      uint64_t seq, bool called)
{
	run->op = op;
	run->seq = seq;
	twi_coll_run_give(run);
	if (op != NULL && !op->embedded && op->stamp.record == NULL)
		twi_coll_record_begin(coll, &run->entry->call, run->name, op);
	run->start_ns = op != NULL ? op->start_ns : 0;
	run->called_ns = called ? run->start_ns : 0;
	run->step = op != NULL && op->span_parent != 0 ? op->span_parent
						       : twi_step_number(&coll->engine->step);
	if (op != NULL) {
		op->owner = run;
		op->bytes = run->entry->out_bytes;
		run->owner.abort = twi_coll_abort;
		op->wait.memory_polled = run->entry->local && coll->locals_n > 0;
		op->wait.crowd = coll->crowd;
	}
	past_begun(coll, run);
	insert_run(coll, run);
	twi_coll_run_start(run);
}

static void abort_pending(struct tow_op *op, int status)
{
	struct pending *pending = op->owner;
	struct twi_coll_group *coll = pending->coll;

	if (status == TOW_EDEADLINE) {
		twi_coll_late(coll, op, pending->seq);
		return;
	}
	twi_error(status, "rank %u has canceled its first collective", coll->rank);
	twi_coll_break(coll, pending->seq, status, true);
}

/* Keeps a call until the group has been set up. The first one begins that. */
static int add_pending(struct twi_coll_group *coll, const struct twi_coll_call *call,
		       struct tow_op *op)
{
	struct pending *pending = calloc(1, sizeof(*pending));
	int status = TOW_ENOMEM;

	if (!op->embedded && op->stamp.record == NULL)
		twi_coll_record_begin(coll, call, call->name, op);
	if (pending != NULL) {
		pending->call = *call;
		status = twi_coll_call_keep(&pending->call, coll->size, &pending->arrays);
	}
	if (status < 0) {
		free(pending);
		return twi_error(TOW_ENOMEM, "no memory for a collective");
	}
	pending->coll = coll;
	pending->op = op;
	pending->seq = coll->series.next_seq++;
	*twi_series_past(&coll->series, pending->seq) =
		(struct twi_state_past){ .seq = pending->seq,
					 .start_ns = op->start_ns,
					 .kind = (uint8_t)call->kind,
					 .type = (uint8_t)call->type };
	op->owner = pending;
	pending->owner.abort = abort_pending;
	twi_coll_series_enter(coll->engine, &coll->series, pending->seq, op->start_ns);
	twi_op_watch(op);
	twi_list_push_back(&coll->pending, &pending->link);
	if (coll->state == TWI_COLL_NEW)
		twi_coll_setup_start(coll); /* a failure ends the call */
	return TOW_OK;
}

bool twi_coll_of_op(const struct tow_op *op, uint32_t *ctx_out, uint64_t *seq_out,
		    uint8_t *state_out)
{
	const struct twi_coll_owner *owner = op->owner;

	twi_assert_held(op->engine);
	if (op->ops != &twi_coll_op_ops || owner == NULL || op->stage == TWI_STAGE_COMPLETING)
		return false;
	if (owner->abort == twi_coll_abort) {
		const struct twi_coll_run *run = op->owner;

		*ctx_out = run->coll->ctx;
		*seq_out = run->seq;
		*state_out = (uint8_t)run->state;
	} else if (owner->abort == abort_pending) {
		const struct pending *pending = op->owner;

		*ctx_out = pending->coll->ctx;
		*seq_out = pending->seq;
		*state_out = TWI_COLL_QUEUED;
	} else if (twi_coll_batch_of(op) != NULL) {
		return twi_coll_of_op(twi_coll_batch_of(op), ctx_out, seq_out, state_out);
	} else {
		*state_out = TWI_COLL_QUEUED;
		return twi_coll_held_waits(op, ctx_out, seq_out);
	}
	return true;
}

static struct pending *take_pending(struct twi_coll_group *coll)
{
	struct twi_list *pos = twi_list_first(&coll->pending);

	if (pos == NULL)
		return NULL;
	twi_list_remove(pos);
	return twi_container_of(pos, struct pending, link);
}

static void free_pending(struct pending *pending)
{
	free(pending->arrays);
	free(pending);
}

static void seq_over(struct twi_coll_group *coll, uint64_t seq)
{
	twi_series_leave(&coll->series, twi_engine_batch_now(coll->engine),
			 twi_engine_waited(coll->engine));
	coll->over |= 1ull << seq % TWI_COLL_SLOTS;
	while ((coll->over >> (coll->series.finished + 1) % TWI_COLL_SLOTS & 1) != 0) {
		coll->series.finished++;
		coll->over &= ~(1ull << coll->series.finished % TWI_COLL_SLOTS);
	}
	twi_held_count(coll->engine, TWI_C_colls_completed, 1);
	twi_coll_finished(coll);
	if (twi_unlikely(coll->held_n > 0))
		twi_coll_activate(coll); /* the next poll begins one */
}

void twi_coll_ready(struct twi_coll_group *coll)
{
	struct pending *pending;

	twi_assert_held(coll->engine);
	while (coll->state == TWI_COLL_READY && (pending = take_pending(coll)) != NULL) {
		struct twi_coll_run *run;
		int status = prepare_run(coll, &pending->call, &run);

		if (status == TOW_OK) {
			begin_run(coll, run, pending->op, pending->seq, true);
		} else {
			twi_coll_record_fail(pending->op, status);
			twi_op_complete(pending->op, status, 0);
			seq_over(coll, pending->seq);
			/* All ranks refuse a plan that does not fit. */
			if (status != TOW_EINVAL && status != TOW_ENOTSUP)
				twi_coll_break(coll, pending->seq, status, true);
		}
		free_pending(pending);
	}
	if (coll->held_n > 0)
		twi_coll_activate(coll);
}

/* Ends the calls that have not begun, because the group is broken. */
void twi_coll_fail_pending(struct twi_coll_group *coll, int status)
{
	struct pending *pending;

	twi_assert_held(coll->engine);
	while ((pending = take_pending(coll)) != NULL) {
		twi_error(status, "%s", coll->why);
		twi_coll_record_fail(pending->op, status);
		twi_op_complete(pending->op, status, 0);
		coll->series.in_flight--;
		twi_held_count(coll->engine, TWI_C_colls_completed, 1);
		free_pending(pending);
	}
	twi_coll_held_fail(coll, status);
	twi_coll_batch_fail(coll, status);
}

/*
 * The ranks disagree about a call, and this rank comes to it when the group is broken already.
 * Records the call: it counts in the verdict about which rank made another one.
 */
static void past_refused(struct twi_coll_group *coll, const struct twi_coll_call *call)
{
	struct twi_state_past *past = twi_series_past(&coll->series, coll->series.next_seq);
	struct twi_coll_entry *entry;

	if (coll->series.broken != TOW_EMISMATCH ||
	    coll->series.broken_seq != coll->series.next_seq ||
	    past->seq == coll->series.next_seq || twi_coll_entry_find(coll, call, &entry) < 0)
		return;
	*past = (struct twi_state_past){
		.seq = coll->series.next_seq,
		.signature = entry->signature,
		.bytes = twi_max(entry->in_bytes, entry->out_bytes),
		.start_ns = twi_engine_batch_now(coll->engine),
		.done_ns = twi_engine_batch_now(coll->engine),
		.kind = (uint8_t)call->kind,
		.type = (uint8_t)call->type,
		.status = TOW_EPEER,
	};
}

int twi_coll_start(struct twi_coll_group *coll, const struct twi_coll_call *call, struct tow_op *op)
{
	int status;

	twi_assert_held(coll->engine);
	if (twi_unlikely(coll->series.next_seq > coll->left_seq))
		twi_coll_check_left(coll);
	if (twi_unlikely(coll->state == TWI_COLL_BROKEN)) {
		past_refused(coll, call);
		if (coll->aborted)
			return twi_error(TOW_EABORTED, "%s", coll->why);
		return twi_error(TOW_EPEER, "the group is broken: %.350s", coll->why);
	}
	if (twi_unlikely(!twi_coll_has_room(coll)))
		status = twi_coll_hold(coll, call, op);
	else if (twi_unlikely(coll->state != TWI_COLL_READY))
		status = add_pending(coll, call, op);
	else
		status = twi_coll_begin(coll, call, op, false);
	if (twi_likely(status == TOW_OK))
		twi_held_count(coll->engine, TWI_C_colls_started, 1);
	return status;
}

int twi_coll_begin(struct twi_coll_group *coll, const struct twi_coll_call *call, struct tow_op *op,
		   bool later)
{
	struct twi_coll_run *run;
	int status = prepare_run(coll, call, &run);

	twi_assert_held(coll->engine);
	if (status < 0)
		return status;
	twi_coll_series_enter(coll->engine, &coll->series, coll->series.next_seq, op->start_ns);
	twi_op_watch(op);
	begin_run(coll, run, op, coll->series.next_seq++, later);
	if (!later && run->op == op && twi_coll_span_wanted(run))
		run->called_ns = twi_engine_clock(coll->engine);
	return TOW_OK;
}

int twi_coll_start_own(struct twi_coll_group *coll, const struct twi_coll_call *call)
{
	struct twi_coll_run *run;
	int status = prepare_run(coll, call, &run);

	twi_assert_held(coll->engine);
	if (status < 0)
		return status;
	coll->series.in_flight++;
	begin_run(coll, run, NULL, 0, false);
	return TOW_OK;
}

/* Wakes the runs that wait for an older one, whose slot and bit in `over` they need. */
static void wake_queued(struct twi_coll_group *coll)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &coll->runs) {
		struct twi_coll_run *run = twi_container_of(pos, struct twi_coll_run, link);

		if (run->state == TWI_COLL_QUEUED)
			twi_coll_run_poll(run);
	}
}

void twi_coll_over(struct twi_coll_run *run)
{
	struct twi_coll_group *coll = run->coll;
	bool held_up = coll->series.next_seq > coll->series.finished + TWI_COLL_SLOTS + 1;

	twi_assert_held(coll->engine);
	if (run->seq > 0) {
		past_ended(coll, run->seq, run->status);
		seq_over(coll, run->seq);
		if (twi_unlikely(held_up))
			wake_queued(coll);
	} else {
		twi_series_leave(&coll->series, twi_engine_batch_now(coll->engine),
				 twi_engine_waited(coll->engine));
		twi_coll_setup_gathered(coll, run->status);
	}
}

/* Runs of a lower priority have a turn only when none of a higher one could go on. */
static unsigned poll_group(struct twi_coll_group *coll)
{
	struct twi_list *pos, *next;
	unsigned events = 0;
	int32_t level = INT32_MIN;

	twi_list_for_each_safe (pos, next, &coll->polled) {
		struct twi_coll_run *run = twi_container_of(pos, struct twi_coll_run, polled);

		if (events > 0 && run->priority < level)
			break;
		level = run->priority;
		events += twi_coll_run_turn(run);
	}
	return events;
}

/* Goes on with what no message will wake. */
static unsigned poll_all(struct twi_engine *engine, struct twi_list *active)
{
	struct twi_list *group, *next_group;
	unsigned events = 0;

	twi_assert_held(engine);
	twi_list_for_each_safe (group, next_group, active) {
		struct twi_coll_group *coll =
			twi_container_of(group, struct twi_coll_group, active);

		if (coll->setup != NULL)
			twi_coll_setup_turn(coll);
		events += poll_group(coll);
		if (twi_unlikely(coll->held_n > 0))
			events += twi_coll_held_go(coll);
		if (twi_list_empty(&coll->polled) && coll->setup == NULL &&
		    !twi_coll_held_may_go(coll))
			twi_list_remove(&coll->active); /* nothing else would */
	}
	return events;
}

/* Whether the group waits for a time, of which no message and no wake-up will tell. */
static bool waits_for_time(const struct twi_coll_group *coll)
{
	struct twi_list *pos, *next;

	if (coll->setup != NULL)
		return true;
	twi_list_for_each_safe (pos, next, &coll->polled) {
		const struct twi_coll_run *run = twi_container_of(pos, struct twi_coll_run, polled);

		if (run->state == TWI_COLL_FAILING || run->suspicion < 0)
			return true;
	}
	return false;
}

/*
 * 0: at once. The engine calls this after it has flushed the lanes for a sleep, so what other ranks
 * write from now on wakes this one.
 */
static uint64_t deadline_ns(struct twi_engine *engine, struct twi_list *active, uint64_t next_ns)
{
	struct twi_list *pos, *next;

	twi_assert_held(engine);
	/* The lanes have announced the sleep: this sees all that was written before. */
	if (poll_all(engine, active) > 0 || !twi_list_empty(&engine->callbacks))
		return 0;
	twi_list_for_each_safe (pos, next, active) {
		if (waits_for_time(twi_container_of(pos, struct twi_coll_group, active)))
			return twi_min(next_ns, twi_engine_clock(engine) + TIME_NS);
	}
	return next_ns;
}

void twi_coll_activate(struct twi_coll_group *coll)
{
	static const struct twi_part_ops part = { .poll = poll_all, .deadline_ns = deadline_ns };

	if (twi_list_empty(&coll->active))
		twi_part_add(coll->engine, TWI_PART_COLLS, &part, &coll->active);
}

/* --- the end --- */

static void free_coll(struct twi_coll_group *coll)
{
	struct twi_ranks *ranks = coll->ranks;

	twi_list_remove(&coll->link);
	twi_list_remove(&coll->all);
	twi_list_remove(&coll->series.link);
	twi_list_remove(&coll->active);
	twi_coll_batch_free(coll);
	twi_coll_held_free(coll);
	twi_coll_account_leave(coll);
	twi_coll_line_group_end(coll);
	twi_coll_setup_end(coll);
	twi_coll_late_end(coll);
	twi_coll_entries_free(coll);
	for (uint32_t i = 0; i < coll->locals_n; i++) {
		if (coll->locals[i].hold != NULL)
			coll->locals[i].windows->release(coll->locals[i].hold);
	}
	for (uint32_t i = 0; coll->told != NULL && i < coll->size; i++) {
		if (coll->told[i].hold != NULL)
			coll->told[i].windows->release(coll->told[i].hold);
	}
	twi_coll_region_end(coll);
	free(coll->told);
	free(coll->locals);
	free(coll->local_ranks);
	free(coll->hosts);
	free(coll->members);
	free(coll);
	twi_ranks_drop(ranks);
}

bool twi_coll_group_end(struct tow_group *group)
{
	struct twi_coll_group *coll = group->coll;

	twi_assert_held(group->ranks->engine);
	if (coll == NULL)
		return true;
	twi_coll_leave(coll, coll->series.in_flight == 0 && coll->connects == 0 &&
				     coll->held_n == 0 && twi_coll_batch_held(coll) == 0);
	if (!twi_list_empty(&coll->runs) || coll->connects > 0 || twi_coll_batch_busy(coll))
		return false;
	group->coll = NULL;
	free_coll(coll);
	return true;
}
