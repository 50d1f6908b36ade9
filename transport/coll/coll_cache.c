/*
 * coll_cache.c - entries: the plan of a call, kept for the next call like it. See coll.h.
 *
 * The key is everything that the plan depends on: kind, type, operator, root, counts, in place or
 * not, the ranks it names, the requested plan. The entry used last is tried first, which suits a
 * training loop over equal buckets.
 */
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/base/hash.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/coll/coll_cut.h"
#include "transport/coll/coll_quick.h"
#include "transport/engine/engine.h"
#include "transport/op/path.h"

/* Results of at least this size are stored around the caches. */
#define STREAM_MIN (16ull << 20)

static uint64_t part_end(const uint64_t *counts, const uint64_t *offsets, uint32_t ranks)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < ranks; i++) {
		if (counts[i] > 0)
			end = twi_max(end, offsets[i] + counts[i]);
	}
	return end;
}

void twi_coll_spans(const struct twi_coll_call *call, uint32_t rank, uint32_t ranks,
		    uint64_t *in_bytes_out, uint64_t *out_bytes_out)
{
	uint64_t in = call->count, out = call->count;
	uint64_t all = call->count * ranks;
	bool root = rank == call->root;

	switch (call->kind) {
	case TWI_COLL_REDUCE_SCATTER:
		in = all;
		break;
	case TWI_COLL_ALL_GATHER:
		out = all;
		break;
	case TWI_COLL_ALL_GATHER_V:
		in = call->recv_counts[rank];
		out = part_end(call->recv_counts, call->recv_offsets, ranks);
		break;
	case TWI_COLL_REDUCE:
		out = root ? call->count : 0;
		break;
	case TWI_COLL_GATHER:
		out = root ? all : 0;
		break;
	case TWI_COLL_SCATTER:
		in = root ? all : 0;
		break;
	case TWI_COLL_ALL_TO_ALL:
		in = out = all;
		break;
	case TWI_COLL_ALL_TO_ALL_V:
		in = part_end(call->send_counts, call->send_offsets, ranks);
		out = part_end(call->recv_counts, call->recv_offsets, ranks);
		break;
	case TWI_COLL_BARRIER:
		in = out = 0;
		break;
	case TWI_COLL_SEND_RECEIVE:
		in = call->target == TOW_GROUP_NONE ? 0 : call->count;
		out = call->source == TOW_GROUP_NONE ? 0 : call->count;
		break;
	default:
		break;
	}
	*in_bytes_out = in * tow_type_bytes(call->type);
	*out_bytes_out = out * tow_type_bytes(call->type);
}

static uint64_t mix_words(uint64_t hash, const uint64_t *words, uint32_t count)
{
	for (uint32_t i = 0; words != NULL && i < count; i++)
		hash = twi_hash_mix(hash, words[i]);
	return hash;
}

/* Hash of what a call has in common at all ranks. */
static uint64_t common_hash(const struct twi_coll_call *call, uint32_t ranks)
{
	uint64_t hash = twi_hash_mix(0x746f776c696e65ull, (uint64_t)call->kind << 32 |
								  (uint64_t)call->type << 16 |
								  (uint64_t)call->reduce);

	hash = twi_hash_mix(hash, (uint64_t)call->root << 32 | (uint32_t)call->priority);
	if (call->kind != TWI_COLL_ALL_GATHER_V)
		hash = twi_hash_mix(hash, call->count);
	else
		hash = mix_words(mix_words(hash, call->recv_counts, ranks), call->recv_offsets,
				 ranks);
	for (uint32_t i = 0; i < call->pair_count; i++)
		hash = twi_hash_mix(hash,
				    (uint64_t)call->pairs[i].source << 32 | call->pairs[i].target);
	if (call->kind == TWI_COLL_ALL_TO_ALL)
		hash = twi_hash_mix(hash, call->in_place);
	if (call->parts != 0)
		hash = twi_hash_mix(hash, call->parts);
	return hash;
}

