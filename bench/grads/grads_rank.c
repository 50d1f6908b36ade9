/*
 * grads_rank.c - one rank of the job: its runtime, its buffers, its steps.
 *
 * A step is the part of a data-parallel job between forward pass and optimiser, without the
 * arithmetic. It makes a gradient for each tensor, the last tensor's first, and gets the mean of
 * all ranks. Neighbouring tensors of about a bucket are issued together, as soon as they are made.
 * Between tow_coll_batch_begin and tow_coll_batch_end the library fuses the small ones.
 *
 *	make | start bucket 0 | make | start bucket 1 | make ... | wait 0 | wait 1 ...
 *
 * A bucket's slack is the time from its start to the first wait for it, less the time of library
 * calls in between. The bucket could have ended that much later without delaying the rank.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/common/lanes.h"
#include "bench/common/pattern.h"
#include "bench/grads/grads.h"

#define RANKS 2

double grads_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

int grads_failed(int rank, const char *what, int status)
{
	fprintf(stderr, "tow-grads: rank %d: %s: %s (%s)%s%s\n", rank, what,
		tow_status_name(status), tow_status_text(status),
		status < 0 && tow_error_message()[0] != '\0' ? ": " : "",
		status < 0 ? tow_error_message() : "");
	return GRADS_FAILED;
}

/* Message i of a step: a tensor's gradient, or a bucket of them. */
static const struct strategy_event *message_at(const struct grads_rank *rank, uint64_t i)
{
	return &rank->plan.events[rank->plan.step_begin + i];
}

static uint64_t message_count(const struct grads_rank *rank)
{
	return rank->plan.step_end - rank->plan.step_begin - 1;
}

static uint64_t elements_of(const struct strategy_event *event)
{
	return event->bytes / tow_type_bytes(grads_type(event));
}

/*
 * The pattern of a gradient, different for every message, step and rank. Magnitudes are in [2^-7,
 * 2^-6), of a bf16 as of a float, so nothing overflows and no sum is denormal.
 */
static struct pattern gradient_of(const struct grads_rank *rank, uint64_t step, uint64_t message,
				  int owner)
{
	uint64_t seed = (step * message_count(rank) + message) * RANKS + (uint64_t)owner;
	struct pattern p = pattern_floats(seed);

	if (grads_type(message_at(rank, message)) == TOW_BF16) {
		p.mask = UINT64_C(0x807f807f807f807f);
		p.bits = UINT64_C(0x3c003c003c003c00);
	}
	return p;
}

static int open_runtime(struct grads_rank *rank)
{
	const struct grads_options *wanted = rank->options;
	struct tow_options options = TOW_OPTIONS_INIT;
	int rc;

	/*
	 * Without --premap the environment must decide, but a field that is set here would win over
	 * it.
	 */
	if (wanted->premap != 0)
		options.premap_memory_bytes = (int64_t)wanted->premap;
	else if (getenv("TOW_PREMAP_MEMORY_BYTES") == NULL)
		options.premap_memory_bytes = (int64_t)grads_premap(&rank->plan, wanted->lane);
	options.job = "tow-grads";
	options.rank = rank->rank;
	rc = tow_runtime_open(&options, &rank->runtime);
	return rc < 0 ? grads_failed(rank->rank, "opening the runtime", rc) : 0;
}

/* Waits for an operation that was started with `status`. */
static int finish_op(struct grads_rank *rank, int status, struct tow_op *op)
{
	if (status < 0)
		return grads_failed(rank->rank, "starting an exchange", status);
	status = tow_op_wait(op, rank->options->timeout_ns);
	tow_op_release(op);
	rank->outcome.copied += status == TOW_COPIED;
	return status == TOW_OK || status == TOW_COPIED
		       ? 0
		       : grads_failed(rank->rank, "exchange", status);
}

int grads_barrier(struct grads_rank *rank)
{
	struct tow_op *op = NULL;
	int rc = tow_coll_barrier_start(rank->group, NULL, &op);

	return finish_op(rank, rc, op);
}

