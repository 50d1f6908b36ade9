/*
 * coll_step.c - executes the steps of a plan: messages, copies, reductions. plan.h defines them.
 *
 * Budget: each step of messages is one call of the lane. A local step is done in pieces of
 * PIECE_BYTES; after each of them the engine may turn to other work.
 */
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "transport/coll/coll_line.h"
#include "transport/coll/coll_local.h"
#include "transport/coll/coll_pipeline.h"
#include "transport/coll/coll_room.h"
#include "transport/coll/reduce/reduce.h"
#include "transport/engine/engine.h"
#include "transport/job/group.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/op/own_memory.h"
#include "transport/op/path.h"

#define PIECE_BYTES (256u << 10)

/*
 * Bit 63 is set, unlike in the tags of barriers; bit 62 is clear, unlike in those of greetings
 * (group.h). Part of the signature is in the tag. So messages of ranks that made different calls do
 * not match, and no rank takes their bytes for a result. The tag of the signature's own message has
 * no part of it (coll_fail.c).
 */
uint64_t twi_coll_tag(const struct twi_coll_run *run, uint16_t chain, uint16_t tag)
{
	uint64_t within = (uint64_t)chain << 16 | tag;

	if (chain != TWI_COLL_SIGN_CHAIN)
		within ^= run->entry->signature >> 1 & 0x7fffffff;
	return 1ull << 63 | (uint64_t)run->coll->ctx << 48 | (run->seq & 0xffff) << 32 | within;
}

/* Whether later stages may begin before this message has ended (coll_early.c). */
static bool is_late(const struct twi_coll_run *run, uint32_t index)
{
	return run->entry->early != NULL && run->entry->plan->steps[index].kind == TWI_PLAN_SEND &&
	       run->entry->early[index] > 0;
}

/* A message has ended, or could not be started. */
static void message_over(struct twi_coll_run *run, struct twi_coll_io *io, bool there)
{
	struct twi_coll_chain *chain = &run->chains[io->chain];
	const struct twi_plan_step *step = &run->entry->plan->steps[io->step];
	uint32_t first = run->entry->plan->programs[chain->program].first;

	twi_coll_states(run, chain)[io->step - first] = there ? TWI_COLL_THERE : TWI_COLL_NOT_SENT;
	if (is_late(run, io->step))
		chain->late--;
	else if (io->step < chain->next && step->stage == chain->stage)
		chain->pending--;
	else
		run->early--;
	io->busy = false;
	io->next_free = run->io_free;
	run->io_free = (uint16_t)(io - run->ios + 1);
	run->busy--;
}

static void on_message(struct tow_op *op, const struct tow_result *result)
{
	struct twi_coll_io *io = twi_container_of(op, struct twi_coll_io, op);
	struct twi_coll_run *run = io->run;
	bool expected = op->kind == TWI_OP_SEND || result->bytes == op->bytes;

	message_over(run, io, true);
	if (run->entered_ns == 0 && op->kind == TWI_OP_RECV)
		run->entered_ns = twi_engine_batch_now(run->coll->engine);
	if (run->state == TWI_COLL_FAILING) {
		twi_coll_run_poll(run);
	} else if (result->status < 0 || !expected) {
		twi_coll_message_failed(run, op, result);
	} else {
		twi_coll_run_turn(run);
	}
}

/* Takes an io for step `index`, and counts it for the stage, as late or as early. */
static struct twi_coll_io *take_io(struct twi_coll_run *run, struct twi_coll_chain *chain,
				   uint32_t index, bool early)
{
	uint32_t first = run->entry->plan->programs[chain->program].first;
	struct twi_coll_io *io = &run->ios[run->io_free - 1];

	run->io_free = io->next_free;
	io->chain = (uint32_t)(chain - run->chains);
	io->step = index;
	io->busy = true;
	run->busy++;
	if (early)
		run->early++;
	else if (is_late(run, index))
		chain->late++;
	else
		chain->pending++;
	twi_coll_states(run, chain)[index - first] = TWI_COLL_UNDER_WAY;
	run->coll->engine->coll_messages++;
	return io;
}