static uint64_t key_hash(const struct twi_coll_call *call, uint32_t ranks)
{
	uint64_t hash = common_hash(call, ranks);

	hash = twi_hash_mix(hash, (uint64_t)(uintptr_t)call->forced);
	hash = twi_hash_mix(hash, (uint64_t)call->target << 32 ^ (uint64_t)call->source);
	hash = twi_hash_mix(hash, call->in_place);
	if (call->kind == TWI_COLL_ALL_TO_ALL_V) {
		hash = mix_words(hash, call->send_counts, ranks);
		hash = mix_words(hash, call->send_offsets, ranks);
		hash = mix_words(hash, call->recv_counts, ranks);
		hash = mix_words(hash, call->recv_offsets, ranks);
	}
	return hash;
}

static bool same_words(const uint64_t *a, const uint64_t *b, uint32_t count)
{
	return a == b || (a != NULL && b != NULL && memcmp(a, b, count * sizeof(a[0])) == 0);
}

static bool same_call(const struct twi_coll_call *a, const struct twi_coll_call *b, uint32_t ranks)
{
	return a->kind == b->kind && a->count == b->count && a->type == b->type &&
	       a->reduce == b->reduce && a->root == b->root && a->in_place == b->in_place &&
	       a->priority == b->priority && a->forced == b->forced && a->target == b->target &&
	       a->source == b->source && a->parts == b->parts && a->set_up == b->set_up &&
	       a->pair_count == b->pair_count &&
	       (a->pair_count == 0 ||
		memcmp(a->pairs, b->pairs, a->pair_count * sizeof(a->pairs[0])) == 0) &&
	       same_words(a->send_counts, b->send_counts, ranks) &&
	       same_words(a->send_offsets, b->send_offsets, ranks) &&
	       same_words(a->recv_counts, b->recv_counts, ranks) &&
	       same_words(a->recv_offsets, b->recv_offsets, ranks);
}

static const uint64_t *keep_words(uint64_t **at, const uint64_t *words, uint32_t count)
{
	uint64_t *kept = *at;

	if (words == NULL)
		return NULL;
	twi_path_copy_own(kept, words, count * sizeof(words[0]));
	*at += count;
	return kept;
}

