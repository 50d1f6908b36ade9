/*
 * replay_order.c - puts the same events into another order that could have happened; replay.h has
 * the concept.
 *
 *   time of an event in the other order = by replay_vary.h
 *   a free before its allocation          waits for it, and then has its time
 *
 * The events of one thread keep their order, so the threads' orders are merged. A heap has the
 * next event of each thread, and the waiting frees whose allocation has just passed.
 */
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "memreg/sizing/replay_op.h"
#include "memreg/sizing/replay_vary.h"
#include <internal/base.h>

#define NONE    TWI_REPLAY_NONE
#define AHEAD   8                   /* events of a thread to prefetch */
#define WAITING ((uint32_t)1 << 31) /* instead of a slot: index of the waiting free */

/* Events at the same time keep their order. */
struct entry {
	uint64_t ns;
	uint32_t index;
	uint32_t number; /* the thread whose next event it is; NONE: a free that has waited */
};

struct merge {
	const struct twi_replay *from;
	struct twi_replay *to;
	struct twi_replay_variation vary;
	uint32_t threads;
	uint32_t *next, *end; /* by thread: positions in `by_thread` */
	uint32_t *by_thread;  /* indices of events */
	uint32_t *free_slot;
	uint32_t free_slots, slot_room;
	struct entry *heap;
	uint64_t heaped, heap_room;
};

static bool goes_before(const struct entry *a, const struct entry *b)
{
	return a->ns != b->ns ? a->ns < b->ns : a->index < b->index;
}

static bool push_entry(struct merge *merge, struct entry entry)
{
	uint64_t i = merge->heaped;

	if (merge->heaped == merge->heap_room) {
		uint64_t room = 2 * merge->heap_room + 64;
		void *grown = realloc(merge->heap, room * sizeof(merge->heap[0]));

		if (grown == NULL)
			return false;
		merge->heap = grown;
		merge->heap_room = room;
	}
	merge->heaped++;
	for (; i > 0 && goes_before(&entry, &merge->heap[(i - 1) / 2]); i = (i - 1) / 2)
		merge->heap[i] = merge->heap[(i - 1) / 2];
	merge->heap[i] = entry;
	return true;
}

/* Replaces the top of the heap. The entry sinks to its position. */
static void sink_entry(struct merge *merge, struct entry entry)
{
	uint64_t i = 0, child;

	while ((child = 2 * i + 1) < merge->heaped) {
		if (child + 1 < merge->heaped &&
		    goes_before(&merge->heap[child + 1], &merge->heap[child]))
			child++;
		if (!goes_before(&merge->heap[child], &entry))
			break;
		merge->heap[i] = merge->heap[child];
		i = child;
	}
	merge->heap[i] = entry;
}

static const struct twi_replay_actor *actor_of(const struct merge *merge, uint32_t index)
{
	return &merge->from->actor[twi_replay_actor(&merge->from->op[index])];
}

/* The next event of the thread. False: there is none. */
static bool next_entry(struct merge *merge, uint32_t number, struct entry *out)
{
	uint32_t at = merge->next[number], left = merge->end[number] - at;

	if (left == 0)
		return false;
	if (left > AHEAD)
		__builtin_prefetch(&merge->from->op[merge->by_thread[at + AHEAD]]);
	merge->next[number]++;
	out->number = number;
	out->index = merge->by_thread[at];
	out->ns = twi_replay_variation_time(&merge->vary, twi_replay_ns(merge->from, out->index),
					    number);
	return true;
}

/* Takes the first entry, and puts the next one of its thread into the heap. */
static struct entry pop_entry(struct merge *merge)
{
	struct entry top = merge->heap[0], next;

	if (top.number == NONE || !next_entry(merge, top.number, &next))
		next = merge->heap[--merge->heaped];
	sink_entry(merge, next);
	return top;
}

