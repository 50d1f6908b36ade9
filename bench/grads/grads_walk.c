/*
 * grads_walk.c - runs the steps of any plan, event by event. bench/workloads/strategy.h defines the
 * events.
 *
 * Each step runs twice: once to be timed, with the old content of the buffers, and once with
 * payload that is checked. Reductions are sums of whole numbers, so they are exact.
 */
#include <stdlib.h>

#include "bench/grads/grads.h"

_Static_assert(STRATEGY_IN_FLIGHT == GRADS_IN_FLIGHT, "the plan's rule is the library's");

struct flight {
	struct tow_op *op;
	const struct strategy_event *event;
	uint64_t number;
};

struct walk {
	struct grads_rank *rank;
	uint64_t step;
	bool checks;
	struct flight flying[STRATEGY_IN_FLIGHT];
	uint64_t begun, ended;                                 /* transfers of this step */
	const struct strategy_event *held[STRATEGY_IN_FLIGHT]; /* to be issued together */
	uint64_t held_count;
};

/* Waits for the oldest transfer. */
static int end_flight(struct walk *walk)
{
	struct grads_rank *rank = walk->rank;
	struct flight *flight = &walk->flying[walk->ended % STRATEGY_IN_FLIGHT];
	int status = tow_op_wait(flight->op, rank->options->timeout_ns);

	tow_op_release(flight->op);
	walk->ended++;
	rank->outcome.copied += status == TOW_COPIED;
	if (status != TOW_OK && status != TOW_COPIED)
		return grads_failed(rank->rank, "a transfer", status);
	return walk->checks ? grads_check_payload(rank, flight->event, walk->step, flight->number)
			    : 0;
}

static int settle_flights(struct walk *walk, uint64_t upto)
{
	int rc = 0;

	while (rc == 0 && walk->ended < upto)
		rc = end_flight(walk);
	return rc;
}

/* Waits up to the last transfer that uses the buffer. */
static int settle_buffer(struct walk *walk, uint32_t buffer)
{
	uint64_t upto = walk->ended;

	for (uint64_t i = walk->ended; i < walk->begun; i++) {
		const struct strategy_event *event = walk->flying[i % STRATEGY_IN_FLIGHT].event;

		if (event->buffer == buffer || event->to == buffer)
			upto = i + 1;
	}
	return settle_flights(walk, upto);
}

/* Waits for all receives, as a message is made of received data. */
static int settle_receives(struct walk *walk)
{
	uint64_t upto = walk->ended;

	for (uint64_t i = walk->ended; i < walk->begun; i++)
		if (walk->flying[i % STRATEGY_IN_FLIGHT].event->transfer == STRATEGY_RECEIVE)
			upto = i + 1;
	return settle_flights(walk, upto);
}

static int start_transfer(struct walk *walk, const struct strategy_event *event,
			  struct tow_op **op_out)
{
	struct grads_rank *rank = walk->rank;
	struct tow_group *group = rank->group;
	enum tow_type type = grads_type(event);
	uint64_t count = event->bytes / tow_type_bytes(type);
	void *from = event->buffer != STRATEGY_NO_BUFFER ? rank->buffer[event->buffer] : NULL;
	void *to = event->to != STRATEGY_NO_BUFFER ? rank->buffer[event->to] : NULL;

	switch (event->transfer) {
	case STRATEGY_ALL_REDUCE:
		return tow_coll_all_reduce_start(group, from, to, count, type, TOW_SUM, NULL,
						 op_out);
	case STRATEGY_ALL_GATHER:
		return tow_coll_all_gather_start(group, from, to, count, type, NULL, op_out);
	case STRATEGY_REDUCE_SCATTER:
		return tow_coll_reduce_scatter_start(group, from, to, count, type, TOW_SUM, NULL,
						     op_out);
	case STRATEGY_ALL_TO_ALL:
		return tow_coll_all_to_all_start(
			group, from, to, count / strategy_ranks(&rank->plan), type, NULL, op_out);
	case STRATEGY_MESSAGE:
		return tow_group_send_start(group, event->peer, from, event->bytes, event->tag,
					    NULL, op_out);
	case STRATEGY_RECEIVE:
		return tow_group_recv_start(group, event->peer, to, event->bytes, event->tag, NULL,
					    op_out);
	}
	return TOW_EINVAL;
}

/*
 * Starts the held transfers. Several collectives go into one batch, as the library may fuse them.
 */