/* Connects the ranks for which the plan has messages. Collectives connect the others as needed. */
static int meet_neighbours(struct grads_rank *rank)
{
	const struct strategy_plan *plan = &rank->plan;
	uint32_t last = UINT32_MAX;
	int status = TOW_OK;

	for (uint64_t i = plan->step_begin; i < plan->step_end && status == TOW_OK; i++) {
		const struct strategy_event *event = &plan->events[i];
		struct tow_peer *peer;

		if (event->kind != STRATEGY_SEND || event->transfer < STRATEGY_MESSAGE ||
		    event->peer == last)
			continue;
		last = event->peer;
		status = tow_group_connect(rank->group, last, rank->options->timeout_ns, &peer);
	}
	return status < 0 ? grads_failed(rank->rank, "meeting a neighbour", status) : 0;
}

int grads_rank_open(struct grads_rank *rank)
{
	struct tow_group_options options = TOW_GROUP_OPTIONS_INIT;
	const char *lane = rank->options->lane;
	char address[TOW_ADDRESS_MAX];
	int rc = open_runtime(rank);

	if (rc != 0)
		return rc;
	options.rank = rank->rank;
	options.world_size = strategy_ranks(&rank->plan);
	options.store = rank->options->store;
	options.timeout_ns = rank->options->timeout_ns;
	if (bench_lane_address(lane, address))
		options.address = address;
	rc = tow_group_open(rank->runtime, &options, &rank->group);
	if (rc < 0)
		return grads_failed(rank->rank, "connecting to the other rank", rc);
	/*
	 * Connects before the seal. A registration after it is late: steps must not pay for
	 * start-up.
	 */
	rc = meet_neighbours(rank);
	if (rc == 0)
		rc = grads_barrier(rank);
	if (rc == 0 && tow_runtime_seal(rank->runtime) < 0)
		rc = grads_failed(rank->rank, "sealing the runtime", TOW_ESYSTEM);
	return rc == 0 ? grads_buffers_make(rank) : rc;
}

/* The state of a step while it runs. */
struct step {
	uint64_t number;
	bool makes, exchanges;
	struct {
		struct tow_op *op;
		uint64_t bucket;
	} flying[GRADS_IN_FLIGHT];
	uint64_t begun, ended;           /* all-reduces */
	uint64_t bucket;                 /* number of the bucket being filled */
	uint64_t slack_bucket;           /* lower buckets have been waited for */
	double calls_s;                  /* time in library calls so far */
	double *start_s, *start_calls_s; /* of each bucket: its start, and calls_s then */
};

/* Takes the slack of a bucket at the first wait for it. */
static void note_slack(struct grads_rank *rank, struct step *step, uint64_t bucket, double at)
{
	double slack = at - step->start_s[bucket] - (step->calls_s - step->start_calls_s[bucket]);
	struct grads_outcome *outcome = &rank->outcome;

	outcome->slack_s += slack;
	if (outcome->buckets == 0 || slack < outcome->slack_least_s)
		outcome->slack_least_s = slack;
	outcome->buckets++;
	step->slack_bucket = bucket + 1;
}

/* Waits for the oldest all-reduce. */
static int settle_bucket(struct grads_rank *rank, struct step *step)
{
	uint64_t slot = step->ended++ % GRADS_IN_FLIGHT;
	double begin = grads_now();
	int rc;

	if (step->makes && step->flying[slot].bucket >= step->slack_bucket)
		note_slack(rank, step, step->flying[slot].bucket, begin);
	rc = finish_op(rank, TOW_OK, step->flying[slot].op);
	step->flying[slot].op = NULL;
	step->calls_s += grads_now() - begin;
	return rc;
}