int twi_coll_call_keep(struct twi_coll_call *call, uint32_t ranks, uint64_t **arrays_out)
{
	uint64_t *at;

	*arrays_out = NULL;
	if (call->send_counts == NULL && call->recv_counts == NULL && call->pair_count == 0)
		return TOW_OK;
	at = *arrays_out = calloc(4 * (size_t)ranks + call->pair_count, sizeof(at[0]));
	if (at == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the counts of a collective");
	call->send_counts = keep_words(&at, call->send_counts, ranks);
	call->send_offsets = keep_words(&at, call->send_offsets, ranks);
	call->recv_counts = keep_words(&at, call->recv_counts, ranks);
	call->recv_offsets = keep_words(&at, call->recv_offsets, ranks);
	if (call->pair_count > 0)
		twi_path_copy_own(at, call->pairs, call->pair_count * sizeof(call->pairs[0]));
	call->pairs = (const struct tow_coll_pair *)(const void *)at;
	return TOW_OK;
}

/*
 * Finds what other ranks use of this rank's memory. This rank's own steps do not always show it:
 * the root of a gather has none.
 */
static void find_shared(struct twi_coll_entry *entry, const struct twi_plan_row *row)
{
	const struct twi_plan *plan = entry->plan;
	enum twi_coll_kind kind = entry->call.kind;
	bool cells = false;

	for (uint32_t i = 0; i < plan->ref_count; i++)
		cells |= plan->refs[i].space == TWI_PLAN_CELL;
	entry->shares = plan->syncs > 0 && !cells && kind != TWI_COLL_BARRIER;
	entry->shares_out =
		entry->shares && (!row->local || kind == TWI_COLL_ALL_REDUCE ||
				  kind == TWI_COLL_REDUCE || kind == TWI_COLL_GATHER ||
				  kind == TWI_COLL_ALL_GATHER || kind == TWI_COLL_BROADCAST);
}

/* Lists the ranks that the plan exchanges messages with, and finds what others see of this rank. */
static int find_peers(struct twi_coll_entry *entry, const struct twi_plan_row *row, uint32_t ranks)
{
	const struct twi_plan *plan = entry->plan;
	bool *met = calloc(ranks, sizeof(met[0]));

	entry->peers = calloc(ranks, sizeof(entry->peers[0]));
	if (entry->peers == NULL || met == NULL) {
		free(met);
		return TOW_ENOMEM;
	}
	entry->local = true;
	for (uint32_t i = 0; i < plan->step_count; i++) {
		const struct twi_plan_step *step = &plan->steps[i];

		if (step->kind != TWI_PLAN_SEND && step->kind != TWI_PLAN_RECV)
			continue;
		entry->local = false;
		if (!met[step->peer])
			entry->peers[entry->peer_count++] = step->peer;
		met[step->peer] = true;
	}
	free(met);
	/*
	 * A rank with nothing to send signs, too, because another rank waits for its signature.
	 * Where all ranks meet in memory, the slots carry the signatures instead.
	 */
	entry->signs = ranks > 1 && (plan->syncs == 0 || !row->local);
	find_shared(entry, row);
	return TOW_OK;
}

static void free_entry(struct twi_coll_entry *entry)
{
	struct twi_list *pos;

	while ((pos = twi_list_first(&entry->spare)) != NULL) {
		twi_list_remove(pos);
		twi_coll_run_free(twi_container_of(pos, struct twi_coll_run, link));
	}
	twi_plan_free(entry->plan);
	free(entry->arrays);
	free(entry->early);
	free(entry->peers);
	free(entry->quick);
	free(entry);
}

static void drop_entry(struct twi_coll_group *coll, struct twi_coll_entry *entry)
{
	if (coll->last == entry)
		coll->last = NULL;
	twi_list_remove(&entry->link);
	twi_list_remove(&entry->age);
	coll->entries--;
	coll->dropped[entry->call.kind] += entry->calls;
	free_entry(entry);
}

/* Makes room for one more: drops the oldest idle entry. */
static void make_room(struct twi_coll_group *coll)
{
	struct twi_coll_entry *oldest = NULL;
	struct twi_list *pos, *next;

	if (coll->entries < TWI_COLL_ENTRIES)
		return;
	twi_list_for_each_safe (pos, next, &coll->ages) {
		struct twi_coll_entry *entry = twi_container_of(pos, struct twi_coll_entry, age);

		if (entry->users == 0)
			oldest = entry; /* the list ends with the oldest */
	}
	if (oldest != NULL)
		drop_entry(coll, oldest);
}

void twi_coll_case(const struct twi_coll_group *coll, const struct twi_coll_call *call,
		   struct twi_plan_case *what)
{
	const struct twi_knobs *knobs = &coll->engine->knobs;

	*what = (struct twi_plan_case){
		.kind = call->kind,
		.type = call->type,
		.reduce = call->reduce,
		.rank = coll->rank,
		.ranks = coll->size,
		.root = call->root,
		.count = call->count,
		.in_place = call->in_place,
		.peers_write = coll->peers_write,
		.send_counts = call->send_counts,
		.send_offsets = call->send_offsets,
		.recv_counts = call->recv_counts,
		.recv_offsets = call->recv_offsets,
		.pairs = call->pairs,
		.pair_count = call->pair_count,
		.target = call->target,
		.source = call->source,
		.locals = coll->local_ranks,
		.locals_n = coll->local_ranks_n,
		.hosts = coll->hosts,
		.hosts_n = coll->hosts_n,
		.cell_bytes = coll->locals_n > 0 ? TWI_COLL_CELL : 0,
		.segment_bytes = knobs->coll_segment_bytes,
		.depth = knobs->coll_depth,
	};
}

static int build_plan(struct twi_coll_group *coll, struct twi_coll_entry *entry)
{
	struct twi_plan_case what;
	const struct twi_plan_row *row;
	int status;

	twi_coll_case(coll, &entry->call, &what);
	row = twi_coll_choose(coll, &entry->call, &what, &entry->why);
	if (row == NULL)
		return TOW_EINVAL;
	status = twi_plan_build(row, &what, &entry->plan);
	if (status == TOW_OK)
		status = find_peers(entry, row, coll->size);
	if (status < 0)
		return status;
	status = twi_coll_early(entry);
	if (status < 0)
		return status;
	/* Half of them serve receives that are posted early. */
	entry->io_count =
		twi_min(2 * entry->plan->messages_max * entry->plan->depth, TWI_COLL_IOS_MAX);
	for (uint32_t i = 0; i < entry->plan->program_count; i++)
		entry->program_steps =
			twi_max(entry->program_steps, entry->plan->programs[i].count);
	entry->signature = twi_hash_mix(common_hash(&entry->call, coll->size),
					(uint64_t)(row - twi_plan_rows) + 1);
	/* Ranks that cut a payload differently would take one piece for another. */
	if (coll->engine->knobs.coll_segment_bytes != TWI_COLL_SEGMENT_BYTES)
		entry->signature =
			twi_hash_mix(entry->signature, coll->engine->knobs.coll_segment_bytes);
	entry->signature |= 1; /* 0 stands for none */
	twi_coll_spans(&entry->call, coll->rank, coll->size, &entry->in_bytes, &entry->out_bytes);
	/* In place the results are in the caches already, or their lines were read just before. */
	entry->stream =
		!entry->call.in_place && twi_max(entry->in_bytes, entry->out_bytes) >= STREAM_MIN;
	entry->connected = !entry->signs;
	entry->may_pipeline = entry->shares && twi_coll_cut_may(coll, &entry->call, row);
	entry->pipeline = entry->may_pipeline && twi_coll_cut_pays(coll, &entry->call);
	/* Ranks of older versions look whether it is asked for only where it pays. */
	entry->may_pipeline &= entry->pipeline || coll->pipelines_all;
	return twi_coll_quick_make(coll, entry);
}

static int make_entry(struct twi_coll_group *coll, const struct twi_coll_call *call, uint64_t hash,
		      struct twi_coll_entry **out)
{
	struct twi_coll_entry *entry = calloc(1, sizeof(*entry));
	int status = TOW_ENOMEM;

	if (entry == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the plan of a collective");
	entry->call = *call;
	entry->hash = hash;
	twi_list_init(&entry->link);
	twi_list_init(&entry->age);
	twi_list_init(&entry->spare);
	if (twi_coll_call_keep(&entry->call, coll->size, &entry->arrays) == TOW_OK)
		status = build_plan(coll, entry);
	if (status == TOW_ENOMEM)
		twi_error(status, "no memory for the plan of a collective");
	if (status < 0) {
		free_entry(entry);
		return status;
	}
	make_room(coll);
	twi_list_push_back(&coll->buckets[hash % TWI_COLL_BUCKETS], &entry->link);
	coll->entries++;
	twi_count(coll->engine->diag, TWI_C_coll_plans_built, 1);
	*out = entry;
	return TOW_OK;
}

int twi_coll_entry_find(struct twi_coll_group *coll, const struct twi_coll_call *call,
			struct twi_coll_entry **out)
{
	struct twi_coll_entry *entry = coll->last;
	struct twi_list *pos, *next;
	uint64_t hash;
	int status;

	twi_assert_held(coll->engine);
	if (twi_likely(entry != NULL && same_call(&entry->call, call, coll->size))) {
		*out = entry;
		return TOW_OK;
	}
	entry = NULL;
	hash = key_hash(call, coll->size);
	twi_list_for_each_safe (pos, next, &coll->buckets[hash % TWI_COLL_BUCKETS]) {
		struct twi_coll_entry *seen = twi_container_of(pos, struct twi_coll_entry, link);

		if (seen->hash == hash && same_call(&seen->call, call, coll->size))
			entry = seen;
	}
	if (entry == NULL) {
		status = make_entry(coll, call, hash, &entry);
		if (status < 0)
			return status;
	}
	twi_list_remove(&entry->age);
	twi_list_push_front(&coll->ages, &entry->age);
	coll->last = entry;
	*out = entry;
	return TOW_OK;
}

void twi_coll_entries_free(struct twi_coll_group *coll)
{
	struct twi_list *pos;

	twi_assert_held(coll->engine);
	while ((pos = twi_list_first(&coll->ages)) != NULL)
		drop_entry(coll, twi_container_of(pos, struct twi_coll_entry, age));
}
