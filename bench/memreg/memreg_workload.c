/*
 * memreg_workload.c - the pool memory of the library while a workload's collectives run.
 *
 * The plan of a workload says which collectives its job starts, and when it waits for them. For
 * each of them, the library's own code chooses the plan (coll_choose.c), with the knobs of this
 * environment. That plan says how much scratch a run has. Runs of equal calls reuse the memory of
 * ended runs. So the memory at the end is that of the most runs under way at once. Small
 * all-reduces that start together are fused, in a buffer of the library's.
 *
 *   plan    | set-up |                              step | end |
 *   becomes | set-up | step with LIBRARY blocks ... | step | end, LIBRARY blocks freed |
 *
 * The worst case is assumed: each transfer is under way until it is awaited. A step is repeated in
 * the set-up until it adds nothing more.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/common/lanes.h"
#include "bench/memreg/tow_size.h"
#include "diag/knob/knob.h"
#include "transport/coll/coll.h"
#include "transport/coll/coll_local.h"
#include "transport/coll/coll_table.h"
#include "transport/engine/engine.h"
#include <internal/base.h>
#include <towline/status.h>

#define WARM_STEPS   4
#define FUSED_SPARE  4u  /* as SPARE_MAX of coll_batch.c */
#define FUSED_ALIGN  64u /* as PART_ALIGN there */
#define LANE_DEFAULT "auto"

/* Equal calls: the scratch of each run, the number of runs, and how many are under way. */
struct equal_calls {
	struct twi_coll_call call;
	uint64_t scratch_bytes;
	uint32_t runs, busy;
};

/* A buffer in which small all-reduces are fused. */
struct fused_buffer {
	uint32_t buffer; /* STRATEGY_NO_BUFFER: none yet */
	uint64_t room;
	bool busy;
};

/* A transfer of the user's that was started. Its run and its fused buffer may end with it. */
struct flying {
	uint32_t from, to;
	int64_t calls, fused; /* index; -1: none ends with it */
};

struct library_model {
	struct memreg_job *job;
	struct twi_engine *engine;
	struct twi_coll_group *group;
	struct equal_calls *calls;
	uint32_t call_count, call_room;
	struct fused_buffer fused[STRATEGY_IN_FLIGHT];
	uint32_t spare[STRATEGY_IN_FLIGHT], spare_count; /* of fused, the last one first */
	struct flying flying[STRATEGY_IN_FLIGHT];
	uint64_t begun, ended;
	struct strategy_event *out;
	uint64_t out_count, out_room;
	uint32_t buffers; /* those of the plan, then those of the library */
	uint64_t added;   /* blocks of the library in this step */
	int rc;
};

static void fail_model(struct library_model *model)
{
	if (model->rc == 0)
		fprintf(stderr, "tow-size: %s: no memory to count what collectives take\n",
			model->job->source);
	model->rc = MEMREG_FAULT;
}

static void put_event(struct library_model *model, const struct strategy_event *event)
{
	if (model->out_count == model->out_room) {
		uint64_t room = twi_max(model->out_room * 2, (uint64_t)1024);
		void *grown = realloc(model->out, room * sizeof(model->out[0]));

		if (grown == NULL) {
			fail_model(model);
			return;
		}
		model->out = grown;
		model->out_room = room;
	}
	model->out[model->out_count++] = *event;
}

static uint32_t take_block(struct library_model *model, uint64_t bytes)
{
	struct strategy_event event = { .kind = STRATEGY_ALLOC,
					.use = STRATEGY_LIBRARY,
					.buffer = model->buffers++,
					.to = STRATEGY_NO_BUFFER,
					.bytes = bytes };

	put_event(model, &event);
	model->added++;
	return event.buffer;
}

static void give_block(struct library_model *model, uint32_t buffer)
{
	struct strategy_event event = { .kind = STRATEGY_FREE,
					.buffer = buffer,
					.to = STRATEGY_NO_BUFFER };

	put_event(model, &event);
}

/* --- what the library does --- */

/*
 * The most scratch that a run takes, over the ranks that are likely to differ: first, middle, last.
 */
static uint64_t scratch_of(struct library_model *model, const struct twi_coll_call *call)
{
	struct twi_coll_group *group = model->group;
	uint32_t ranks[] = { 0, group->size / 2, group->size - 1 };
	uint64_t most = 0;

	for (size_t i = 0; i < twi_array_count(ranks) && model->rc == 0; i++) {
		const struct twi_plan_row *row;
		struct twi_plan_case what;
		struct twi_plan *plan;
		const char *why;

		group->rank = ranks[i];
		twi_coll_case(group, call, &what);
		row = twi_coll_choose(group, call, &what, &why);
		if (row == NULL || twi_plan_build(row, &what, &plan) < 0) {
			fprintf(stderr, "tow-size: %s: no plan for a collective: %s\n",
				model->job->source, tow_error_message());
			model->rc = MEMREG_FAULT;
			break;
		}
		most = twi_max(most, plan->scratch_bytes * plan->depth);
		twi_plan_free(plan);
	}
	return most;
}

