/*
 * replay_program.c - makes a program with dense slots from the events of a log. replay.h has the
 * concept, replay_op.h the layout.
 *
 * A log may be any file, so every event is checked here, once.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "diag/base/error.h"
#include "diag/base/hash.h"
#include "memreg/arena/arena.h"
#include "memreg/sizing/replay_groups.h"
#include "memreg/sizing/replay_ids.h"
#include "memreg/sizing/replay_op.h"
#include <internal/base.h>

#define EVENTS_MAX    ((uint64_t)1 << 27)
#define ALIGN_MAX     21
#define PAGE          4096u
#define CHUNK         (1u << TWI_REPLAY_CHUNK_LOG)
#define ACTORS_SHARED 256 /* the last actors, which threads share by their number */
#define NONE          TWI_REPLAY_NONE
#define LEFT_OUT      1 /* a free of an id that is not live */

struct twi_replay_builder {
	struct twi_replay *replay;
	struct twi_replay_ids ids;
	uint64_t room, events, last_ns;
	uint32_t *free_slot; /* a stack of slots that can be reused */
	uint32_t free_slots, slot_room;
	uint32_t *actor_at; /* open addressing: actor + 1, 0: empty */
	uint32_t actor_mask, actor_room;
	uint32_t last_actor;
};

static int lacks_memory(const struct twi_replay_builder *builder)
{
	return twi_error(TOW_ENOMEM, "replay: no memory for %llu events",
			 (unsigned long long)builder->events);
}

int twi_replay_begin(struct twi_replay_builder **out)
{
	struct twi_replay_builder *builder = calloc(1, sizeof(*builder));

	*out = builder;
	if (builder != NULL)
		builder->replay = calloc(1, sizeof(*builder->replay));
	if (builder != NULL && builder->replay != NULL)
		return TOW_OK;
	free(builder);
	*out = NULL;
	return twi_error(TOW_ENOMEM, "replay: no memory for a program");
}

/*
 * Maps the events rather than allocate them. They grow by moving pages, so they are never in memory
 * twice. Memory that is cut off returns to the system at once.
 */
static bool map_events(struct twi_replay *replay, uint64_t room)
{
	uint64_t bytes = room * sizeof(replay->op[0]);
	void *op = replay->op == NULL ? mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
				      : mremap(replay->op, replay->op_bytes, bytes, MREMAP_MAYMOVE);

	if (op == MAP_FAILED)
		return false;
	replay->op = op;
	replay->op_bytes = bytes;
	return true;
}

/* Makes room for one more event. */
static bool grow_events(struct twi_replay_builder *builder)
{
	struct twi_replay *replay = builder->replay;
	uint64_t room = builder->room > 0 ? 2 * builder->room : CHUNK;
	void *chunk;

	if (replay->count < builder->room)
		return true;
	if (!map_events(replay, room))
		return false;
	chunk = realloc(replay->chunk, room / CHUNK * sizeof(replay->chunk[0]));
	if (chunk == NULL)
		return false;
	replay->chunk = chunk;
	builder->room = room;
	return true;
}

/* Makes room for all slots, in case that all of them are free at once. */
static bool grow_slots(struct twi_replay_builder *builder)
{
	uint32_t room = builder->slot_room > 0 ? 2 * builder->slot_room : 64;
	void *grown;

	if (builder->replay->slots < builder->slot_room)
		return true;
	grown = realloc(builder->free_slot, room * sizeof(builder->free_slot[0]));
	if (grown == NULL)
		return false;
	builder->free_slot = grown;
	builder->slot_room = room;
	return true;
}

static bool is_same_actor(const struct twi_replay_actor *a, const struct twi_replay_actor *b)
{
	return a->thread == b->thread && a->tag == b->tag && a->caller == b->caller;
}

static uint32_t *actor_entry(struct twi_replay_builder *builder,
			     const struct twi_replay_actor *wanted)
{
	const struct twi_replay_actor *actor = builder->replay->actor;
	uint64_t numbers = (uint64_t)wanted->tag << 32 | wanted->thread;
	uint64_t i = twi_hash_word(twi_hash_spread(wanted->caller) + numbers);

	for (;; i++) {
		uint32_t *at = &builder->actor_at[i & builder->actor_mask];

		if (*at == 0 || is_same_actor(&actor[*at - 1], wanted))
			return at;
	}
}

static bool grow_actors(struct twi_replay_builder *builder)
{
	struct twi_replay *replay = builder->replay;
	uint32_t room = builder->actor_room > 0 ? 2 * builder->actor_room : 64;
	uint32_t *at;
	void *actor;

	if (replay->actors < builder->actor_room)
		return true;
	actor = realloc(replay->actor, room * sizeof(replay->actor[0]));
	if (actor == NULL)
		return false;
	replay->actor = actor;
	at = calloc(2 * room, sizeof(*at));
	if (at == NULL)
		return false;
	free(builder->actor_at);
	builder->actor_at = at;
	builder->actor_mask = 2 * room - 1;
	builder->actor_room = room;
	for (uint32_t i = 0; i < replay->actors; i++)
		*actor_entry(builder, &replay->actor[i]) = i + 1;
	return true;
}