/* TOW_OK: the message is under way. TOW_AGAIN: the run has as many under way as it may. */
static int start_message(struct twi_coll_run *run, struct twi_coll_chain *chain, uint32_t index,
			 bool early)
{
	const struct twi_plan_step *step = &run->entry->plan->steps[index];
	const struct twi_plan_ref *ref = twi_plan_refs(run->entry->plan, step);
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = TOW_FOREVER, .done = on_message, .user = NULL
	};
	struct twi_coll_group *coll = run->coll;
	const struct twi_slot *slot = &coll->ranks->slots[coll->members[step->peer]];
	struct twi_message message = { .kind = step->kind == TWI_PLAN_SEND ? TWI_OP_SEND
									   : TWI_OP_RECV,
				       .space = TWI_SPACE_GROUP,
				       .bytes = step->bytes,
				       .tag = twi_coll_tag(run, (uint16_t)chain->index, step->tag),
				       .site = run->site };
	struct twi_coll_io *io;
	struct tow_op *op;
	int status;

	if (run->io_free == 0)
		return TOW_AGAIN;
	if (slot->state != TWI_SLOT_UP)
		return twi_error(TOW_EPEER, "the connection to rank %u has gone", step->peer);
	status = twi_coll_resolve(run, chain, ref, step->bytes, step->kind == TWI_PLAN_RECV,
				  &message.data);
	if (status != TOW_OK)
		return status;
	io = take_io(run, chain, index, early);
	message.op = &io->op;
	message.parent = twi_coll_span_id(run->coll, run->seq);
	status = twi_message_start(slot->peer, &message, &options, &op);
	if (status < 0) {
		if (!early)
			/* so that message_over() counts it as a message of the stage */
			chain->next++;
		message_over(run, io, false);
	}
	return status;
}

/* Posts receives of later stages whose memory is free already (coll_early.c). */
static int post_early(struct twi_coll_run *run, struct twi_coll_chain *chain)
{
	const struct twi_coll_entry *entry = run->entry;

	for (; chain->ahead < chain->end; chain->ahead++) {
		const struct twi_plan_step *step = &entry->plan->steps[chain->ahead];
		int status;

		if (step->kind != TWI_PLAN_RECV || step->stage <= chain->stage)
			continue;
		if (entry->early[chain->ahead] > chain->stage || run->early >= run->io_count / 2 ||
		    run->io_free == 0)
			return TOW_OK;
		status = start_message(run, chain, chain->ahead, true);
		if (status != TOW_OK) /* TOW_AGAIN, too */
			return status;
	}
	return TOW_OK;
}

/* Handles a message of the stage that begins. Early ones are under way, or have ended. */
static int take_message(struct twi_coll_run *run, struct twi_coll_chain *chain)
{
	uint32_t first = run->entry->plan->programs[chain->program].first;

	switch (twi_coll_states(run, chain)[chain->next - first]) {
	case TWI_COLL_NOT_SENT:
		return start_message(run, chain, chain->next, false);
	case TWI_COLL_UNDER_WAY:
		chain->pending++;
		run->early--;
		return TOW_OK;
	default:
		return TOW_OK;
	}
}

static void abort_io(struct twi_coll_io *io)
{
	struct tow_op *op = &io->op;

	/* The lane must not see an operation that has completed: the peer may have gone. */
	if (io->busy && op->stage != TWI_STAGE_COMPLETING)
		op->peer->lane->ops->abort(op->peer, op, TOW_ECANCELED, true);
}

void twi_coll_ios_abort(struct twi_coll_run *run)
{
	abort_io(&run->sign_in);
	abort_io(&run->sign_out);
	for (uint32_t i = 0; i < run->io_count; i++)
		abort_io(&run->ios[i]);
}

/* --- local steps --- */

/* Finds the address of a ref, `done` bytes further on. */
static int resolve_ref(struct twi_coll_run *run, const struct twi_coll_chain *chain,
		       const struct twi_plan_step *step, uint32_t ref, bool write, void **out)
{
	int status = twi_coll_resolve(run, chain, &run->entry->plan->refs[step->ref + ref],
				      step->bytes, write, out);

	if (status == TOW_OK)
		*out = (uint8_t *)*out + chain->done;
	return status;
}

static int copy_piece(struct twi_coll_run *run, struct twi_coll_chain *chain,
		      const struct twi_plan_step *step, uint64_t bytes)
{
	void *to, *from;
	int status = resolve_ref(run, chain, step, 0, true, &to);

	if (status == TOW_OK)
		status = resolve_ref(run, chain, step, 1, false, &from);
	if (status == TOW_OK && to != from)
		twi_path_copy_large(run->coll->engine->diag, to, from, bytes,
				    twi_max(run->entry->in_bytes, run->entry->out_bytes),
				    chain->done == 0);
	return status;
}

