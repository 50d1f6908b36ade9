/*
 * group_barrier.c - a barrier by dissemination.
 *
 * In round k each rank sends to the rank 2^k further on, and receives from the rank 2^k before.
 * After log2(size) rounds each rank has heard, through others, of every rank.
 *
 * The messages have no payload. Their tags have the group, the barrier's number and the round, so
 * barriers and groups that share connections never meet. Everything runs with the engine held.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/record/coll_kind.h"
#include "diag/record/span.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/job/group_barrier.h"
#include "transport/job/group_over.h"
#include "transport/op/failure.h"
#include "transport/op/message.h"
#include "transport/op/op_options.h"

/* A parted barrier has two operations under way. This part of a runtime's may be for them. */
#define PARTED_PART 16u

static void advance_barrier(struct twi_barrier *barrier);

/* Records how a barrier ended. A failure is worth the flight recorder's file. */
static void note_end(struct twi_barrier *barrier, int status)
{
	struct twi_series *series = &barrier->log->series;
	struct twi_state_past *past = twi_series_past(series, barrier->number);

	twi_series_leave(series, twi_engine_clock(barrier->ranks->engine),
			 twi_engine_waited(barrier->ranks->engine));
	series->finished = twi_max(series->finished, barrier->number);
	if (past->seq == barrier->number) {
		past->done_ns = twi_engine_clock(barrier->ranks->engine);
		past->status = (int8_t)status;
	}
	if (status == TOW_OK || status == TOW_ECLOSED)
		return;
	if (series->broken_seq == 0) {
		series->broken_seq = barrier->number;
		series->broken = status;
	}
	barrier->ranks->engine->hooks.inquiry->failed(barrier->ranks->engine);
}

/* Ends the user's operation. */
static void end_barrier(struct twi_barrier *barrier, int status)
{
	struct tow_op *op = barrier->op;

	barrier->op = NULL;
	if (op == NULL)
		return;
	note_end(barrier, status);
	twi_op_complete(op, status, 0);
}

/* Nothing of the barrier is to be done any more. What is under way still has to end. */
static void finish_barrier(struct twi_barrier *barrier)
{
	barrier->over = true;
	twi_list_remove(&barrier->link);
	if (barrier->parted.next == NULL)
		return;
	twi_list_remove(&barrier->parted);
	barrier->ranks->parted_count--;
}

static void free_idle_barrier(struct twi_barrier *barrier)
{
	struct twi_ranks *ranks = barrier->ranks;

	if (!barrier->over || barrier->inner[0] != NULL || barrier->inner[1] != NULL)
		return;
	twi_barrier_log_drop(barrier->log);
	free(barrier);
	twi_ranks_drop(ranks);
}

/* --- what cannot end --- */

static uint32_t ctx_of(const struct twi_barrier_log *log)
{
	return log->series.ctx & ~TWI_STATE_BARRIERS;
}

static bool is_ending(const struct twi_ranks *ranks)
{
	return ranks->closing || ranks->engine->failing;
}

/* Says something of a barrier to a rank of the group, if that lives. */
static void say_barrier(const struct twi_barrier *barrier, uint32_t rank,
			enum twi_barrier_says says, const char *why)
{
	const struct twi_barrier_log *log = barrier->log;
	const struct twi_barrier_word word = { .says = says,
					       .ctx = ctx_of(log),
					       .from = log->series.rank,
					       .to = rank,
					       .number = barrier->number,
					       .why = why };
	uint32_t job_rank = log->members[rank];

	if (log->told && !log->ranks->slots[job_rank].lost)
		log->ranks->engine->hooks.coll->say_barrier(log->ranks, job_rank, &word);
}

/* Tells the ranks that wait for what this one will not send. They tell others in turn. */
static void tell_failed(const struct twi_barrier *barrier, const char *why)
{
	const struct twi_series *series = &barrier->log->series;
	bool sent = barrier->connected && barrier->inner[0] == NULL;

	for (uint32_t round = barrier->round + sent; 1ull << round < series->size; round++)
		say_barrier(barrier, (series->rank + (1u << round)) % series->size,
			    TWI_BARRIER_FAILED, why);
}

/* The barrier ends for good, with the thread's message. Others are told `told`, if not NULL. */
static void give_up(struct twi_barrier *barrier, int status, const char *told)
{
	if (barrier->over)
		return;
	finish_barrier(barrier);
	end_barrier(barrier, status);
	if (told != NULL && !is_ending(barrier->ranks))
		tell_failed(barrier, told);
	for (int i = 0; i < 2; i++) {
		if (barrier->inner[i] != NULL)
			tow_op_cancel(barrier->inner[i]);
	}
}