/* Issues messages [first, end) together. */
static int start_bucket(struct grads_rank *rank, struct step *step, uint64_t first, uint64_t end)
{
	double begin;
	int rc = 0;

	while (step->begun + (end - first) > step->ended + GRADS_IN_FLIGHT && rc == 0)
		rc = settle_bucket(rank, step);
	begin = grads_now();
	step->start_s[step->bucket] = begin;
	step->start_calls_s[step->bucket] = step->calls_s;
	if (rc == 0)
		rc = tow_coll_batch_begin(rank->group);
	for (uint64_t i = first; i < end && rc == 0; i++) {
		const struct strategy_event *event = message_at(rank, i);
		uint64_t slot = step->begun % GRADS_IN_FLIGHT;

		step->flying[slot].bucket = step->bucket;
		rc = tow_coll_all_reduce_start(rank->group, rank->buffer[event->buffer],
					       rank->buffer[event->to], elements_of(event),
					       grads_type(event), TOW_AVG, NULL,
					       &step->flying[slot].op);
		step->begun += rc >= 0;
	}
	if (rc == 0)
		rc = tow_coll_batch_end(rank->group);
	step->bucket++;
	step->calls_s += grads_now() - begin;
	return rc < 0 ? grads_failed(rank->rank, "starting a bucket", rc) : rc;
}

/* Makes the gradients from the last tensor to the first, and starts each bucket when it is full. */
static int walk_messages(struct grads_rank *rank, struct step *step)
{
	uint64_t first = 0;
	int rc = 0;

	for (uint64_t i = 0; i < message_count(rank) && rc == 0; i++) {
		const struct strategy_event *event = message_at(rank, i);

		if (step->makes)
			pattern_fill(rank->buffer[event->buffer], event->bytes,
				     gradient_of(rank, step->number, i, rank->rank));
		if (!event->issue)
			continue;
		if (step->exchanges)
			rc = start_bucket(rank, step, first, i + 1);
		first = i + 1;
	}
	while (rc == 0 && step->ended < step->begun)
		rc = settle_bucket(rank, step);
	return rc;
}

/* Runs the step, or one half of it, begun by both ranks together. */
static int run_half(struct grads_rank *rank, uint64_t number, bool makes, bool exchanges,
		    double *took)
{
	struct step step = { .number = number, .makes = makes, .exchanges = exchanges };
	double begin;
	int rc;

	step.start_s = calloc(2 * message_count(rank), sizeof(double));
	if (step.start_s == NULL)
		return grads_failed(rank->rank, "times of the buckets", TOW_ENOMEM);
	step.start_calls_s = step.start_s + message_count(rank);
	rc = grads_barrier(rank);
	begin = grads_now();
	tow_span_begin(rank->runtime, makes ? exchanges ? "step" : "make" : "exchange");
	if (rc == 0)
		rc = walk_messages(rank, &step);
	tow_span_end(rank->runtime);
	*took = grads_now() - begin;
	free(step.start_s);
	return rc;
}

/* The first element of the mean that differs from the mean of the two ranks' gradients. */
static uint64_t check_floats(const float *mean, uint64_t count, struct pattern p[RANKS])
{
	for (uint64_t i = 0; i < count; i += 2) {
		uint64_t word[RANKS] = { pattern_word(&p[0], i / 2), pattern_word(&p[1], i / 2) };
		float a[2], b[2];

		memcpy(a, &word[0], sizeof(a));
		memcpy(b, &word[1], sizeof(b));
		for (uint64_t k = 0; k < 2 && i + k < count; k++)
			if (mean[i + k] != (a[k] + b[k]) / RANKS)
				return i + k;
	}
	return PATTERN_SAME;
}

static float widen_bf16(uint16_t bits)
{
	uint32_t word = (uint32_t)bits << 16;
	float value;

	memcpy(&value, &word, sizeof(value));
	return value;
}

/* The same for bf16, which is rounded once, to nearest even. */
static uint64_t check_bf16(const uint16_t *mean, uint64_t count, struct pattern p[RANKS])
{
	for (uint64_t i = 0; i < count; i += 4) {
		uint64_t word[RANKS] = { pattern_word(&p[0], i / 4), pattern_word(&p[1], i / 4) };

		for (uint64_t k = 0; k < 4 && i + k < count; k++) {
			float want = (widen_bf16((uint16_t)(word[0] >> (16 * k))) +
				      widen_bf16((uint16_t)(word[1] >> (16 * k)))) /
				     RANKS;
			uint32_t bits;

			memcpy(&bits, &want, sizeof(bits));
			if (mean[i + k] != (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16))
				return i + k;
		}
	}
	return PATTERN_SAME;
}