static int reduce_piece(struct twi_coll_run *run, struct twi_coll_chain *chain,
			const struct twi_plan_step *step, uint64_t bytes)
{
	const struct twi_coll_call *call = &run->entry->call;
	const void *sources[TWI_PLAN_SOURCES_MAX];
	void *results[TWI_PLAN_SOURCES_MAX], *at;
	struct twi_reduction reduction = { .type = call->type,
					   .reduce = call->reduce,
					   .ranks = step->divide ? run->coll->size : 0,
					   .sources_n = step->sources_n,
					   .results_n = step->results_n,
					   .sources = sources,
					   .results = results,
					   .count = bytes / tow_type_bytes(call->type),
					   .stream = run->entry->stream };
	int status;

	for (uint32_t i = 0; i < step->results_n; i++) {
		status = resolve_ref(run, chain, step, i, true, &results[i]);
		if (status != TOW_OK) /* TOW_AGAIN, too */
			return status;
	}
	for (uint32_t i = 0; i < step->sources_n; i++) {
		status = resolve_ref(run, chain, step, step->results_n + i, false, &at);
		if (status != TOW_OK)
			return status;
		sources[i] = at;
	}
	twi_reduce(&reduction);
	return TOW_OK;
}

static int zero_piece(struct twi_coll_run *run, struct twi_coll_chain *chain,
		      const struct twi_plan_step *step, uint64_t bytes)
{
	void *to;
	int status = resolve_ref(run, chain, step, 0, true, &to);

	if (status == TOW_OK)
		memset(to, 0, bytes);
	return status;
}

/* Does the next piece. TOW_OK: the step is done; TOW_AGAIN: there is more. */
static int local_piece(struct twi_coll_run *run, struct twi_coll_chain *chain,
		       const struct twi_plan_step *step)
{
	uint64_t bytes = twi_min(step->bytes - chain->done, (uint64_t)PIECE_BYTES);
	int status = step->kind == TWI_PLAN_COPY     ? copy_piece(run, chain, step, bytes)
		     : step->kind == TWI_PLAN_REDUCE ? reduce_piece(run, chain, step, bytes)
						     : zero_piece(run, chain, step, bytes);

	if (status != TOW_OK) {
		if (status == TOW_AGAIN) /* memory of another rank is not mapped yet */
			twi_coll_run_poll(run);
		return status;
	}
	chain->done += bytes;
	run->coll->engine->coll_work += bytes;
	if (chain->done < step->bytes) {
		twi_coll_run_poll(run);
		return TOW_AGAIN;
	}
	chain->done = 0;
	return TOW_OK;
}

static int sync_step(struct twi_coll_run *run, struct twi_coll_chain *chain)
{
	int status = TOW_OK;

	if (!chain->posted)
		status = twi_coll_sync_post(run);
	if (status != TOW_OK) {
		if (status == TOW_AGAIN)
			twi_coll_run_poll(run);
		return status;
	}
	chain->posted = true;
	status = twi_coll_sync_test(run);
	if (status == TOW_OK)
		chain->posted = false;
	if (status == TOW_OK && run->syncs == 1 && twi_coll_pipeline_begins(run))
		status = TOW_AGAIN;
	if (status == TOW_AGAIN)
		twi_coll_run_poll(run);
	return status;
}

static int step_turn(struct twi_coll_run *run, struct twi_coll_chain *chain)
{
	const struct twi_plan_step *step = &run->entry->plan->steps[chain->next];

	switch (step->kind) {
	case TWI_PLAN_SEND:
	case TWI_PLAN_RECV:
		return take_message(run, chain);
	case TWI_PLAN_SYNC:
		return sync_step(run, chain);
	default:
		return local_piece(run, chain, step);
	}
}

/* Whether a send is under way whose memory that stage writes to. */
static bool late_for(struct twi_coll_run *run, const struct twi_coll_chain *chain, uint16_t stage)
{
	const struct twi_coll_entry *entry = run->entry;
	uint32_t first = entry->plan->programs[chain->program].first;

	for (uint32_t i = first; i < chain->next; i++) {
		if (is_late(run, i) && entry->early[i] <= stage &&
		    twi_coll_states(run, chain)[i - first] == TWI_COLL_UNDER_WAY)
			return true;
	}
	return false;
}