/* It has failed here, with the thread's message. */
static void fail_barrier(struct twi_barrier *barrier, int status)
{
	char told[TWI_ERROR_BYTES];

	barrier->status = status;
	snprintf(told, sizeof(told), "barrier %llu failed at rank %u: %.300s",
		 (unsigned long long)barrier->number, barrier->log->series.rank,
		 tow_error_message());
	give_up(barrier, status, told);
}

void twi_barrier_deny(struct twi_barrier *barrier, const char *why)
{
	char told[TWI_ERROR_BYTES];

	snprintf(told, sizeof(told), "%s", why);
	give_up(barrier, twi_error(TOW_EPEER, "%s", told), told);
}

/* Parted barriers are bounded: the oldest gives up. */
static void part_barrier(struct twi_barrier *barrier)
{
	struct twi_ranks *ranks = barrier->ranks;
	uint64_t room = twi_max(ranks->engine->knobs.max_ops / PARTED_PART, 1);
	struct twi_barrier *oldest;
	char why[96];

	twi_list_push_back(&ranks->parted, &barrier->parted);
	if (++ranks->parted_count <= room)
		return;
	oldest = twi_container_of(twi_list_first(&ranks->parted), struct twi_barrier, parted);
	snprintf(why, sizeof(why), "rank %u has given up its barrier %llu and %llu others",
		 oldest->log->series.rank, (unsigned long long)oldest->number,
		 (unsigned long long)room);
	twi_barrier_deny(oldest, why);
}

/* Ends the user's operation early. After a deadline or a cancel this rank still does its part. */
static void abort_barrier(struct tow_op *op, int status)
{
	struct twi_barrier *barrier = op->owner;
	bool parts = status == TOW_ECANCELED || status == TOW_EDEADLINE;

	if (!parts || is_ending(barrier->ranks)) {
		give_up(barrier, status, NULL);
		return;
	}
	end_barrier(barrier, status);
	part_barrier(barrier);
}

/* --- rounds --- */

/* One of the two operations of a step has ended. */
static void on_step(struct tow_op *op, const struct tow_result *result)
{
	struct twi_barrier *barrier = result->user;
	int side = barrier->inner[1] == op;

	barrier->inner[side] = NULL;
	if (!barrier->connected)
		barrier->peers[side] = result->peer;
	if (result->status < 0 && !barrier->over)
		fail_barrier(barrier, twi_error(result->status, "%s", twi_failure_text(op)));
	tow_op_release(op);
	if (barrier->inner[0] == NULL && barrier->inner[1] == NULL && !barrier->over)
		advance_barrier(barrier);
	else
		free_idle_barrier(barrier);
}

uint32_t twi_barrier_before(const struct twi_barrier *barrier)
{
	const struct twi_series *series = &barrier->log->series;

	return (series->rank + series->size - (1u << barrier->round)) % series->size;
}

/* Begins a round: connects to its two ranks first. */
static void start_connects(struct twi_barrier *barrier)
{
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = TOW_FOREVER, .done = on_step, .user = barrier
	};
	const struct twi_series *series = &barrier->log->series;
	uint32_t step = 1u << barrier->round;
	uint32_t targets[2] = { series->members[(series->rank + step) % series->size],
				series->members[twi_barrier_before(barrier)] };

	barrier->dialed = barrier->ranks->slots[targets[1]].state != TWI_SLOT_UP;
	for (int i = 0; i < 2; i++) {
		int status = twi_ranks_connect(barrier->ranks, targets[i], TWI_SPACE_LINK, &options,
					       &barrier->inner[i]);

		if (status < 0 && barrier->status == TOW_OK)
			barrier->status = status;
	}
}

bool twi_barrier_misses(const struct twi_barrier *barrier)
{
	return barrier->connected && barrier->inner[1] != NULL &&
	       barrier->inner[1]->stage != TWI_STAGE_COMPLETING;
}

/*
 * A rank that left the group when there was no connection has not told this one, and is asked once.
 * One that is still there tells when it leaves, while the connection lasts.
 */