static int issue_held(struct walk *walk)
{
	struct grads_rank *rank = walk->rank;
	uint64_t room = walk->ended + STRATEGY_IN_FLIGHT;
	bool batch = walk->held[0]->transfer < STRATEGY_MESSAGE;
	int rc = walk->held[0]->transfer == STRATEGY_MESSAGE ? settle_receives(walk) : 0;

	if (rc == 0 && walk->begun + walk->held_count > room)
		rc = settle_flights(walk, walk->begun + walk->held_count - STRATEGY_IN_FLIGHT);
	if (rc == 0 && batch)
		rc = tow_coll_batch_begin(rank->group);
	for (uint64_t i = 0; i < walk->held_count && rc == 0; i++) {
		struct flight *flight = &walk->flying[walk->begun % STRATEGY_IN_FLIGHT];

		*flight = (struct flight){ NULL, walk->held[i], walk->begun };
		if (walk->checks)
			grads_check_fill(rank, flight->event, walk->step, flight->number);
		rc = start_transfer(walk, flight->event, &flight->op);
		walk->begun += rc >= 0;
	}
	if (rc == 0 && batch)
		rc = tow_coll_batch_end(rank->group);
	walk->held_count = 0;
	return rc < 0 ? grads_failed(rank->rank, "starting a transfer", rc) : rc;
}

static int walk_event(struct walk *walk, const struct strategy_event *event)
{
	int rc = 0;

	switch (event->kind) {
	case STRATEGY_ALLOC:
		return grads_buffer_take(walk->rank, event);
	case STRATEGY_FREE:
		rc = settle_buffer(walk, event->buffer);
		return rc == 0 ? grads_buffer_give(walk->rank, event) : rc;
	case STRATEGY_SEND:
		walk->held[walk->held_count++] = event;
		if (event->issue || walk->held_count == STRATEGY_IN_FLIGHT)
			rc = issue_held(walk);
		return rc;
	case STRATEGY_STEP:
		return settle_flights(walk, walk->begun);
	}
	return rc;
}

static int walk_step(struct grads_rank *rank, uint64_t step, bool checks, double *took_out)
{
	struct walk walk = { .rank = rank, .step = step, .checks = checks };
	const struct strategy_plan *plan = &rank->plan;
	int rc = grads_barrier(rank);
	double begin = grads_now();

	for (uint64_t i = plan->step_begin; i < plan->step_end && rc == 0; i++)
		rc = walk_event(&walk, &plan->events[i]);
	*took_out = grads_now() - begin;
	return rc;
}

/* Runs a timed step, which is reported to the runtime for traces and verdicts. */
static int timed_step(struct grads_rank *rank, uint64_t step, double *took_out)
{
	int status = tow_step_begin(rank->runtime, step + 1);
	int rc = status < 0 ? grads_failed(rank->rank, "tow_step_begin", status) : 0;

	if (rc == 0)
		rc = walk_step(rank, step, false, took_out);
	if (rc == 0)
		status = tow_step_end(rank->runtime, step + 1);
	return rc == 0 && status < 0 ? grads_failed(rank->rank, "tow_step_end", status) : rc;
}

int grads_walk_run(struct grads_rank *rank)
{
	struct grads_outcome *outcome = &rank->outcome;
	double took = 0, checked = 0;
	uint64_t copied_before, ahead_before;
	int rc = walk_step(rank, 0, false, &took); /* maps memory, and makes the plans */

	copied_before = grads_report_counter(rank, "fallback_copies");
	ahead_before = grads_report_reason(rank, "collective_ahead");
	for (uint64_t step = 0; step < rank->options->steps && rc == 0; step++) {
		rc = timed_step(rank, step, &took);
		if (rc == 0)
			rc = walk_step(rank, step, true, &checked);
		outcome->exchange_s += took;
		outcome->verify_s += checked;
		if (step == 0 || took < outcome->fastest_s)
			outcome->fastest_s = took;
		if (took > outcome->slowest_s)
			outcome->slowest_s = took;
		outcome->steps = step + 1;
	}
	/* The others may still be in their last step, so all leave together. */
	if (rc == 0)
		rc = grads_barrier(rank);
	outcome->late_registrations = grads_report_counter(rank, "late_registrations");
	outcome->fallback_copies = grads_report_counter(rank, "fallback_copies") - copied_before;
	outcome->ahead_copies = grads_report_reason(rank, "collective_ahead") - ahead_before;
	return rc;
}