/* The number of the event's actor; NONE: no memory. */
static uint32_t find_actor(struct twi_replay_builder *builder, const struct twi_alloc_event *event)
{
	struct twi_replay *replay = builder->replay;
	bool is_alloc = event->kind == TWI_ALLOC_ALLOC;
	struct twi_replay_actor actor = { .caller = is_alloc ? event->caller : 0,
					  .tag = is_alloc ? event->tag : 0,
					  .thread = event->thread,
					  .counts = event->kind != TWI_ALLOC_STEP };
	const struct twi_replay_actor *last =
		replay->actors > 0 ? &replay->actor[builder->last_actor] : NULL;
	uint32_t *at;

	if (last != NULL && is_same_actor(last, &actor) && last->counts >= actor.counts)
		return builder->last_actor;
	if (!grow_actors(builder))
		return NONE;
	at = actor_entry(builder, &actor);
	if (*at == 0 && replay->actors >= TWI_REPLAY_ACTORS_MAX - ACTORS_SHARED) {
		actor.thread %= ACTORS_SHARED;
		actor.tag = 0;
		actor.caller = TWI_REPLAY_REST;
		at = actor_entry(builder, &actor);
	}
	if (*at == 0) {
		replay->actor[replay->actors] = actor;
		*at = ++replay->actors;
	}
	builder->last_actor = *at - 1;
	replay->actor[builder->last_actor].counts |= actor.counts;
	return builder->last_actor;
}

/* The event's time in its chunk. The unit grows with the chunk's time span. */
static uint32_t place_time(struct twi_replay_builder *builder, uint64_t ns)
{
	struct twi_replay *replay = builder->replay;
	uint64_t index = replay->count, first = index & ~(uint64_t)(CHUNK - 1);
	struct twi_replay_chunk *chunk = &replay->chunk[index >> TWI_REPLAY_CHUNK_LOG];

	ns = builder->last_ns = twi_max(ns, builder->last_ns);
	if (index == first)
		*chunk = (struct twi_replay_chunk){ .ns = ns };
	while ((ns - chunk->ns) >> chunk->shift > UINT32_MAX) {
		chunk->shift++;
		for (uint64_t i = first; i < index; i++)
			replay->op[i].when /= 2;
	}
	return (uint32_t)((ns - chunk->ns) >> chunk->shift);
}

static int refuse_event(const struct twi_replay_builder *builder, const char *what, uint64_t value)
{
	return twi_error(TOW_EINVAL, "replay: event %llu: %s (%llu)",
			 (unsigned long long)builder->events, what, (unsigned long long)value);
}

static int take_event(struct twi_replay_builder *builder, const struct twi_alloc_event *event,
		      struct twi_replay_packed *op)
{
	struct twi_replay *replay = builder->replay;
	uint64_t align = (uint64_t)1 << twi_min(event->align_log2, ALIGN_MAX);
	struct twi_replay_id *entry;

	if (event->bytes > TWI_REPLAY_BYTES_MAX)
		return refuse_event(builder, "an allocation cannot have so many bytes",
				    event->bytes);
	if (event->align_log2 > ALIGN_MAX)
		return refuse_event(builder, "an alignment of more than 2^21: log2 of it",
				    event->align_log2);
	if (twi_replay_ids_reserve(&builder->ids) < 0 || !grow_slots(builder))
		return lacks_memory(builder);
	entry = twi_replay_ids_make(&builder->ids, event->id);
	if (entry->slot != NONE)
		return refuse_event(builder, "its id is live already", event->id);
	op->slot = builder->free_slots > 0 ? builder->free_slot[--builder->free_slots]
					   : replay->slots++;
	op->what |= event->bytes << 6;
	op->what |= (uint64_t)(twi_max(event->align_log2, TWI_REPLAY_ALIGN_LEAST) -
			       TWI_REPLAY_ALIGN_LEAST)
		    << 2;
	entry->slot = op->slot;
	entry->alloc = (uint32_t)replay->count;
	builder->ids.dead--;
	replay->allocs++;
	replay->all_rounded +=
		twi_align_up(twi_max(event->bytes, 1u), PAGE) + (align > PAGE ? align : 0);
	replay->largest_bytes = twi_max(replay->largest_bytes, event->bytes);
	return TOW_OK;
}

/* False: the event frees an id that is not live. */
static bool drop_event(struct twi_replay_builder *builder, const struct twi_alloc_event *event,
		       struct twi_replay_packed *op)
{
	struct twi_replay_id *entry = twi_replay_ids_find(&builder->ids, event->id);

