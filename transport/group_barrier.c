/*
 * group_barrier.c - a barrier by dissemination: in round k each rank tells the one 2^k further on,
 * and hears from the one 2^k before; after log2(size) rounds everybody has heard of everybody.
 *
 * The messages have no payload; their tags have the group, the barrier's number and the round, so
 * barriers and groups that share connections never meet. Everything runs with the engine held.
 */
#include <stdlib.h>

#include <internal/base.h>

#include "diag/error.h"
#include "transport/engine.h"
#include "transport/group.h"
#include "transport/message.h"
#include "transport/runtime.h"

struct barrier {
	struct twi_ranks *ranks;
	struct tow_op *op;       /* the user's; NULL: it has ended */
	struct tow_op *inner[2]; /* under way: towards whom we tell, and from whom we hear */
	struct tow_peer *peers[2];
	bool talking; /* this round's peers are connected */
	uint32_t id, number, round;
	uint32_t rank, size;
	uint32_t *members;
	int status; /* of the first that failed */
};

static void advance(struct barrier *barrier);

static void end(struct barrier *barrier, int status)
{
	struct tow_op *op = barrier->op;

	barrier->op = NULL;
	if (op != NULL)
		twi_op_complete(op, status, 0);
}

/* Frees it when nothing of it is under way. */
static void put_down(struct barrier *barrier)
{
	struct twi_ranks *ranks = barrier->ranks;

	if (barrier->inner[0] != NULL || barrier->inner[1] != NULL)
		return;
	free(barrier->members);
	free(barrier);
	twi_ranks_drop(ranks);
}

/* The user's operation is ended from outside: deadline or cancel. */
static void abort_barrier(struct tow_op *op, int status)
{
	struct barrier *barrier = op->owner;

	end(barrier, status);
	for (int i = 0; i < 2; i++) {
		if (barrier->inner[i] != NULL)
			tow_op_cancel(barrier->inner[i]);
	}
}

/* One of the two that a step has is over. */
static void on_step(struct tow_op *op, const struct tow_result *result)
{
	struct barrier *barrier = result->user;
	int side = barrier->inner[1] == op;

	barrier->inner[side] = NULL;
	if (result->status < 0 && barrier->status == TOW_OK)
		barrier->status = result->status;
	if (!barrier->talking)
		barrier->peers[side] = result->peer;
	tow_op_release(op);
	if (barrier->inner[0] == NULL && barrier->inner[1] == NULL)
		advance(barrier);
	else if (barrier->status < 0 && barrier->op != NULL)
		abort_barrier(barrier->op, barrier->status);
}

/* A round: its two ranks, connected first. */
static void start_connects(struct barrier *barrier)
{
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = TOW_FOREVER, .done = on_step, .user = barrier
	};
	uint32_t step = 1u << barrier->round;
	uint32_t targets[2] = { (barrier->rank + step) % barrier->size,
				(barrier->rank + barrier->size - step) % barrier->size };

	for (int i = 0; i < 2; i++) {
		int status = twi_ranks_connect(barrier->ranks, barrier->members[targets[i]],
					       &options, &barrier->inner[i]);

		if (status < 0 && barrier->status == TOW_OK)
			barrier->status = status;
	}
}

static void start_messages(struct barrier *barrier)
{
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = TOW_FOREVER, .done = on_step, .user = barrier
	};
	uint64_t tag =
		(uint64_t)barrier->id << 32 | (barrier->number & 0xffffff) << 8 | barrier->round;

	for (int i = 0; i < 2; i++) {
		const struct twi_message message = { .kind = i == 0 ? TWI_OP_SEND : TWI_OP_RECV,
						     .space = TWI_GROUP_SPACE,
						     .tag = tag };
		int status = twi_message_start(barrier->peers[i], &message, &options,
					       &barrier->inner[i]);

		if (status < 0 && barrier->status == TOW_OK)
			barrier->status = status;
	}
}

/* What was under way is over: the next step, or the end. */
static void advance(struct barrier *barrier)
{
	bool more = barrier->op != NULL && barrier->status == TOW_OK;

	if (more && barrier->peers[0] != NULL && !barrier->talking) {
		barrier->talking = true;
		start_messages(barrier);
	} else if (more) {
		barrier->round += barrier->talking;
		barrier->talking = false;
		if (1ull << barrier->round < barrier->size)
			start_connects(barrier);
	}
	if (barrier->inner[0] == NULL && barrier->inner[1] == NULL) {
		end(barrier, barrier->status);
		put_down(barrier);
	} else if (barrier->status < 0) { /* half of a step has not started */
		abort_barrier(barrier->op, barrier->status);
	}
}

static struct barrier *make_barrier(struct tow_group *group, struct tow_op *op)
{
	struct barrier *barrier = calloc(1, sizeof(*barrier));

	if (barrier != NULL)
		barrier->members = malloc(group->size * sizeof(barrier->members[0]));
	if (barrier == NULL || barrier->members == NULL) {
		free(barrier);
		twi_error(TOW_ENOMEM, "no memory for a barrier");
		return NULL;
	}
	for (uint32_t i = 0; i < group->size; i++)
		barrier->members[i] = group->members[i];
	barrier->ranks = group->ranks;
	barrier->op = op;
	barrier->id = group->id;
	barrier->number = group->barriers++;
	barrier->rank = group->rank;
	barrier->size = group->size;
	twi_ranks_use(group->ranks);
	return barrier;
}

static int start_barrier(struct tow_group *group, const struct tow_op_options *options,
			 struct tow_op **op_out)
{
	struct tow_op *op = twi_op_acquire(group->ranks->engine, TWI_OP_CALL, options);
	struct barrier *barrier;

	if (op == NULL)
		return TOW_EBUSY;
	barrier = make_barrier(group, op);
	if (barrier == NULL) {
		twi_op_discard(op);
		return TOW_ENOMEM;
	}
	op->owner = barrier;
	op->abort_call = abort_barrier;
	*op_out = op;
	twi_op_watch(op);
	advance(barrier);
	return TOW_OK;
}

TOW_PUBLIC int tow_group_barrier_start(struct tow_group *group,
				       const struct tow_op_options *options, struct tow_op **op_out)
{
	struct twi_engine *engine;
	int status;

	if (group == NULL || op_out == NULL)
		return twi_error(TOW_EINVAL, "tow_group_barrier_start: an argument is NULL");
	*op_out = NULL;
	if (options != NULL && options->size < sizeof(*options))
		return twi_error(TOW_EINVAL,
				 "tow_group_barrier_start: options->size is %zu; begin with "
				 "TOW_OP_OPTIONS_DEFAULT",
				 options->size);
	status = twi_runtime_check(group->runtime, "tow_group_barrier_start");
	if (status < 0)
		return status;
	engine = group->ranks->engine;
	twi_group_enter(engine);
	if (engine->failing || group->ranks->closing)
		status = twi_error(TOW_ECLOSED, "tow_group_barrier_start: the group is being "
						"closed");
	else
		status = start_barrier(group, options, op_out);
	twi_engine_leave(engine);
	return status;
}

TOW_PUBLIC int tow_group_barrier(struct tow_group *group, uint64_t timeout_ns)
{
	struct tow_op_options options = TOW_OP_OPTIONS_DEFAULT;
	struct tow_op *op;
	int status;

	options.timeout_ns = timeout_ns;
	status = tow_group_barrier_start(group, &options, &op);
	if (status < 0)
		return status;
	status = tow_op_wait(op, TOW_FOREVER);
	if (status == TOW_EDEADLINE)
		twi_error(status, "tow_group_barrier: not every rank has come in time");
	tow_op_release(op);
	return status;
}