static int64_t find_calls(struct library_model *model, const struct twi_coll_call *call)
{
	struct equal_calls *row;

	for (uint32_t i = 0; i < model->call_count; i++) {
		const struct twi_coll_call *seen = &model->calls[i].call;

		if (seen->kind == call->kind && seen->type == call->type &&
		    seen->count == call->count && seen->in_place == call->in_place &&
		    seen->parts == call->parts)
			return i;
	}
	if (model->call_count == model->call_room) {
		uint32_t room = twi_max(model->call_room * 2, (uint32_t)64);
		void *grown = realloc(model->calls, room * sizeof(model->calls[0]));

		if (grown == NULL) {
			fail_model(model);
			return -1;
		}
		model->calls = grown;
		model->call_room = room;
	}
	row = &model->calls[model->call_count];
	*row = (struct equal_calls){ .call = *call, .scratch_bytes = scratch_of(model, call) };
	return model->rc == 0 ? (int64_t)model->call_count++ : -1;
}

/* Begins a run. Returns the index that ends with it. */
static int64_t begin_call(struct library_model *model, const struct twi_coll_call *call)
{
	int64_t index = find_calls(model, call);
	struct equal_calls *row;

	if (index < 0)
		return -1;
	row = &model->calls[index];
	if (row->busy++ == row->runs) {
		row->runs++;
		if (row->scratch_bytes > 0)
			take_block(model, row->scratch_bytes);
	}
	return index;
}

static void end_flight(struct library_model *model)
{
	struct flying *flying = &model->flying[model->ended++ % STRATEGY_IN_FLIGHT];

	if (flying->calls >= 0)
		model->calls[flying->calls].busy--;
	if (flying->fused < 0)
		return;
	model->fused[flying->fused].busy = false;
	if (model->spare_count < FUSED_SPARE) {
		model->spare[model->spare_count++] = (uint32_t)flying->fused;
	} else {
		give_block(model, model->fused[flying->fused].buffer);
		model->fused[flying->fused] = (struct fused_buffer){ .buffer = STRATEGY_NO_BUFFER };
	}
}

static uint32_t free_fused(const struct library_model *model)
{
	for (uint32_t i = 0; i < STRATEGY_IN_FLIGHT; i++)
		if (!model->fused[i].busy && model->fused[i].buffer == STRATEGY_NO_BUFFER)
			return i;
	return 0; /* never reached: each buffer is under way or spare */
}

static int64_t begin_fused(struct library_model *model, uint64_t bytes)
{
	uint32_t index =
		model->spare_count > 0 ? model->spare[--model->spare_count] : free_fused(model);
	struct fused_buffer *fused = &model->fused[index];

	fused->busy = true;
	model->job->fuses = true;
	if (fused->room < bytes) {
		if (fused->buffer != STRATEGY_NO_BUFFER)
			give_block(model, fused->buffer);
		fused->buffer = take_block(model, bytes);
		fused->room = bytes;
	}
	return index;
}

static void begin_flight(struct library_model *model, const struct strategy_event *event,
			 int64_t calls, int64_t fused)
{
	model->flying[model->begun++ % STRATEGY_IN_FLIGHT] =
		(struct flying){ event->buffer, event->to, calls, fused };
}

static struct twi_coll_call call_of(const struct library_model *model,
				    const struct strategy_event *event)
{
	static const enum twi_coll_kind kinds[] = {
		[STRATEGY_ALL_REDUCE] = TWI_COLL_ALL_REDUCE,
		[STRATEGY_ALL_GATHER] = TWI_COLL_ALL_GATHER,
		[STRATEGY_REDUCE_SCATTER] = TWI_COLL_REDUCE_SCATTER,
		[STRATEGY_ALL_TO_ALL] = TWI_COLL_ALL_TO_ALL,
	};
	struct twi_coll_call call = { .kind = kinds[event->transfer],
				      .type = event->element_bytes == 2 ? TOW_BF16 : TOW_F32,
				      .reduce = TOW_AVG,
				      .in_place = event->buffer == event->to };

	call.count = event->bytes / tow_type_bytes(call.type);
	if (event->transfer == STRATEGY_ALL_TO_ALL)
		call.count /= model->group->size;
	return call;
}

