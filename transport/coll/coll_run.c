/*
 * coll_run.c - runs a collective from its start to its end. coll.h draws the states.
 */
#include "transport/coll/coll_run.h"

#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/coll/coll_line.h"
#include "transport/coll/coll_local.h"
#include "transport/coll/coll_pipeline.h"
#include "transport/coll/coll_quick.h"
#include "transport/coll/coll_report.h"
#include "transport/coll/coll_room.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/job/group.h"
#include "transport/op/own_memory.h"

/*
 * How often a start looks for the others, some 150 ns in all, before it leaves that to polls. Where
 * all ranks come together, the collective is over when the start returns.
 */
#define SPINS 16u
/*
 * Where ranks share CPUs, a wait gives this CPU to another rank, whose turn takes 1.4 us. It pays
 * to spin some 0.5 us for ranks that run on other CPUs.
 */
#define CROWD_SPINS 50u

struct twi_coll_run *twi_coll_run_of(struct twi_coll_group *coll, uint64_t seq)
{
	struct twi_list *pos, *next;

	twi_assert_held(coll->engine);
	twi_list_for_each_safe (pos, next, &coll->runs) {
		struct twi_coll_run *run = twi_container_of(pos, struct twi_coll_run, link);

		if (run->seq == seq)
			return run;
	}
	return NULL;
}

static int make_scratch(struct twi_coll_group *coll, struct twi_coll_run *run)
{
	const struct twi_plan *plan = run->entry->plan;

	if (plan->scratch_bytes == 0)
		return TOW_OK;
	return twi_own_take_any(coll->engine, plan->scratch_bytes * plan->depth, 64, TWI_SITE_NONE,
				&run->scratch);
}

int twi_coll_run_make(struct twi_coll_group *coll, struct twi_coll_entry *entry,
		      struct twi_coll_run **out)
{
	struct twi_list *pos = twi_list_first(&entry->spare);
	struct twi_coll_run *run;
	int status;

	if (twi_likely(pos != NULL)) {
		twi_list_remove(pos);
		*out = twi_container_of(pos, struct twi_coll_run, link);
		return TOW_OK;
	}
	run = calloc(1, sizeof(*run) + entry->io_count * sizeof(run->ios[0]) +
				(size_t)entry->program_steps * entry->plan->depth);
	if (run == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a collective");
	twi_list_init(&run->link);
	twi_list_init(&run->polled);
	run->coll = coll;
	run->entry = entry;
	run->io_count = entry->io_count;
	run->states = (uint8_t *)&run->ios[run->io_count];
	for (uint32_t i = 0; i < run->io_count; i++) {
		run->ios[i].run = run;
		run->ios[i].next_free = (uint16_t)(i + 1 < run->io_count ? i + 2 : 0);
	}
	run->io_free = run->io_count > 0;
	status = make_scratch(coll, run);
	if (status < 0) {
		free(run);
		return status;
	}
	*out = run;
	return TOW_OK;
}

void twi_coll_run_free(struct twi_coll_run *run)
{
	twi_own_give_any(run->coll->engine, &run->scratch);
	free(run);
}

/* The position behind all runs of its priority or a higher one: mostly the end. */
static struct twi_list *polled_before(struct twi_coll_group *coll, const struct twi_coll_run *run)
{
	struct twi_list *at = &coll->polled;

