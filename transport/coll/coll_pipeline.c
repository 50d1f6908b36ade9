/*
 * coll_pipeline.c - collectives of one host, a piece at a time. See coll_pipeline.h.
 */
#include "transport/coll/coll_pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/coll/coll_cut.h"
#include "transport/coll/coll_local.h"
#include "transport/coll/coll_room.h"
#include "transport/coll/plan/plan.h"
#include "transport/coll/reduce/reduce.h"
#include "transport/engine/engine.h"
#include "transport/op/own_memory.h"
#include "transport/op/path.h"

static struct twi_coll_slot *own_slot(const struct twi_coll_run *run)
{
	return &run->coll->region->slots[run->seq % TWI_COLL_SLOTS];
}

static const struct twi_coll_slot *slot_of(const struct twi_coll_run *run,
					   const struct twi_coll_local *local)
{
	return &local->region->slots[run->seq % TWI_COLL_SLOTS];
}

/* --- what this rank shows --- */

static int64_t pair_source(const struct twi_coll_run *run)
{
	const struct twi_coll_call *call = &run->entry->call;

	if (call->kind == TWI_COLL_SEND_RECEIVE)
		return call->source;
	for (uint32_t i = 0; i < call->pair_count; i++)
		if (call->pairs[i].target == run->coll->rank)
			return call->pairs[i].source;
	return TOW_GROUP_NONE;
}

/* Whether another rank reads this rank's input. */
static bool is_read(const struct twi_coll_run *run)
{
	const struct twi_coll_call *call = &run->entry->call;
	uint32_t own = run->coll->rank;

	switch (call->kind) {
	case TWI_COLL_BROADCAST:
	case TWI_COLL_SCATTER:
		return call->root == own;
	case TWI_COLL_REDUCE:
	case TWI_COLL_GATHER:
		return call->root != own;
	case TWI_COLL_SEND_RECEIVE:
		return call->target != TOW_GROUP_NONE;
	case TWI_COLL_PERMUTE:
		for (uint32_t i = 0; i < call->pair_count; i++)
			if (call->pairs[i].source == own)
				return true;
		return false;
	default:
		return true;
	}
}

/* Whether a result may overwrite input that another rank still reads. */
static bool is_overwritten(const struct twi_coll_run *run)
{
	switch (run->entry->call.kind) {
	case TWI_COLL_ALL_REDUCE:
	case TWI_COLL_ALL_TO_ALL:
	case TWI_COLL_PERMUTE:
	case TWI_COLL_SEND_RECEIVE:
		return run->entry->call.in_place;
	default:
		return false;
	}
}

/* Whether the input is copied into a ring, so that others can read it. */
static bool needs_ring(const struct twi_coll_run *run)
{
	return run->staged == NULL && is_read(run) && (run->staged_in || is_overwritten(run));
}

int twi_coll_pipeline_ask(struct twi_coll_run *run)
{
	struct twi_engine *engine = run->coll->engine;
	struct twi_coll_cut cut = twi_coll_cut_of(run);
	void *ring = NULL;
	int status = TOW_OK;

	if (needs_ring(run))
		status = twi_coll_room_take(run, twi_coll_cut_ring(&cut), true, &ring);
	while (status == TOW_EEXHAUSTED && run->coll->pipelines_all &&
	       run->halved < TWI_COLL_HALVED_MAX) {
		run->halved++;
		cut = twi_coll_cut_of(run);
		status = twi_own_try(engine, twi_coll_cut_ring(&cut), 64, &ring);
	}
	if (status == TOW_EEXHAUSTED)
		status = twi_coll_room_reserve(run, twi_coll_cut_ring(&cut), &ring);
	if (status != TOW_OK) /* TOW_AGAIN, too */
		run->halved = 0;
	run->outside = status == TOW_OK;
	run->ring = ring;
	return status;
}

static bool is_asked(const struct twi_coll_run *run)
{
	bool asked = run->outside;

	for (uint32_t i = 0; i < run->coll->locals_n; i++) {
		const struct twi_coll_local *local = &run->coll->locals[i];

		asked |= atomic_load_explicit(&slot_of(run, local)->outside,
					      memory_order_relaxed) == run->seq;
	}
	return asked;
}

