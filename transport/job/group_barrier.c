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

#include <internal/base.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/record/coll_kind.h"
#include "diag/record/span.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/job/group.h"
#include "transport/op/message.h"
#include "transport/op/op_options.h"

struct barrier {
	struct twi_list link; /* on log->running, until the barrier has ended */
	struct twi_ranks *ranks;
	struct tow_op *op;       /* the user's operation; NULL: ended */
	struct tow_op *inner[2]; /* under way: the send side, and the receive side */
	struct tow_peer *peers[2];
	bool connected; /* this round's peers are connected */
	struct twi_barrier_log *log;
	uint64_t number;
	uint32_t round;
	int status; /* status of the first failure */
};

static void advance_barrier(struct barrier *barrier);

/* Fails with the message that a rank has closed the group and lacks this barrier. */
static int left_status(const struct twi_barrier_log *log, uint64_t number)
{
	return twi_error(TOW_EPEER, "rank %u has closed the group without its barrier %llu",
			 log->left_rank, (unsigned long long)number);
}

/* Records how a barrier ended. A failure is worth the flight recorder's file. */
static void note_end(struct barrier *barrier, int status)
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

static void end_barrier(struct barrier *barrier, int status)
{
	struct tow_op *op = barrier->op;

	barrier->op = NULL;
	if (op == NULL)
		return;
	twi_list_remove(&barrier->link);
	note_end(barrier, status);
	twi_op_complete(op, status, 0);
}

/* Frees a barrier that has no operation under way. */
static void free_idle_barrier(struct barrier *barrier)
{
	struct twi_ranks *ranks = barrier->ranks;

	if (barrier->inner[0] != NULL || barrier->inner[1] != NULL)
		return;
	twi_barrier_log_drop(barrier->log);
	free(barrier);
	twi_ranks_drop(ranks);
}

/* Ends the user's operation early: deadline, cancel or abort. */
static void abort_barrier(struct tow_op *op, int status)
{
	struct barrier *barrier = op->owner;

	end_barrier(barrier, status);
	for (int i = 0; i < 2; i++) {
		if (barrier->inner[i] != NULL)
			tow_op_cancel(barrier->inner[i]);
	}
}

/* One of the two operations of a step has ended. */
static void on_step(struct tow_op *op, const struct tow_result *result)
{
	struct barrier *barrier = result->user;
	int side = barrier->inner[1] == op;

	barrier->inner[side] = NULL;
	if (result->status < 0 && barrier->status == TOW_OK)
		barrier->status = result->status;
	if (!barrier->connected)
		barrier->peers[side] = result->peer;
	tow_op_release(op);
	if (barrier->inner[0] == NULL && barrier->inner[1] == NULL)
		advance_barrier(barrier);
	else if (barrier->status < 0 && barrier->op != NULL)
		abort_barrier(barrier->op, barrier->status);
}

/* Begins a round: connects to its two ranks first. */
static void start_connects(struct barrier *barrier)
{
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = TOW_FOREVER, .done = on_step, .user = barrier
	};
	const struct twi_series *series = &barrier->log->series;
	uint32_t step = 1u << barrier->round;
	uint32_t targets[2] = { (series->rank + step) % series->size,
				(series->rank + series->size - step) % series->size };

	for (int i = 0; i < 2; i++) {
		int status = twi_ranks_connect(barrier->ranks, series->members[targets[i]],
					       TWI_SPACE_LINK, &options, &barrier->inner[i]);

		if (status < 0 && barrier->status == TOW_OK)
			barrier->status = status;
	}
}

static void start_messages(struct barrier *barrier)
{
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = TOW_FOREVER, .done = on_step, .user = barrier
	};
	uint64_t group = barrier->log->series.ctx & ~TWI_STATE_BARRIERS;
	uint64_t tag = group << 32 | (barrier->number & 0xffffff) << 8 | barrier->round;

	for (int i = 0; i < 2; i++) {
		const struct twi_message message = { .kind = i == 0 ? TWI_OP_SEND : TWI_OP_RECV,
						     .space = TWI_SPACE_GROUP,
						     .tag = tag };
		int status = twi_message_start(barrier->peers[i], &message, &options,
					       &barrier->inner[i]);

		if (status < 0 && barrier->status == TOW_OK)
			barrier->status = status;
	}
}

/* The operations under way have ended: starts the next step, or ends the barrier. */
static void advance_barrier(struct barrier *barrier)
{
	bool more = barrier->op != NULL && barrier->status == TOW_OK;

	if (more && barrier->peers[0] != NULL && !barrier->connected) {
		barrier->connected = true;
		start_messages(barrier);
	} else if (more) {
		barrier->round += barrier->connected;
		barrier->connected = false;
		if (1ull << barrier->round < barrier->log->series.size)
			start_connects(barrier);
	}
	if (barrier->inner[0] == NULL && barrier->inner[1] == NULL) {
		end_barrier(barrier, barrier->status);
		free_idle_barrier(barrier);
	} else if (barrier->status < 0) { /* one of the two operations has not started */
		abort_barrier(barrier->op, barrier->status);
	}
}

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
	free(log);
}

void twi_barrier_log_abort(struct twi_barrier_log *log, int status)
{
	char why[TWI_ERROR_BYTES];
	struct twi_list *first;

	if (log == NULL)
		return;
	snprintf(why, sizeof(why), "%s", tow_error_message());
	log->users++; /* the last barrier of a closed group may drop the log */
	while ((first = twi_list_first(&log->running)) != NULL) {
		struct barrier *barrier = twi_container_of(first, struct barrier, link);

		twi_error(status, "%s", why);
		abort_barrier(barrier->op, status);
	}
	twi_error(status, "%s", why);
	twi_barrier_log_drop(log);
}

uint64_t twi_barrier_lacking(const struct tow_group *group)
{
	const struct twi_barrier_log *log = group->barriers;

	if (log == NULL)
		return 1;
	return log->series.broken_seq != 0 ? log->series.broken_seq : log->series.next_seq;
}

/* One that waits for the rank that has left; NULL: none. */
static struct barrier *find_left(const struct twi_barrier_log *log)
{
	for (struct twi_list *at = log->running.next; at != &log->running; at = at->next) {
		struct barrier *barrier = twi_container_of(at, struct barrier, link);

		if (barrier->number >= log->left_first)
			return barrier;
	}
	return NULL;
}

void twi_barrier_left(struct tow_group *group, uint32_t rank, uint64_t first)
{
	struct twi_barrier_log *log = first > 0 ? twi_barrier_log_of(group) : NULL;
	struct barrier *barrier;

	if (log == NULL || first >= log->left_first)
		return;
	log->left_first = first;
	log->left_rank = rank;
	log->users++; /* a barrier may be the log's last user */
	while ((barrier = find_left(log)) != NULL)
		abort_barrier(barrier->op, left_status(log, barrier->number));
	twi_barrier_log_drop(log);
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
	const struct barrier *barrier = op->owner;

	twi_assert_held(op->engine);
	if (op->ops != &barrier_ops || op->stage == TWI_STAGE_COMPLETING)
		return false;
	*ctx_out = barrier->log->series.ctx;
	*seq_out = barrier->number;
	return true;
}

/* Records the start, as other ranks see it. */
static void note_start(struct barrier *barrier, const struct tow_op *op)
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
	struct barrier *barrier = log != NULL ? calloc(1, sizeof(*barrier)) : NULL;
	struct tow_op *op;

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
	if (barrier->number >= log->left_first)
		barrier->status = left_status(log, barrier->number);
	advance_barrier(barrier);
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