	if (entry == NULL || entry->slot == NONE) {
		builder->replay->unmatched_frees++;
		builder->replay->double_frees += entry != NULL;
		return false;
	}
	op->slot = entry->slot;
	op->what |= (uint64_t)entry->alloc << 6;
	entry->slot = NONE;
	builder->ids.dead++;
	builder->free_slot[builder->free_slots++] = op->slot;
	return true;
}

/* Fills in the part of an event that depends on its kind. */
static int fill_event(struct twi_replay_builder *builder, const struct twi_alloc_event *event,
		      struct twi_replay_packed *op)
{
	switch (event->kind) {
	case TWI_ALLOC_ALLOC:
		return take_event(builder, event, op);
	case TWI_ALLOC_FREE:
		return drop_event(builder, event, op) ? TOW_OK : LEFT_OUT;
	case TWI_ALLOC_STEP:
		builder->replay->steps++;
		return TOW_OK;
	default:
		return refuse_event(builder, "there is no such kind of event", event->kind);
	}
}

void twi_replay_expect(const struct twi_replay_builder *builder, uint64_t id)
{
	twi_replay_ids_expect(&builder->ids, id);
}

int twi_replay_add(struct twi_replay_builder *builder, const struct twi_alloc_event *event)
{
	struct twi_replay *replay = builder->replay;
	struct twi_replay_packed op = { .slot = NONE, .what = event->kind };
	uint32_t actor;
	int status;

	if (replay->count == EVENTS_MAX)
		return refuse_event(builder, "more events than a program can have", EVENTS_MAX);
	if (!grow_events(builder))
		return lacks_memory(builder);
	status = fill_event(builder, event, &op);
	builder->events++;
	if (status < 0 || status == LEFT_OUT)
		return status < 0 ? status : TOW_OK;
	actor = find_actor(builder, event);
	if (actor == NONE)
		return lacks_memory(builder);
	op.what |= (uint64_t)actor << 47;
	op.when = place_time(builder, event->ns);
	replay->op[replay->count++] = op;
	return TOW_OK;
}

void twi_replay_abandon(struct twi_replay_builder *builder)
{
	if (builder == NULL)
		return;
	twi_replay_ids_fini(&builder->ids);
	free(builder->free_slot);
	free(builder->actor_at);
	twi_replay_destroy(builder->replay);
	free(builder);
}

static int compare_threads(const void *a, const void *b)
{
	const struct twi_replay_actor *const *x = a, *const *y = b;

	return ((*x)->thread > (*y)->thread) - ((*x)->thread < (*y)->thread);
}

/* Numbers the threads, and counts those that allocate or free. */
static bool number_threads(struct twi_replay *replay)
{
	struct twi_replay_actor **by = calloc(replay->actors + 1u, sizeof(*by));
	uint32_t number = 0;
	bool counted = false;

	for (uint32_t i = 0; by != NULL && i < replay->actors; i++)
		by[i] = &replay->actor[i];
	if (by != NULL && replay->actors > 1)
		qsort(by, replay->actors, sizeof(by[0]), compare_threads);
	for (uint32_t i = 0; by != NULL && i < replay->actors; i++) {
		if (i > 0 && by[i]->thread != by[i - 1]->thread) {
			number++;
			counted = false;
		}
		by[i]->number = number;
		replay->threads += by[i]->counts && !counted;
		counted = counted || by[i]->counts;
	}
	replay->threads_all = number + 1;
	free(by);
	return by != NULL;
}

int twi_replay_end(struct twi_replay_builder *builder, struct twi_replay **out)
{
	struct twi_replay *replay = builder->replay;
	int status = TOW_OK;

	*out = NULL;
	if (replay->allocs == 0) {
		status = twi_error(TOW_EINVAL, "replay: there is no allocation in the log");
	} else {
		(void)map_events(replay, replay->count); /* a failure to shrink is harmless */
		if (!number_threads(replay) || twi_replay_survey(replay) < 0)
			status = lacks_memory(builder);
	}
	if (status == TOW_OK) {
		*out = replay;
		builder->replay = NULL;
	}
	twi_replay_abandon(builder);
	return status;
}

int twi_replay_create(const struct twi_alloc_event *event, uint64_t count, struct twi_replay **out)
{
	struct twi_replay_builder *builder;
	int status = twi_replay_begin(&builder);

	*out = NULL;
	for (uint64_t i = 0; status == TOW_OK && i < count; i++)
		status = twi_replay_add(builder, &event[i]);
	if (status == TOW_OK)
		return twi_replay_end(builder, out);
	twi_replay_abandon(builder);
	return status;
}

void twi_replay_destroy(struct twi_replay *replay)
{
	if (replay == NULL)
		return;
	if (replay->order == NULL) {
		if (replay->op != NULL)
			munmap(replay->op, replay->op_bytes);
		if (replay->slim != NULL)
			munmap(replay->slim, replay->slim_bytes);
		free(replay->chunk);
		free(replay->actor);
	}
	free(replay->order);
	free(replay->slot);
	free(replay);
}