/* The pieces are those of the rank whose pool has the least room. A ring may be too large then. */
static void agree_on_pieces(struct twi_coll_run *run)
{
	for (uint32_t i = 0; run->coll->pipelines_all && i < run->coll->locals_n; i++) {
		uint64_t halved = atomic_load_explicit(&slot_of(run, &run->coll->locals[i])->halved,
						       memory_order_relaxed);

		if (halved >> 8 == run->seq)
			run->halved = (uint8_t)twi_max(run->halved,
						       twi_min(halved & 0xff, TWI_COLL_HALVED_MAX));
	}
}

bool twi_coll_pipeline_begins(struct twi_coll_run *run)
{
	if (!run->entry->may_pipeline || !is_asked(run))
		return false;
	agree_on_pieces(run);
	/* This rank has found room for all of its memory, and has its input there. */
	if (!run->outside && run->staged != NULL) {
		run->out = run->user_out;
		run->outside = true;
		run->staged_bytes = run->staged_in ? run->entry->in_bytes : 0;
	}
	run->pipelined = true; /* the plan goes no further */
	return true;
}

static void announce_step(struct twi_coll_run *run)
{
	run->steps_announced++;
	run->synced = 0;
	/* release: copies and reads come before it */
	atomic_store_explicit(&own_slot(run)->step, run->seq << 16 | run->steps_announced,
			      memory_order_release);
	twi_coll_wake_locals(run->coll);
}