/* Sorts the events by thread, in their order. */
static bool split_threads(struct merge *merge)
{
	const struct twi_replay *from = merge->from;
	uint32_t at = 0;

	merge->threads = from->threads_all;
	merge->next = calloc(merge->threads, sizeof(merge->next[0]));
	merge->end = calloc(merge->threads, sizeof(merge->end[0]));
	merge->by_thread = malloc(from->count * sizeof(merge->by_thread[0]));
	if (merge->next == NULL || merge->end == NULL || merge->by_thread == NULL)
		return false;
	for (uint64_t i = 0; i < from->count; i++)
		merge->end[actor_of(merge, (uint32_t)i)->number]++;
	for (uint32_t t = 0; t < merge->threads; t++) {
		merge->next[t] = at;
		at += merge->end[t];
		merge->end[t] = merge->next[t];
	}
	for (uint64_t i = 0; i < from->count; i++)
		merge->by_thread[merge->end[actor_of(merge, (uint32_t)i)->number]++] = (uint32_t)i;
	return true;
}

static bool give_slot(struct merge *merge, uint32_t slot)
{
	if (merge->free_slots == merge->slot_room) {
		uint32_t room = 2 * merge->slot_room + 64;
		void *grown = realloc(merge->free_slot, room * sizeof(merge->free_slot[0]));

		if (grown == NULL)
			return false;
		merge->free_slot = grown;
		merge->slot_room = room;
	}
	merge->free_slot[merge->free_slots++] = slot;
	return true;
}

/* Appends the event to the other order, unless it is a free that must wait. */
static bool take_entry(struct merge *merge, const struct entry *entry)
{
	const struct twi_replay_packed *op = &merge->from->op[entry->index];
	uint32_t *slot = merge->to->slot, alloc;

	if (twi_replay_kind(op) == TWI_ALLOC_ALLOC) {
		uint32_t waits = slot[entry->index];

		slot[entry->index] = merge->free_slots > 0 ? merge->free_slot[--merge->free_slots]
							   : merge->to->slots++;
		merge->to->order[merge->to->count++] = entry->index;
		return waits == NONE ||
		       push_entry(merge, (struct entry){ entry->ns, waits & ~WAITING, NONE });
	}
	if (twi_replay_kind(op) == TWI_ALLOC_FREE) {
		alloc = (uint32_t)twi_replay_value(op);
		if (slot[alloc] == NONE) {
			slot[alloc] = WAITING | entry->index;
			return true;
		}
		slot[entry->index] = slot[alloc];
		if (!give_slot(merge, slot[alloc]))
			return false;
	}
	merge->to->order[merge->to->count++] = entry->index;
	return true;
}

static bool merge_threads(struct merge *merge)
{
	bool good = split_threads(merge);

	for (uint32_t t = 0; good && t < merge->threads; t++) {
		struct entry entry;

		good = !next_entry(merge, t, &entry) || push_entry(merge, entry);
	}
	while (good && merge->heaped > 0) {
		struct entry entry = pop_entry(merge);

		good = take_entry(merge, &entry);
	}
	free(merge->next);
	free(merge->end);
	free(merge->by_thread);
	free(merge->free_slot);
	free(merge->heap);
	return good;
}

int twi_replay_vary(const struct twi_replay *replay, uint64_t seed, uint32_t permille,
		    struct twi_replay **out)
{
	struct merge merge = { .from = replay };
	struct twi_replay *to = calloc(1, sizeof(*to));
	bool good = to != NULL &&
		    twi_replay_variation_init(&merge.vary, replay, seed, permille) == TOW_OK;

	*out = NULL;
	if (good) {
		*to = *replay;
		to->count = to->slots = 0;
		to->order = malloc(replay->count * sizeof(to->order[0]));
		to->slot = malloc(replay->count * sizeof(to->slot[0]));
		merge.to = to;
		good = to->order != NULL && to->slot != NULL;
	}
	if (good) {
		memset(to->slot, 0xff, replay->count * sizeof(to->slot[0]));
		good = merge_threads(&merge) && twi_replay_survey(to) == TOW_OK;
	}
	twi_replay_variation_fini(&merge.vary);
	if (good) {
		*out = to;
		return TOW_OK;
	}
	if (to != NULL) {
		free(to->order);
		free(to->slot);
		free(to);
	}
	return twi_error(TOW_ENOMEM, "replay: no memory for another order of %llu events",
			 (unsigned long long)replay->count);
}