static void ask_left(struct twi_barrier *barrier)
{
	struct twi_barrier_log *log = barrier->log;
	uint32_t step = 1u << barrier->round;

	if ((log->asked & step) != 0 && !barrier->dialed)
		return;
	log->asked |= step;
	say_barrier(barrier, twi_barrier_before(barrier), TWI_BARRIER_ASKS, NULL);
}

static void start_messages(struct twi_barrier *barrier)
{
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = TOW_FOREVER, .done = on_step, .user = barrier
	};
	uint64_t tag = (uint64_t)ctx_of(barrier->log) << 32 | (barrier->number & 0xffffff) << 8 |
		       barrier->round;

	for (int i = 0; i < 2; i++) {
		const struct twi_message message = { .kind = i == 0 ? TWI_OP_SEND : TWI_OP_RECV,
						     .space = TWI_SPACE_GROUP,
						     .tag = tag };
		int status = twi_message_start(barrier->peers[i], &message, &options,
					       &barrier->inner[i]);

		if (status < 0 && barrier->status == TOW_OK)
			barrier->status = status;
	}
	if (barrier->status == TOW_OK && twi_barrier_misses(barrier))
		ask_left(barrier);
}

/* The operations under way have ended: starts the next step, or ends the barrier. */
static void advance_barrier(struct twi_barrier *barrier)
{
	bool more = barrier->status == TOW_OK;

	if (more && barrier->peers[0] != NULL && !barrier->connected) {
		barrier->connected = true;
		start_messages(barrier);
	} else if (more) {
		barrier->round += barrier->connected;
		barrier->connected = false;
		more = 1ull << barrier->round < barrier->log->series.size;
		if (more)
			start_connects(barrier);
	}
	if (barrier->status < 0) { /* also where one of the two operations has not started */
		fail_barrier(barrier, barrier->status);
	} else if (!more) {
		finish_barrier(barrier);
		end_barrier(barrier, TOW_OK);
	}
	free_idle_barrier(barrier);
}

/* --- the log --- */

struct twi_barrier_log *twi_barrier_log_of(struct tow_group *group)
{
	struct twi_barrier_log *log = group->barriers;

	twi_assert_held(group->ranks->engine);
	if (log != NULL)
		return log;
	log = calloc(1, sizeof(*log) + group->size * sizeof(log->members[0]));
	if (log == NULL)
		return NULL;
	log->users = 1;
	log->ranks = group->ranks;
	log->told = group->id < (group->shrunk ? TWI_COLL_CTX_MAX : TWI_COLL_CTX_SHRUNK);
	log->series = (struct twi_series){ .ctx = group->id | TWI_STATE_BARRIERS,
					   .rank = group->rank,
					   .size = group->size,
					   .members = log->members,
					   .next_seq = 1,
					   .why = "" };
	for (uint32_t i = 0; i < group->size; i++)
		log->members[i] = group->members[i];
	log->left_first = UINT64_MAX;
	twi_list_init(&log->running);
	twi_list_push_back(&group->ranks->engine->series, &log->series.link);
	group->barriers = log;
	return log;
}

void twi_barrier_log_drop(struct twi_barrier_log *log)
{
	if (log == NULL)
		return;
	twi_assert(log->users > 0);
	if (--log->users > 0)
		return;
	twi_list_remove(&log->series.link);
	twi_group_over(log->ranks, ctx_of(log), TWI_OVER_BARRIERS, log->members, log->series.size);
	for (size_t i = 0; i < TWI_STATE_PAST; i++)
		free(log->failed[i].why);
	free(log);
}

void twi_barrier_log_abort(struct twi_barrier_log *log, int status)
{
	char why[TWI_ERROR_BYTES];
	struct twi_list *first;

	if (log == NULL)
		return;
	snprintf(why, sizeof(why), "%s", tow_error_message());
	while ((first = twi_list_first(&log->running)) != NULL) {
		twi_error(status, "%s", why);
		give_up(twi_container_of(first, struct twi_barrier, link), status, NULL);
	}
	twi_error(status, "%s", why);
}

uint64_t twi_barrier_next(const struct tow_group *group)
{
	const struct twi_barrier_log *log = group->barriers;

	return log != NULL ? log->series.next_seq : 1;
}

static bool waits_for(const struct tow_op *op, char *out, size_t room)
{
	(void)op;
	snprintf(out, room, "waiting in a barrier");
	return true;
}

static const struct twi_op_ops barrier_ops = { .kind = TWI_OP_CALL,
					       .noun = "barrier",
					       .span = TWI_SPAN_CALL,
					       .wait_kind = TWI_WAITED_COLL,
					       .abort = abort_barrier,
					       .waits_for = waits_for };