/* The number of sends in [0, count) that are fused (run_length of coll_batch.c). */
static uint64_t fused_length(const struct library_model *model,
			     const struct strategy_event *const *sends, uint64_t count)
{
	uint64_t limit = model->engine->knobs.combine_threshold_bytes, payload = 0, length = 0;

	while (length < count && limit > 0 && sends[length]->transfer == STRATEGY_ALL_REDUCE &&
	       (sends[length]->element_bytes == 2) == (sends[0]->element_bytes == 2) &&
	       sends[length]->bytes <= limit - payload)
		payload += sends[length++]->bytes;
	return twi_max(length, (uint64_t)1);
}

static void issue_fused(struct library_model *model, const struct strategy_event *const *sends,
			uint64_t count)
{
	struct twi_coll_call call = call_of(model, sends[0]);
	uint64_t end = 0, parts = 1;
	int64_t fused, calls;

	for (uint64_t i = 0; i < count; i++) {
		end = twi_align_up(end, (uint64_t)FUSED_ALIGN) + sends[i]->bytes;
		parts = parts * 31 + sends[i]->bytes;
	}
	call.count = end / tow_type_bytes(call.type);
	call.in_place = true;
	call.parts = parts | 1;
	fused = begin_fused(model, twi_max(end, (uint64_t)FUSED_ALIGN));
	calls = begin_call(model, &call);
	for (uint64_t i = 0; i < count; i++)
		begin_flight(model, sends[i], i == 0 ? calls : -1, i == 0 ? fused : -1);
}

static void issue_sends(struct library_model *model, const struct strategy_event *const *sends,
			uint64_t count)
{
	while (model->begun + count > model->ended + STRATEGY_IN_FLIGHT)
		end_flight(model);
	for (uint64_t i = 0; i < count && model->rc == 0;) {
		uint64_t length = fused_length(model, sends + i, count - i);
		struct twi_coll_call call;

		if (length > 1) {
			issue_fused(model, sends + i, length);
		} else {
			call = call_of(model, sends[i]);
			begin_flight(model, sends[i], begin_call(model, &call), -1);
		}
		i += length;
	}
}

/* --- the plan's events --- */

/* Ends the transfers up to the last one of the buffer. */
static void settle_buffer(struct library_model *model, uint32_t buffer)
{
	uint64_t upto = model->ended;

	for (uint64_t i = model->ended; i < model->begun; i++) {
		const struct flying *flying = &model->flying[i % STRATEGY_IN_FLIGHT];

		if (flying->from == buffer || flying->to == buffer)
			upto = i + 1;
	}
	while (model->ended < upto)
		end_flight(model);
}

static bool is_collective(const struct strategy_event *event)
{
	return event->kind == STRATEGY_SEND && event->transfer != STRATEGY_MESSAGE &&
	       event->transfer != STRATEGY_RECEIVE;
}

/* Walks events [begin, end) of the plan, with what the library does meanwhile. */
static void walk_events(struct library_model *model, uint64_t begin, uint64_t end)
{
	const struct strategy_plan *plan = &model->job->plan;
	const struct strategy_event *held[STRATEGY_IN_FLIGHT];
	uint64_t held_count = 0;

	for (uint64_t i = begin; i < end && model->rc == 0; i++) {
		const struct strategy_event *event = &plan->events[i];

		if (event->kind == STRATEGY_FREE)
			settle_buffer(model, event->buffer);
		if (event->kind == STRATEGY_STEP)
			while (model->ended < model->begun)
				end_flight(model);
		if (is_collective(event)) {
			held[held_count++] = event;
			if (event->issue || held_count == STRATEGY_IN_FLIGHT) {
				issue_sends(model, held, held_count);
				held_count = 0;
			}
		}
		put_event(model, event);
	}
}

/* Frees the blocks of the library that are live at the end. */
static void free_library(struct library_model *model)
{
	uint32_t first = model->job->plan.buffers, count = model->buffers - first;
	bool *live = calloc(count + 1u, sizeof(*live));

	if (live == NULL) {
		fail_model(model);
		return;
	}
	for (uint64_t i = 0; i < model->out_count; i++)
		if (model->out[i].buffer >= first && model->out[i].buffer < model->buffers &&
		    model->out[i].kind != STRATEGY_SEND)
			live[model->out[i].buffer - first] = model->out[i].kind == STRATEGY_ALLOC;
	for (uint32_t i = 0; i < count; i++)
		if (live[i])
			give_block(model, first + i);
	free(live);
}

/* Takes the memory of a group's set-up: scratch to gather its ranks' records, and its region. */
static void take_setup(struct library_model *model)
{
	const struct twi_coll_call records = { .kind = TWI_COLL_ALL_GATHER,
					       .type = TOW_U64,
					       .count = 1,
					       .in_place = true,
					       .set_up = true };
	struct twi_coll_group whole = *model->group, *group = model->group;
	uint64_t bytes;

	group->all_local = false;
	group->hosts = NULL;
	group->hosts_n = group->local_ranks_n = group->locals_n = 0;
	bytes = scratch_of(model, &records);
	*group = whole;
	if (bytes > 0)
		take_block(model, bytes);
	if (group->all_local)
		take_block(model, sizeof(struct twi_coll_region));
}