	while (at->prev != &coll->polled &&
	       twi_container_of(at->prev, struct twi_coll_run, polled)->priority < run->priority)
		at = at->prev;
	return at;
}

void twi_coll_run_poll(struct twi_coll_run *run)
{
	struct twi_coll_group *coll = run->coll;

	if (!twi_list_empty(&run->polled))
		return;
	twi_coll_activate(coll);
	twi_list_push_back(polled_before(coll, run), &run->polled);
}

static void no_poll(struct twi_coll_run *run)
{
	struct twi_coll_group *coll = run->coll;

	if (twi_list_empty(&run->polled))
		return;
	twi_list_remove(&run->polled);
	if (twi_list_empty(&coll->polled) && coll->setup == NULL)
		twi_list_remove(&coll->active);
}

/* --- connections --- */

static void on_connected(struct tow_op *op, const struct tow_result *result)
{
	struct twi_coll_run *run = result->user;
	int status = result->status;

	if (status < 0 && run->state != TWI_COLL_FAILING)
		status = twi_coll_unreached(run->coll, op);
	tow_op_release(op);
	run->connects--;
	if (run->state == TWI_COLL_FAILING)
		twi_coll_run_poll(run);
	else if (status < 0)
		twi_coll_run_fail(run, status);
	else if (run->connects == 0)
		twi_coll_run_turn(run);
}

/* Connects to a rank of the job, unless it is connected. */
static int connect_one(struct twi_coll_run *run, uint32_t job_rank)
{
	const struct tow_op_options options = { .size = sizeof(options),
						.timeout_ns = TOW_FOREVER,
						.done = on_connected,
						.user = run };
	struct twi_ranks *ranks = run->coll->ranks;
	struct tow_op *op;
	int status;

	if (ranks->slots[job_rank].state == TWI_SLOT_UP)
		return TOW_OK;
	status = twi_ranks_connect(ranks, job_rank, TWI_SPACE_LINK, &options, &op);
	if (status == TOW_OK)
		run->connects++;
	return status;
}

/* Connects to all ranks that the plan has messages for. Also to both neighbours, whose signatures
 * are compared with this rank's. */
static int connect_all(struct twi_coll_run *run)
{
	struct twi_coll_entry *entry = run->entry;
	struct twi_coll_group *coll = run->coll;
	int status;

	for (uint32_t i = 0; i < entry->peer_count; i++) {
		status = connect_one(run, coll->members[entry->peers[i]]);

		if (status < 0)
			return status;
	}
	if (!entry->signs)
		return TOW_OK;
	status = connect_one(run, coll->members[(coll->rank + 1) % coll->size]);
	if (status == TOW_OK)
		status =
			connect_one(run, coll->members[(coll->rank + coll->size - 1) % coll->size]);
	return status;
}

/* --- chains --- */

static bool begin_chain(struct twi_coll_run *run, struct twi_coll_chain *chain)
{
	const struct twi_plan *plan = run->entry->plan;
	const struct twi_plan_program *program;

	while (run->program < plan->program_count &&
	       run->repeat == plan->programs[run->program].repeats) {
		run->program++;
		run->repeat = 0;
	}
	if (run->program == plan->program_count)
		return false;
	program = &plan->programs[run->program];
	if (program->fence && run->repeat == 0 && run->active > 0)
		return false;
	*chain = (struct twi_coll_chain){ .active = true,
					  .program = run->program,
					  .repeat = run->repeat++,
					  .index = run->begun++,
					  .next = program->first,
					  .ahead = program->first,
					  .end = program->first + program->count };
	if (program->count > 0)
		chain->stage = plan->steps[program->first].stage;
	memset(twi_coll_states(run, chain), TWI_COLL_NOT_SENT, program->count);
	run->active++;
	return true;
}

/* Gives each chain a turn. */
static bool move_chains(struct twi_coll_run *run)
{
	bool any = false;

	for (uint32_t i = 0; i < run->entry->plan->depth; i++) {
		struct twi_coll_chain *chain = &run->chains[i];

		if (!chain->active && !begin_chain(run, chain))
			continue;
		any |= twi_coll_chain_turn(run, chain);
		if (twi_unlikely(run->state != TWI_COLL_MOVING))
			return true; /* it has failed */
	}
	return any;
}

static bool all_moved(const struct twi_coll_run *run)
{
	const struct twi_plan *plan = run->entry->plan;

	return run->active == 0 && (run->program == plan->program_count ||
				    (run->program == plan->program_count - 1 &&
				     run->repeat == plan->programs[run->program].repeats));
}

/* --- the end --- */

static void finish_run(struct twi_coll_run *run, int status)
{
	struct twi_coll_group *coll = run->coll;
	struct tow_op *op = run->op;

	run->op = NULL;
	no_poll(run);
	twi_coll_room_give(run);
	if (twi_unlikely(run->scaled.memory != NULL))
		twi_own_give_any(coll->engine, &run->scaled);
	twi_coll_record_end(run, op, status);
	if (op != NULL)
		twi_op_complete(op, status, run->entry->out_bytes);
	twi_list_remove(&run->link);
	twi_list_push_front(&run->entry->spare, &run->link);
	run->entry->users--;
	twi_coll_over(run);
}

/* Ends the failed run, if nothing of it is under way and no rank of this host uses its memory. */
static bool fail_at_last(struct twi_coll_run *run)
{
	if (run->busy > 0 || run->connects > 0)
		return false; /* their ends have the run polled again */
	twi_coll_slot_leave(run);
	if (twi_coll_slot_in_use(run)) {
		twi_coll_run_poll(run);
		return false;
	}
	twi_error(run->status, "%s", run->coll->why);
	finish_run(run, run->status);
	return true;
}

void twi_coll_run_fail(struct twi_coll_run *run, int status)
{
	if (run->state != TWI_COLL_FAILING) {
		run->state = TWI_COLL_FAILING;
		run->status = status;
		twi_coll_break(run->coll, run->seq, status, true);
		twi_coll_ios_abort(run);
		if (run->connects > 0)
			twi_ranks_give_up(run->coll->ranks, run);
	}
	/* a poll ends the run, since its own steps may be on the stack here */
	twi_coll_run_poll(run);
}

/* --- states --- */

static bool begin_run(struct twi_coll_run *run)
{
	struct twi_coll_group *coll = run->coll;
	int status;

	if (run->seq > coll->series.finished + TWI_COLL_SLOTS)
		return false; /* its slot belongs to an older seq; twi_coll_over goes on with it */
	if (coll->locals_n > 0 && !twi_coll_slot_free(coll, run->seq)) {
		twi_coll_run_poll(run);
		return false;
	}
	run->state = TWI_COLL_CONNECTING;
	if (twi_unlikely(!run->entry->connected)) {
		status = connect_all(run);
		if (status < 0) {
			twi_coll_run_fail(run, status);
			return false;
		}
	}
	return true;
}

/* Result of running one state. */
enum turn { STUCK, GOES_ON, OVER };

static enum turn end_run(struct twi_coll_run *run)
{
	/* busy: this rank's signature is still being sent, and its completion needs this run */
	if (run->entry->signs && (!run->agreed || run->busy > 0))
		return STUCK;
	finish_run(run, TOW_OK);
	return OVER;
}

static enum turn connect_turn(struct twi_coll_run *run)
{
	if (run->connects > 0)
		return STUCK;
	run->entry->connected = true;
	run->state = TWI_COLL_STAGING;
	if (run->entry->signs)
		twi_coll_sign(run);
	return GOES_ON;
}

/* Runs the pipeline. The plan has come to its first meeting, and goes no further. */
static enum turn pipeline_turn(struct twi_coll_run *run)
{
	uint64_t work = run->coll->engine->coll_work;
	int status = twi_coll_pipeline_turn(run);