static int verify_step(struct grads_rank *rank, uint64_t step)
{
	for (uint64_t i = 0; i < message_count(rank); i++) {
		const struct strategy_event *event = message_at(rank, i);
		struct pattern p[RANKS] = { gradient_of(rank, step, i, 0),
					    gradient_of(rank, step, i, 1) };
		const void *mean = rank->buffer[event->to];
		uint64_t count = elements_of(event);
		uint64_t at = grads_type(event) == TOW_BF16 ? check_bf16(mean, count, p)
							    : check_floats(mean, count, p);

		if (at != PATTERN_SAME) {
			fprintf(stderr,
				"tow-grads: WRONG MEAN at rank %d: step %" PRIu64
				", %s, first at element %" PRIu64 " of %" PRIu64 "\n",
				rank->rank, step, rank->work->tensors[event->tensor].name, at,
				count);
			return GRADS_MISMATCH;
		}
		rank->outcome.verified_bytes += event->bytes;
	}
	return 0;
}

/* Runs a training step, which is reported to the runtime for traces and verdicts. */
static int half_in_step(struct grads_rank *rank, uint64_t step, double *took)
{
	int status = tow_step_begin(rank->runtime, step + 1);
	int rc = status < 0 ? grads_failed(rank->rank, "tow_step_begin", status) : 0;

	if (rc == 0)
		rc = run_half(rank, 2 * step + 1, true, true, took);
	if (rc == 0)
		status = tow_step_end(rank->runtime, step + 1);
	return rc == 0 && status < 0 ? grads_failed(rank->rank, "tow_step_end", status) : rc;
}

/* Runs each half alone, and then both in one step with other gradients, which are checked. */
static int run_step(struct grads_rank *rank, uint64_t step)
{
	struct grads_outcome *outcome = &rank->outcome;
	double make = 0, exchange = 0, both = 0, begin;
	int rc = run_half(rank, 2 * step, true, false, &make);

	if (rc == 0)
		rc = run_half(rank, 2 * step, false, true, &exchange);
	if (rc == 0)
		rc = half_in_step(rank, step, &both);
	if (rc != 0)
		return rc;
	outcome->generate_s += make;
	outcome->exchange_s += exchange;
	outcome->both_s += both;
	if (step == 0 || exchange < outcome->fastest_s)
		outcome->fastest_s = exchange;
	if (exchange > outcome->slowest_s)
		outcome->slowest_s = exchange;
	begin = grads_now();
	rc = verify_step(rank, 2 * step + 1);
	outcome->verify_s += grads_now() - begin;
	outcome->steps = step + 1;
	return rc;
}

bool grads_rank_fits(const struct grads_rank *rank)
{
	return rank->plan.kind == STRATEGY_DATA_PARALLEL && strategy_ranks(&rank->plan) == RANKS;
}

int grads_rank_run(struct grads_rank *rank)
{
	uint64_t copied_before, ahead_before;
	double took;
	int rc = run_half(rank, 0, false, true, &took); /* maps memory, and makes the plans */

	copied_before = grads_report_counter(rank, "fallback_copies");
	ahead_before = grads_report_reason(rank, "collective_ahead");
	for (uint64_t step = 0; step < rank->options->steps && rc == 0; step++)
		rc = run_step(rank, step);
	/* The other rank may still be in its last step, so both leave together. */
	if (rc == 0)
		rc = grads_barrier(rank);
	rank->outcome.late_registrations = grads_report_counter(rank, "late_registrations");
	rank->outcome.fallback_copies =
		grads_report_counter(rank, "fallback_copies") - copied_before;
	rank->outcome.ahead_copies = grads_report_reason(rank, "collective_ahead") - ahead_before;
	return rc;
}

/* Heap buffers are freed after the runtime has let go of them; the pool's end with it. */
void grads_rank_close(struct grads_rank *rank)
{
	if (rank->group != NULL)
		tow_group_close(rank->group);
	if (rank->runtime != NULL)
		tow_runtime_close(rank->runtime);
	grads_buffers_drop(rank);
	strategy_free(&rank->plan);
}