bool twi_coll_chain_turn(struct twi_coll_run *run, struct twi_coll_chain *chain)
{
	const struct twi_plan_step *steps = run->entry->plan->steps;
	uint64_t work = run->coll->engine->coll_work;
	bool any = false;
	int status;

	while (chain->next < chain->end) {
		status = TOW_OK;
		if (steps[chain->next].stage != chain->stage) {
			if (run->entry->early != NULL)
				status = post_early(run, chain);
			if (status == TOW_OK &&
			    (chain->pending > 0 ||
			     (chain->late > 0 && late_for(run, chain, steps[chain->next].stage))))
				return any;
			chain->stage = steps[chain->next].stage;
		}
		if (status == TOW_OK)
			status = step_turn(run, chain);
		if (status == TOW_AGAIN)
			return any || run->coll->engine->coll_work != work;
		if (status < 0) {
			twi_coll_run_fail(run, status);
			return true;
		}
		chain->next++;
		any = true;
	}
	if (chain->pending > 0 || chain->late > 0)
		return any;
	chain->active = false;
	run->active--;
	return true;
}

/* --- memory outside the pool, where others are to see it --- */

/* Size of the staged memory: both buffers, or in place the longer one. *out_at: OUT's offset. */
static uint64_t stage_bytes(const struct twi_coll_run *run, uint64_t *out_at)
{
	const struct twi_coll_entry *entry = run->entry;

	if (!entry->call.in_place) {
		*out_at = twi_align_up(entry->in_bytes, 64);
		return *out_at + entry->out_bytes;
	}
	*out_at = 0;
	return twi_max(entry->in_bytes, entry->out_bytes);
}

static bool in_pool(const struct twi_coll_run *run, const void *at, uint64_t bytes)
{
	return bytes == 0 || twi_pool_find(run->coll->engine->pool, at, bytes) != NULL;
}

/* TOW_OK, or TOW_EZEROCOPY. */
static int may_stage(const struct twi_coll_run *run)
{
	if (!run->coll->engine->knobs.require_zero_copy)
		return TOW_OK;
	return twi_error(TOW_EZEROCOPY, "a collective of memory outside the pool would be copied; "
					"allocate it with tow_alloc");
}

/* Takes pool memory to replace the user's. In place, the shorter buffer lies in the longer one. */
static int make_staged(struct twi_coll_run *run)
{
	const struct twi_coll_entry *entry = run->entry;
	uint64_t out_at, bytes = stage_bytes(run, &out_at);
	void *memory;
	int status;

	/* What can go by pieces does not wait for so much. */
	status = twi_coll_room_take(run, bytes, !entry->may_pipeline, &memory);
	if (status != TOW_OK) /* TOW_AGAIN, too */
		return status;
	run->staged = memory;
	if (!entry->call.in_place) {
		if (run->staged_in)
			run->in = run->staged;
		if (run->staged_out)
			run->out = run->staged + out_at;
	} else if (run->user_in >= run->user_out) { /* `in` lies within `out` */
		run->in = run->staged + (run->user_in - run->user_out);
		run->out = run->staged;
	} else {
		run->in = run->staged;
		run->out = run->staged + (run->user_out - run->user_in);
	}
	return TOW_OK;
}

const struct twi_coll_call *twi_coll_scaled(const struct twi_coll_group *coll,
					    const struct twi_coll_call *call,
					    struct twi_coll_call *out)
{
	*out = *call;
	out->in_place = call->kind == TWI_COLL_ALL_REDUCE ||
			(call->kind == TWI_COLL_REDUCE && call->root == coll->rank);
	if (out->in_place)
		out->in = out->out;
	return out;
}

const uint8_t *twi_coll_input(const struct twi_coll_run *run)
{
	return run->scaled.memory != NULL ? run->scaled.memory : run->user_in;
}

/* Scales into OUT, if all of the input has its place there; else into memory of the pool. */
bool twi_coll_scale(struct twi_coll_run *run)
{
	const struct twi_coll_entry *entry = run->entry;
	uint64_t unit = tow_type_bytes(entry->call.type), bytes;
	int status;

	if (run->is_scaled)
		return true;
	if (!entry->call.in_place && run->scaled.memory == NULL && entry->in_bytes > 0) {
		status = twi_own_take_any(run->coll->engine, entry->in_bytes, 64, run->site,
					  &run->scaled);
		if (status < 0) {
			twi_coll_run_fail(run, status);
			return false;
		}
		run->in = run->scaled.memory;
	}
	bytes = twi_min(entry->in_bytes - run->scale_bytes, (uint64_t)PIECE_BYTES / unit * unit);
	twi_reduce_scale(entry->call.type, (uint8_t *)(uintptr_t)run->in + run->scale_bytes,
			 run->scale_from + run->scale_bytes, bytes / unit, run->scale);
	run->scale_bytes += bytes;
	run->coll->engine->coll_work += bytes;
	run->is_scaled = run->scale_bytes == entry->in_bytes;
	if (!run->is_scaled)
		twi_coll_run_poll(run);
	return run->is_scaled;
}