	if (status == TOW_AGAIN) {
		twi_coll_run_poll(run);
		return run->coll->engine->coll_work != work ? GOES_ON : STUCK;
	}
	if (status < 0) {
		twi_coll_run_fail(run, status);
		return STUCK;
	}
	for (uint32_t i = 0; i < run->entry->plan->depth; i++)
		run->chains[i].active = false;
	run->active = 0;
	run->state = TWI_COLL_AGREEING;
	return GOES_ON;
}

static enum turn move_turn(struct twi_coll_run *run)
{
	bool any;

	if (run->pipelined)
		return pipeline_turn(run);
	any = move_chains(run);

	if (run->state != TWI_COLL_MOVING)
		return STUCK;
	if (all_moved(run)) {
		run->state = TWI_COLL_UNSTAGING;
		return GOES_ON;
	}
	return any ? GOES_ON : STUCK;
}

static enum turn state_turn(struct twi_coll_run *run)
{
	if (twi_unlikely(run->suspicion < 0 && run->state != TWI_COLL_FAILING)) {
		twi_coll_suspicious(run);
		return STUCK;
	}
	switch (run->state) {
	case TWI_COLL_QUEUED:
		return begin_run(run) ? GOES_ON : STUCK;
	case TWI_COLL_CONNECTING:
		return connect_turn(run);
	case TWI_COLL_STAGING:
		if (twi_unlikely(run->scale != 0) && !twi_coll_scale(run))
			return STUCK;
		if (!twi_coll_stage(run))
			return STUCK;
		run->moving_ns = twi_engine_batch_now(run->coll->engine);
		run->state = TWI_COLL_MOVING;
		return GOES_ON;
	case TWI_COLL_MOVING:
		return move_turn(run);
	case TWI_COLL_UNSTAGING:
		if (!twi_coll_unstage(run))
			return STUCK;
		run->state = TWI_COLL_AGREEING;
		return GOES_ON;
	case TWI_COLL_AGREEING:
		return end_run(run);
	default:
		return fail_at_last(run) ? OVER : STUCK;
	}
}

/* Flushes the lanes, so that the messages of a turn leave together. */
static void uncork_messages(struct twi_engine *engine, uint64_t messages)
{
	engine->corked = false;
	if (engine->coll_messages == messages)
		return;
	twi_engine_flush_messages(engine);
}

/* Fast path, from QUEUED to MOVING: there is nothing to connect, stage or send. */
void twi_coll_run_give(struct twi_coll_run *run)
{
	if (run->entry->quick == NULL || run->scale != 0 || !begin_run(run))
		return;
	run->state = TWI_COLL_MOVING;
	run->moving_ns = twi_engine_batch_now(run->coll->engine);
	twi_coll_quick_give(run);
}

/* Runs a plan of the fast path, to completion if that takes few spins. */
static bool quick_turn(struct twi_coll_run *run, unsigned spins)
{
	int status;

	if (run->state == TWI_COLL_QUEUED) {
		twi_coll_run_give(run);
		if (run->state == TWI_COLL_QUEUED)
			return false;
	}
	status = twi_coll_sync_test(run);
	if (status == TOW_AGAIN && run->coll->crowd && twi_coll_sync_elsewhere(run))
		spins = CROWD_SPINS;
	while (status == TOW_AGAIN && spins-- > 0) {
		twi_pause_cpu();
		status = twi_coll_sync_test(run);
	}
	if (status == TOW_AGAIN) {
		twi_coll_run_poll(run);
		return false;
	}
	if (status < 0) {
		twi_coll_run_fail(run, status);
		return true;
	}
	twi_coll_quick_take(run);
	finish_run(run, TOW_OK);
	return true;
}

static bool is_quick(const struct twi_coll_run *run)
{
	return run->entry->quick != NULL && run->scale == 0 && run->state != TWI_COLL_FAILING &&
	       run->suspicion == 0;
}

void twi_coll_run_start(struct twi_coll_run *run)
{
	const struct twi_coll_group *coll = run->coll;

	if (twi_likely(is_quick(run)))
		quick_turn(run, coll->crowd || coll->series.in_flight > 1 ? 0 : SPINS);
	else
		twi_coll_run_turn(run);
}

bool twi_coll_run_turn(struct twi_coll_run *run)
{
	struct twi_engine *engine = run->coll->engine;
	uint64_t work = engine->coll_work, messages = engine->coll_messages;
	bool any = false, corked = engine->corked;
	enum turn turn;

	if (is_quick(run))
		return quick_turn(run, 0);
	/*
	 * A long local step leaves the engine between its pieces. `coll_work` goes up with each
	 * piece, and a poll does the next one.
	 */
	engine->corked = true;
	do {
		turn = state_turn(run);
		any |= turn != STUCK;
	} while (turn == GOES_ON && engine->coll_work - work < TWI_COLL_TURN_BYTES);
	if (turn == GOES_ON)
		twi_coll_run_poll(run);
	if (!corked)
		uncork_messages(engine, messages);
	return any || engine->coll_work != work;
}