/* In place, of memory of the pool. Nothing needs room there any more: others wait for this rank. */
static int protect_input(struct twi_coll_run *run, uint64_t ring_bytes)
{
	void *ring = NULL;

	if (twi_own_try(run->coll->engine, ring_bytes, 64, &ring) == TOW_OK) {
		run->ring = ring;
		return TOW_OK;
	}
	run->aside = malloc(twi_max(run->entry->out_bytes, (uint64_t)1));
	if (run->aside == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the result of a collective in place");
	run->out = run->aside;
	return TOW_OK;
}

static int show_input(struct twi_coll_run *run, const struct twi_coll_cut *cut)
{
	struct twi_coll_slot *slot = own_slot(run);
	uint64_t bytes = is_read(run) ? run->entry->in_bytes : 0;
	const void *memory = run->in;
	int status = TOW_OK;

	if (needs_ring(run) && run->ring == NULL && run->aside == NULL)
		status = protect_input(run, twi_coll_cut_ring(cut));
	if (status < 0)
		return status;
	if (run->ring != NULL) {
		memory = run->ring;
		bytes = twi_coll_cut_ring(cut);
	}
	status = twi_coll_show_memory(run->coll, memory, bytes, &slot->in_where);
	if (status == TOW_OK)
		atomic_store_explicit(&slot->ring, run->ring != NULL ? run->seq : 0,
				      memory_order_relaxed);
	return status;
}

/* Copies piece `k` of the own input into its place of the ring. */
static void copy_ahead(struct twi_coll_run *run, const struct twi_coll_cut *cut, uint64_t k)
{
	uint8_t *place = run->ring + (k & 1) * cut->parts * cut->column;
	uint64_t bytes = twi_coll_cut_bytes(run, cut, run->coll->rank, k);

	for (uint32_t part = 0; part < cut->parts; part++) {
		const uint8_t *from = run->in + part * cut->part + k * cut->column;
		uint8_t *to = place + part * cut->column;

		if (cut->parts > 1 && part == run->coll->rank)
			continue; /* no other rank reads it */
		twi_path_copy_piece(run->coll->engine, run->staged_in, to, from, bytes, run->site);
		run->staged_bytes += bytes;
		run->coll->engine->coll_work += bytes;
	}
}

/* --- what it does with a piece --- */

/* Finds piece `k` of a part of a rank's input. TOW_OK; TOW_AGAIN: not mapped yet; or a failure. */
static int piece_of(struct twi_coll_run *run, const struct twi_coll_cut *cut, uint32_t rank,
		    uint32_t part, uint64_t k, const uint8_t **out)
{
	const struct twi_coll_local *local = twi_coll_local_of(run->coll, rank);
	struct twi_plan_ref ref = { .rank = rank, .space = TWI_PLAN_IN };
	void *at;
	int status;

	ref.offset = part * cut->part + k * cut->column;
	if (local->self) {
		*out = run->in + ref.offset;
		return TOW_OK;
	}
	if (atomic_load_explicit(&slot_of(run, local)->ring, memory_order_relaxed) == run->seq) {
		ref.offset = ((k & 1) * cut->parts + part) * cut->column;
		run->read_ring = true;
	}
	status = twi_coll_resolve_window(run, local, &ref, 0, twi_coll_cut_bytes(run, cut, rank, k),
					 false, &at);
	*out = at;
	return status;
}

static int reduce_piece(struct twi_coll_run *run, const struct twi_coll_cut *cut, uint64_t k)
{
	const struct twi_coll_call *call = &run->entry->call;
	uint32_t own = run->coll->rank, part = cut->parts > 1 ? own : 0;
	const void *sources[TWI_PLAN_SOURCES_MAX];
	void *result = run->out + k * cut->column;
	struct twi_reduction reduction = { .type = call->type,
					   .reduce = call->reduce,
					   .ranks = run->coll->size,
					   .sources_n = run->coll->size,
					   .results_n = 1,
					   .sources = sources,
					   .results = &result,
					   .count = twi_coll_cut_bytes(run, cut, own, k) /
						    tow_type_bytes(call->type),
					   .stream = run->entry->stream };

	for (uint32_t rank = 0; rank < run->coll->size; rank++) {
		const uint8_t *at;
		int status = piece_of(run, cut, rank, part, k, &at);

		if (status != TOW_OK) /* TOW_AGAIN, too */
			return status;
		sources[rank] = at;
	}
	twi_reduce(&reduction);
	return TOW_OK;
}

/* Where the part that `from` has for this rank begins in OUT. */
static uint64_t place_of(const struct twi_coll_run *run, const struct twi_coll_cut *cut,
			 uint32_t from)
{
	const struct twi_coll_call *call = &run->entry->call;

	switch (call->kind) {
	case TWI_COLL_ALL_GATHER:
	case TWI_COLL_GATHER:
	case TWI_COLL_ALL_TO_ALL:
		return from * cut->part;
	case TWI_COLL_ALL_GATHER_V:
		return call->recv_offsets[from] * tow_type_bytes(call->type);
	default:
		return 0;
	}
}

/* Copies a piece of the part that `from` has for this rank to its place in OUT. */
static int take_piece(struct twi_coll_run *run, const struct twi_coll_cut *cut, uint32_t from,
		      uint64_t k)
{
	const struct twi_coll_entry *entry = run->entry;
	uint8_t *to = run->out + place_of(run, cut, from) + k * cut->column;
	uint64_t bytes = twi_coll_cut_bytes(run, cut, from, k);
	const uint8_t *at;
	int status;

	if (bytes == 0)
		return TOW_OK;
	status = piece_of(run, cut, from, cut->parts > 1 ? run->coll->rank : 0, k, &at);
	if (status == TOW_OK && to != at)
		twi_path_copy_large(run->coll->engine->diag, to, at, bytes,
				    twi_max(entry->in_bytes, entry->out_bytes), k == 0);
	return status;
}

/* Each rank begins with its neighbour's part, so that not all read from one. */
static int take_all(struct twi_coll_run *run, const struct twi_coll_cut *cut, uint64_t k)
{
	uint32_t size = run->coll->size;
	int status = TOW_OK;

	for (uint32_t i = 1; i <= size && status == TOW_OK; i++)
		status = take_piece(run, cut, (run->coll->rank + i) % size, k);
	return status;
}

/* Nobody has anything for this rank in a permutation: its result is zeros. */
static int take_pair(struct twi_coll_run *run, const struct twi_coll_cut *cut, uint64_t k)
{
	int64_t source = pair_source(run);

	if (source >= 0)
		return take_piece(run, cut, (uint32_t)source, k);
	if (run->entry->call.kind == TWI_COLL_PERMUTE)
		memset(run->out + k * cut->column, 0,
		       twi_coll_cut_bytes(run, cut, run->coll->rank, k));
	return TOW_OK;
}

/* What this rank does with piece `k` of the others. */
static int take_step(struct twi_coll_run *run, const struct twi_coll_cut *cut, uint64_t k)
{
	const struct twi_coll_call *call = &run->entry->call;
	bool is_root = call->root == run->coll->rank;

	switch (call->kind) {
	case TWI_COLL_ALL_REDUCE:
	case TWI_COLL_REDUCE_SCATTER:
		return reduce_piece(run, cut, k);
	case TWI_COLL_REDUCE:
		return is_root ? reduce_piece(run, cut, k) : TOW_OK;
	case TWI_COLL_BROADCAST:
		return is_root ? TOW_OK : take_piece(run, cut, call->root, k);
	case TWI_COLL_SCATTER:
		return is_root && call->in_place ? TOW_OK : take_piece(run, cut, call->root, k);
	case TWI_COLL_GATHER:
		return is_root ? take_all(run, cut, k) : TOW_OK;
	case TWI_COLL_PERMUTE:
	case TWI_COLL_SEND_RECEIVE:
		return take_pair(run, cut, k);
	default:
		return take_all(run, cut, k);
	}
}

static int work_on(struct twi_coll_run *run, const struct twi_coll_cut *cut, uint64_t k)
{
	struct twi_engine *engine = run->coll->engine;
	uint64_t begun_ns = twi_engine_clock(engine);
	uint64_t bytes = twi_min(cut->column, cut->part - k * cut->column);
	int status;

	run->read_ring = false;
	status = take_step(run, cut, k);
	if (status == TOW_OK)
		engine->coll_work += bytes;
	if (status == TOW_OK && run->read_ring)
		twi_path_piece_read(engine, twi_engine_clock(engine) - begun_ns,
				    bytes * cut->parts);
	return status;
}

/* --- steps --- */

/* TOW_OK: all ranks have announced the step of this rank. Else TOW_AGAIN, or TOW_EPEER. */
static int all_announced(struct twi_coll_run *run)
{
	const struct twi_coll_group *coll = run->coll;
	uint64_t want = run->seq << 16 | run->steps_announced;

	for (; run->synced < coll->locals_n; run->synced++) {
		const struct twi_coll_local *local = &coll->locals[run->synced];

		/* acquire: pairs with the release in announce_step */
		if (local->self ||
		    atomic_load_explicit(&slot_of(run, local)->step, memory_order_acquire) >= want)
			continue;
		return twi_likely(!local->gone)
			       ? TOW_AGAIN
			       : twi_error(TOW_EPEER, "rank %u has gone", local->rank);
	}
	return TOW_OK;
}

/* The first step: shows the input, and copies its first piece. */
static int begin_pieces(struct twi_coll_run *run, const struct twi_coll_cut *cut)
{
	int status = show_input(run, cut);

	if (status != TOW_OK) /* TOW_AGAIN, too */
		return status;
	if (run->ring != NULL)
		copy_ahead(run, cut, 0);
	run->copied = 1;
	announce_step(run);
	return TOW_OK;
}

/* All ranks have announced step k + 1: piece k is there, and piece k - 1 has been read. */
static int next_piece(struct twi_coll_run *run, const struct twi_coll_cut *cut)
{
	uint64_t k = run->steps_announced - 1;
	int status;

	if (run->copied == k + 1 && k + 1 < cut->steps) {
		if (run->ring != NULL)
			copy_ahead(run, cut, k + 1);
		run->copied++;
	}
	status = work_on(run, cut, k);
	if (status == TOW_OK)
		announce_step(run);
	return status;
}

/* All have read this rank's input: the result may come to its place. */
static int bring_back(struct twi_coll_run *run)
{
	struct twi_engine *engine = run->coll->engine;
	uint64_t left, bytes;

	if (run->aside == NULL)
		return TOW_OK;
	left = run->entry->out_bytes - run->staged_bytes;
	bytes = twi_min(left, (uint64_t)TWI_COLL_TURN_BYTES);
	if (bytes > 0)
		twi_path_copy_large(engine->diag, run->user_out + run->staged_bytes,
				    run->aside + run->staged_bytes, bytes, run->entry->out_bytes,
				    run->staged_bytes == 0);
	run->staged_bytes += bytes;
	engine->coll_work += bytes;
	return bytes < left ? TOW_AGAIN : TOW_OK;
}

int twi_coll_pipeline_turn(struct twi_coll_run *run)
{
	const struct twi_coll_cut cut = twi_coll_cut_of(run);
	uint64_t work = run->coll->engine->coll_work;
	int status = TOW_OK;

	if (run->steps_announced == 0)
		status = begin_pieces(run, &cut);
	while (status == TOW_OK && run->coll->engine->coll_work - work < TWI_COLL_TURN_BYTES) {
		status = all_announced(run);
		if (status != TOW_OK)
			return status;
		if (run->steps_announced > cut.steps)
			return bring_back(run);
		status = next_piece(run, &cut);
	}
	return status == TOW_OK ? TOW_AGAIN : status;
}