static void rewrite_plan(struct library_model *model)
{
	struct strategy_plan *plan = &model->job->plan;
	uint64_t step = plan->step_end - plan->step_begin, begin;

	take_setup(model);
	walk_events(model, 0, plan->step_begin);
	for (int i = 0; i < WARM_STEPS && model->rc == 0 && (i == 0 || model->added > 0); i++) {
		model->added = 0;
		walk_events(model, plan->step_begin, plan->step_end);
	}
	begin = model->out_count;
	for (uint64_t i = 0; i < step; i++)
		put_event(model, &plan->events[plan->step_begin + i]);
	for (uint64_t i = plan->step_end; i < plan->count; i++)
		put_event(model, &plan->events[i]);
	free_library(model);
	if (model->rc != 0)
		return;
	free(plan->events);
	plan->events = model->out;
	plan->count = model->out_count;
	plan->step_begin = begin;
	plan->step_end = begin + step;
	plan->buffers = model->buffers;
	model->out = NULL;
}

/* --- the group of the job --- */

/* Fills in a group as after its set-up. `local`: all ranks are on one host and share memory. */
static int fill_group(struct twi_coll_group *group, struct twi_engine *engine, uint32_t size,
		      bool local)
{
	group->engine = engine;
	group->size = size;
	group->hosts = calloc(size, sizeof(group->hosts[0]));
	group->local_ranks = calloc(size, sizeof(group->local_ranks[0]));
	if (group->hosts == NULL || group->local_ranks == NULL)
		return -1;
	for (uint32_t i = 0; i < size; i++) {
		group->hosts[i] = local ? 0 : i;
		group->local_ranks[i] = i;
	}
	group->hosts_n = local ? 1 : size;
	group->all_local = local && size > 1;
	group->local_ranks_n = group->locals_n = group->all_local ? size : 0;
	group->peers_write = engine->knobs.shm_peer_writes;
	return 0;
}

static int open_model(struct library_model *model, bool local)
{
	const struct tow_options options = TOW_OPTIONS_INIT;
	int status = TOW_OK;

	model->buffers = model->job->plan.buffers;
	for (uint32_t i = 0; i < STRATEGY_IN_FLIGHT; i++)
		model->fused[i].buffer = STRATEGY_NO_BUFFER;
	model->engine = calloc(1, sizeof(*model->engine));
	model->group = calloc(1, sizeof(*model->group));
	if (model->engine == NULL || model->group == NULL) {
		fail_model(model);
		return model->rc;
	}
	status = twi_knob_resolve(&options, &model->engine->knobs);
	if (status == TOW_OK)
		status = twi_coll_table_load(model->engine->knobs.coll_table,
					     &model->engine->coll_table);
	if (status < 0) {
		fprintf(stderr, "tow-size: %s\n", tow_error_message());
		return MEMREG_USAGE;
	}
	if (fill_group(model->group, model->engine, strategy_ranks(&model->job->plan), local) != 0)
		fail_model(model);
	return model->rc;
}

static void close_model(struct library_model *model)
{
	if (model->group != NULL) {
		free(model->group->hosts);
		free(model->group->local_ranks);
	}
	if (model->engine != NULL)
		twi_coll_table_free(model->engine->coll_table);
	free(model->group);
	free(model->engine);
	free(model->calls);
	free(model->out);
}

/*
 * Whether the ranks of the lane share memory, by the group's own rule (where_is of coll_setup.c).
 */
static int judge_lane(const char *lane, bool *local_out)
{
	char address[TOW_ADDRESS_MAX], names[BENCH_LANES_HELP_BYTES];

	*local_out = strcmp(lane, LANE_DEFAULT) == 0 || bench_lane_is_host(lane);
	if (*local_out || bench_lane_address(lane, address))
		return 0;
	bench_lane_names(names);
	fprintf(stderr, "tow-size: --set lane takes %s or %s, not '%s'\n", names, LANE_DEFAULT,
		lane);
	return MEMREG_USAGE;
}

int memreg_workload_library(const struct memreg_options *options, struct memreg_job *job)
{
	struct library_model model = { .job = job };
	bool local;
	int rc;

	snprintf(job->lane, sizeof(job->lane), "%s",
		 options->lane != NULL ? options->lane : LANE_DEFAULT);
	rc = judge_lane(job->lane, &local);
	if (rc != 0 || strategy_ranks(&job->plan) < 2)
		return rc;
	rc = open_model(&model, local);
	if (rc == 0) {
		rewrite_plan(&model);
		rc = model.rc;
	}
	close_model(&model);
	return rc;
}