bool twi_barrier_of_op(const struct tow_op *op, uint32_t *ctx_out, uint64_t *seq_out)
{
	const struct twi_barrier *barrier = op->owner;

	twi_assert_held(op->engine);
	if (op->ops != &barrier_ops || op->stage == TWI_STAGE_COMPLETING)
		return false;
	*ctx_out = barrier->log->series.ctx;
	*seq_out = barrier->number;
	return true;
}

/* Records the start, as other ranks see it. */
static void note_start(struct twi_barrier *barrier, const struct tow_op *op)
{
	struct twi_barrier_log *log = barrier->log;
	struct twi_series *series = &log->series;

	log->users++;
	barrier->number = series->next_seq++;
	twi_series_enter(series, barrier->number, op->start_ns, &(struct twi_series_caller){ 0 });
	*twi_series_past(series, barrier->number) = (struct twi_state_past){
		.seq = barrier->number, .start_ns = op->start_ns, .kind = TWI_COLL_BARRIER
	};
	log->callers[barrier->number % TWI_STATE_PAST] = op->site.caller;
}

static int start_barrier(struct tow_group *group, const struct tow_op_options *options,
			 struct twi_site site, struct tow_op **op_out)
{
	struct twi_barrier_log *log = twi_barrier_log_of(group);
	struct twi_barrier *barrier = log != NULL ? calloc(1, sizeof(*barrier)) : NULL;
	struct tow_op *op;
	char why[TWI_ERROR_BYTES];

	if (barrier == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a barrier");
	op = twi_op_acquire(group->ranks->engine, &barrier_ops, options);
	if (op == NULL) {
		free(barrier);
		return TOW_EBUSY;
	}
	op->site = site;
	op->owner = barrier;
	barrier->ranks = group->ranks;
	barrier->op = op;
	barrier->log = log;
	note_start(barrier, op);
	twi_list_push_back(&log->running, &barrier->link);
	twi_ranks_use(group->ranks);
	*op_out = op;
	twi_op_watch(op);
	if (twi_barrier_denied(log, barrier->number, why, sizeof(why))) {
		twi_barrier_deny(barrier, why);
		free_idle_barrier(barrier);
	} else {
		advance_barrier(barrier);
	}
	return TOW_OK;
}

static int start_at(struct tow_group *group, const struct tow_op_options *options,
		    struct twi_site site, struct tow_op **op_out)
{
	struct tow_op_options known;
	struct twi_engine *engine;
	struct tow_op *unused;
	int status = twi_group_check(group, "tow_group_barrier_start");

	if (op_out != NULL)
		*op_out = NULL;
	if (status < 0)
		return status;
	engine = group->ranks->engine;
	status = twi_op_options_in(engine, "tow_group_barrier_start", &options, &known);
	op_out = twi_op_place(op_out, &unused, options);
	if (status == TOW_OK && op_out == NULL)
		status = twi_error(TOW_EINVAL, "tow_group_barrier_start: op_out is NULL");
	if (status < 0)
		return status;
	twi_group_enter(engine);
	if (engine->failing || group->ranks->closing)
		status = twi_error(TOW_ECLOSED, "tow_group_barrier_start: the group is being "
						"closed");
	else if (group->aborted)
		status = twi_error(TOW_EABORTED, "%s", group->abort_why);
	else
		status = start_barrier(group, options, site, op_out);
	twi_engine_leave(engine);
	return status;
}

TOW_PUBLIC int tow_group_barrier_start(struct tow_group *group,
				       const struct tow_op_options *options, struct tow_op **op_out)
{
	TWI_UNCANCELED;
	return start_at(group, options, TWI_SITE_HERE, op_out);
}

TOW_PUBLIC int tow_group_barrier(struct tow_group *group, uint64_t timeout_ns)
{
	TWI_UNCANCELED;
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	char why[TWI_ERROR_BYTES];
	struct tow_op *op;
	int status;

	options.timeout_ns = timeout_ns;
	status = start_at(group, &options, TWI_SITE_HERE, &op);
	if (status < 0)
		return status;
	status = twi_op_wait_told(op, why, sizeof(why));
	if (status == TOW_EDEADLINE)
		twi_error(status, "tow_group_barrier: not every rank has come in time%s", why);
	tow_op_release(op);
	return status;
}