/* TOW_OK, TOW_AGAIN, TOW_EZEROCOPY or TOW_EEXHAUSTED. */
static int find_room(struct twi_coll_run *run)
{
	const struct twi_coll_entry *entry = run->entry;
	int status = may_stage(run);

	if (status < 0)
		return status;
	if (!entry->may_pipeline)
		return make_staged(run);
	if (!entry->pipeline && !run->starved) {
		status = make_staged(run);
		if (status != TOW_EEXHAUSTED)
			return status;
	}
	return twi_coll_pipeline_ask(run);
}

/*
 * In place, the staged memory replaces both buffers. In a broadcast, only the root has input, and
 * its buffer is not written: it may be read-only, as a file of weights that is mapped.
 */
static void stage_both(struct twi_coll_run *run)
{
	const struct twi_coll_call *call = &run->entry->call;
	bool staged = run->staged_in || run->staged_out;
	bool is_broadcast = call->kind == TWI_COLL_BROADCAST;
	bool is_root = call->root == run->coll->rank;

	run->staged_in = staged && (!is_broadcast || is_root);
	run->staged_out = staged && (!is_broadcast || !is_root);
}

bool twi_coll_stage(struct twi_coll_run *run)
{
	const struct twi_coll_entry *entry = run->entry;
	uint64_t bytes;
	int status;

	if (run->staged == NULL && !run->outside) {
		if (!entry->shares || run->coll->locals_n == 0)
			return true;
		run->staged_in = !in_pool(run, run->in, entry->in_bytes);
		run->staged_out = entry->shares_out && !in_pool(run, run->out, entry->out_bytes);
		if (entry->call.in_place)
			stage_both(run);
		if (!run->staged_in && !run->staged_out)
			return true;
		status = find_room(run);
		if (status < 0)
			twi_coll_run_fail(run, status);
		if (status != TOW_OK) /* TOW_AGAIN, too */
			return false;
	}
	if (run->outside)
		return true;
	if (!run->staged_in || run->staged_bytes == entry->in_bytes) {
		run->staged_bytes = 0;
		return true;
	}
	bytes = twi_min(entry->in_bytes - run->staged_bytes, (uint64_t)PIECE_BYTES);
	twi_path_copy_fallback(run->coll->engine, TWI_R_unregistered_send,
			       (uint8_t *)(uintptr_t)run->in + run->staged_bytes,
			       twi_coll_input(run) + run->staged_bytes, bytes, run->site);
	run->staged_bytes += bytes;
	run->coll->engine->coll_work += bytes;
	twi_coll_run_poll(run);
	return false;
}

/* The next piece of OUT from *at on. Gaps between parts are skipped: they must not be written. */
static uint64_t next_piece(const struct twi_coll_entry *entry, uint32_t ranks, uint64_t *at)
{
	const struct twi_coll_call *call = &entry->call;
	uint64_t unit = tow_type_bytes(call->type), first = entry->out_bytes, end = first;

	if (call->kind != TWI_COLL_ALL_GATHER_V)
		return twi_min(end - *at, (uint64_t)PIECE_BYTES);
	for (uint32_t i = 0; i < ranks; i++) {
		uint64_t from = twi_max(call->recv_offsets[i] * unit, *at);
		uint64_t to = (call->recv_offsets[i] + call->recv_counts[i]) * unit;

		if (from < to && from < first) {
			first = from;
			end = to;
		}
	}
	*at = first;
	return twi_min(end - first, (uint64_t)PIECE_BYTES);
}

bool twi_coll_unstage(struct twi_coll_run *run)
{
	uint64_t bytes;

	if (run->staged == NULL || !run->staged_out || run->outside)
		return true;
	bytes = next_piece(run->entry, run->coll->size, &run->staged_bytes);
	if (bytes == 0)
		return true;
	twi_path_copy_fallback(run->coll->engine, TWI_R_unregistered_recv,
			       run->user_out + run->staged_bytes, run->out + run->staged_bytes,
			       bytes, run->site);
	run->staged_bytes += bytes;
	run->coll->engine->coll_work += bytes;
	twi_coll_run_poll(run);
	return false;
}
