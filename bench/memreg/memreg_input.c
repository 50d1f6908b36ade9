/*
 * memreg_input.c - opens a job, with the events to replay and to run. The job comes from a workload
 * and a strategy, or from a log.
 *
 * A run of a log does what its replay does, so it needs no second list of events.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/memreg/tow_size.h"
#include <internal/base.h>
#include <towline/status.h>

#define PLAN_STEPS 2 /* the second step begins with what the first has left */

static int out_of_memory(void)
{
	fprintf(stderr, "tow-size: no memory for the events\n");
	return MEMREG_FAULT;
}

/*
 * Converts one event of a plan to the form of a recording. Returns false: a log does not have it.
 */
static bool as_logged(const struct strategy_event *event, uint64_t ns, struct twi_alloc_event *out)
{
	static const uint8_t kinds[] = { [STRATEGY_ALLOC] = TWI_ALLOC_ALLOC,
					 [STRATEGY_FREE] = TWI_ALLOC_FREE,
					 [STRATEGY_STEP] = TWI_ALLOC_STEP };

	if (event->kind == STRATEGY_SEND)
		return false;
	*out = (struct twi_alloc_event){ .ns = ns,
					 .id = event->buffer,
					 .bytes = event->bytes,
					 .tag = event->use,
					 .kind = kinds[event->kind],
					 .align_log2 = 6 };
	return true;
}

static int replay_plan(struct memreg_job *job)
{
	const struct strategy_plan *plan = &job->plan;
	uint64_t most = plan->count + (PLAN_STEPS - 1) * (plan->step_end - plan->step_begin);
	struct twi_alloc_event *event = calloc(most, sizeof(*event));
	uint64_t count = 0, step = 0;
	int status;

	if (event == NULL)
		return out_of_memory();
	for (uint64_t i = 0; i < plan->count; i++) {
		count += as_logged(&plan->events[i], count * 1000, &event[count]);
		if (i + 1 == plan->step_end && ++step < PLAN_STEPS)
			i = plan->step_begin - 1;
	}
	status = twi_replay_create(event, count, &job->replay);
	free(event);
	if (status == TOW_OK)
		return 0;
	fprintf(stderr, "tow-size: %s: %s\n", job->source, tow_error_message());
	return MEMREG_FAULT;
}

/*
 * A transfer within one buffer, or with another rank, sends the buffer's first half to its second.
 */
static void send_within(const struct strategy_event *event, struct memreg_op *op)
{
	if (event->buffer != STRATEGY_NO_BUFFER && event->to != STRATEGY_NO_BUFFER &&
	    event->buffer != event->to)
		return;
	op->block = event->buffer != STRATEGY_NO_BUFFER ? event->buffer : event->to;
	op->to = op->block;
	op->bytes = event->bytes / 2;
}

static int ops_of_plan(struct memreg_job *job)
{
	const struct strategy_plan *plan = &job->plan;

	job->op = calloc(plan->count, sizeof(job->op[0]));
	if (job->op == NULL)
		return out_of_memory();
	for (uint64_t i = 0; i < plan->count; i++) {
		const struct strategy_event *event = &plan->events[i];

		job->op[i] = (struct memreg_op){ event->kind, event->buffer, event->to,
						 event->bytes, 0 };
		if (event->kind == STRATEGY_SEND)
			send_within(event, &job->op[i]);
	}
	job->count = plan->count;
	job->step_begin = plan->step_begin;
	job->step_end = plan->step_end;
	job->blocks = plan->buffers;
	return 0;
}

static int open_log(const struct memreg_options *options, struct memreg_job *job)
{
	struct memreg_log log;
	int rc = memreg_log_read(options->replay, &log);

	snprintf(job->source, sizeof(job->source), "%s", options->replay);
	if (rc != 0)
		return rc;
	job->sampled = log.sampled;
	job->lost = log.lost;
	job->gaps = log.gaps;
	job->before_bytes = log.before_bytes;
	job->spread_bytes = log.spread_bytes;
	job->staging_bytes = log.staging_bytes;
	job->page_bytes = log.page_bytes;
	snprintf(job->arena, sizeof(job->arena), "%s", log.arena);
	job->replay = log.replay;
	job->names = log.names;
	job->timed = log.timed;
	job->blocks = log.replay->slots;
	return 0;
}

static int apply_sets(const struct memreg_options *options, struct strategy_plan *plan)
{
	char error[512];

	for (int i = 0; i < options->set_count; i++) {
		if (strategy_set_text(plan, options->sets[i], error, sizeof(error)) == 0)
			continue;
		fprintf(stderr, "tow-size: %s\n", error);
		return MEMREG_USAGE;
	}
	if (strategy_check(plan, error, sizeof(error)) == 0)
		return 0;
	fprintf(stderr, "tow-size: %s\n", error);
	return MEMREG_USAGE;
}

/* A tensor that this machine's memory cannot hold is an error in the file, not a size to search. */
static int check_tensors(const struct memreg_job *job)
{
	uint64_t ram = memreg_ram_total();

	for (uint64_t i = 0; i < job->work.count; i++) {
		const struct workload_tensor *tensor = &job->work.tensors[i];

		if (tensor->bytes <= ram)
			continue;
		fprintf(stderr,
			"tow-size: %s: tensor '%s' has %" PRIu64 " bytes, more than the %" PRIu64
			" bytes of this machine's memory\n",
			job->source, tensor->name, tensor->bytes, ram);
		return MEMREG_FAULT;
	}
	return 0;
}

static int open_workload(const struct memreg_options *options, struct memreg_job *job)
{
	char name[4096], path[4096], error[1024];
	const char *strategy = workload_split(options->workload, name, sizeof(name));
	enum strategy_kind kind = STRATEGY_DATA_PARALLEL;
	const char *slash;
	int rc;

	if (strategy != NULL && !strategy_parse(strategy, &kind)) {
		strategy_names(error);
		fprintf(stderr, "tow-size: strategy '%s' is none of %s\n", strategy, error);
		return MEMREG_USAGE;
	}
	if (workload_find(name, path, sizeof(path), error, sizeof(error)) != 0 ||
	    workload_load(path, options->limit, &job->work, error, sizeof(error)) != 0) {
		fprintf(stderr, "tow-size: %s\n", error);
		return MEMREG_USAGE;
	}
	slash = strrchr(path, '/');
	snprintf(job->source, sizeof(job->source), "%.255s", slash != NULL ? slash + 1 : path);
	snprintf(job->strategy, sizeof(job->strategy), "%s", strategy_name(kind));
	strategy_assume(kind, &job->work, &job->plan);
	rc = apply_sets(options, &job->plan);
	if (rc == 0)
		rc = check_tensors(job);
	if (rc == 0 && strategy_make(&job->plan, &job->work) != 0)
		rc = out_of_memory();
	if (rc == 0)
		rc = memreg_workload_library(options, job);
	if (rc == 0)
		rc = replay_plan(job);
	return rc == 0 ? ops_of_plan(job) : rc;
}

int memreg_job_open(const struct memreg_options *options, struct memreg_job *out)
{
	int rc;

	*out = (struct memreg_job){ .sampled = 1, .staging_bytes = -1 };
	out->long_runs = options->long_runs;
	rc = options->replay != NULL ? open_log(options, out) : open_workload(options, out);
	if (rc != 0)
		memreg_job_close(out);
	return rc;
}

void memreg_job_close(struct memreg_job *job)
{
	twi_replay_destroy(job->replay);
	memreg_names_free(&job->names);
	strategy_free(&job->plan);
	workload_free(&job->work);
	free(job->op);
	*job = (struct memreg_job){ .sampled = 1 };
}
