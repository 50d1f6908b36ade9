/*
 * replay_program.c - from the events of a log to a program with dense slots; replay.h has the
 * concept. A log is a stranger's file: whatever it says is checked here, once.
 */
#include "memreg/sizing/replay.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/base/hash.h"
#include "memreg/arena/arena.h"
#include <internal/base.h>

#define BYTES_MAX  ((uint64_t)1 << 40)
#define EVENTS_MAX ((uint64_t)1 << 27)
#define ALIGN_MAX  21
#define UNIT       64u
#define PAGE       4096u
#define NONE       UINT32_MAX

/* Live ids, open addressing: an id's slot, or NONE where its allocation has been freed. */
struct ids {
	uint64_t *id;
	uint32_t *slot;
	uint8_t *used;
	uint64_t mask;
};

static int ids_init(struct ids *ids, uint64_t count)
{
	uint64_t room = 16;

	while (room < 2 * count)
		room *= 2;
	ids->id = calloc(room, sizeof(ids->id[0]));
	ids->slot = calloc(room, sizeof(ids->slot[0]));
	ids->used = calloc(room, 1);
	ids->mask = room - 1;
	return ids->id != NULL && ids->slot != NULL && ids->used != NULL ? TOW_OK : TOW_ENOMEM;
}

static void ids_fini(struct ids *ids)
{
	free(ids->id);
	free(ids->slot);
	free(ids->used);
}

/* Where `id` stands, or would. */
static uint32_t *ids_at(struct ids *ids, uint64_t id)
{
	uint64_t i = twi_hash_word(id) & ids->mask;

	while (ids->used[i] && ids->id[i] != id)
		i = (i + 1) & ids->mask;
	if (!ids->used[i]) {
		ids->used[i] = 1;
		ids->id[i] = id;
		ids->slot[i] = NONE;
	}
	return &ids->slot[i];
}

/* What is live while the events are read. */
struct live {
	struct ids ids;
	uint64_t *bytes; /* by slot */
	uint64_t now, rounded;
	uint64_t seen_threads[4]; /* the first 256, by number modulo */
};

static uint64_t rounded_bytes(uint64_t bytes)
{
	return twi_max(twi_align_up(bytes, UNIT), UNIT);
}

static int take_event(struct twi_replay *replay, struct live *live,
		      const struct twi_alloc_event *event, uint64_t index, struct twi_replay_op *op)
{
	uint32_t *slot = ids_at(&live->ids, event->id);
	uint64_t align = (uint64_t)1 << twi_min(event->align_log2, ALIGN_MAX);

	if (event->bytes > BYTES_MAX)
		return twi_error(TOW_EINVAL, "replay: event %llu: %llu bytes are no allocation",
				 (unsigned long long)index, (unsigned long long)event->bytes);
	if (event->align_log2 > ALIGN_MAX)
		return twi_error(TOW_EINVAL,
				 "replay: event %llu: an alignment of 2^%u; 2^%u is the most",
				 (unsigned long long)index, event->align_log2, ALIGN_MAX);
	if (*slot != NONE)
		return twi_error(TOW_EINVAL,
				 "replay: event %llu: allocation %llu is live already, since slot "
				 "%u",
				 (unsigned long long)index, (unsigned long long)event->id, *slot);
	op->slot = *slot = replay->slots++;
	live->bytes[op->slot] = event->bytes;
	live->now += event->bytes;
	live->rounded += rounded_bytes(event->bytes);
	replay->allocs++;
	replay->all_rounded +=
		twi_align_up(twi_max(event->bytes, 1u), PAGE) + (align > PAGE ? align : 0);
	replay->largest_bytes = twi_max(replay->largest_bytes, event->bytes);
	if (live->rounded > replay->peak_rounded) {
		replay->peak_rounded = live->rounded;
		replay->peak_bytes = live->now;
		replay->peak_op = replay->count;
	}
	return TOW_OK;
}

/* False: of something that the log does not know. */
static bool drop_event(struct live *live, const struct twi_alloc_event *event,
		       struct twi_replay_op *op)
{
	uint32_t *slot = ids_at(&live->ids, event->id);

	if (*slot == NONE)
		return false;
	op->slot = *slot;
	live->now -= live->bytes[*slot];
	live->rounded -= rounded_bytes(live->bytes[*slot]);
	*slot = NONE;
	return true;
}

static int compile_one(struct twi_replay *replay, struct live *live,
		       const struct twi_alloc_event *event, uint64_t index)
{
	struct twi_replay_op op = { event->ns,
				    event->bytes,
				    event->tag ? event->tag : event->caller,
				    NONE,
				    event->thread,
				    event->kind,
				    event->align_log2 };
	uint64_t *threads = &live->seen_threads[event->thread / 64 % 4];
	int status = TOW_OK;

	switch (event->kind) {
	case TWI_ALLOC_ALLOC:
		status = take_event(replay, live, event, index, &op);
		break;
	case TWI_ALLOC_FREE:
		if (drop_event(live, event, &op))
			break;
		replay->unmatched_frees++;
		return TOW_OK;
	case TWI_ALLOC_STEP:
		replay->steps++;
		break;
	default:
		return twi_error(TOW_EINVAL, "replay: event %llu is of the unknown kind %u",
				 (unsigned long long)index, event->kind);
	}
	if (status < 0)
		return status;
	if (event->kind != TWI_ALLOC_STEP && !(*threads >> event->thread % 64 & 1)) {
		*threads |= (uint64_t)1 << event->thread % 64;
		replay->threads++;
	}
	replay->op[replay->count++] = op;
	return TOW_OK;
}

int twi_replay_create(const struct twi_alloc_event *event, uint64_t count, struct twi_replay **out)
{
	struct twi_replay *replay = calloc(1, sizeof(*replay));
	struct live live = { .now = 0 };
	int status = TOW_OK;

	*out = NULL;
	if (count > EVENTS_MAX)
		status = twi_error(TOW_EINVAL, "replay: %llu events; %llu are the most",
				   (unsigned long long)count, (unsigned long long)EVENTS_MAX);
	if (status == TOW_OK && replay != NULL) {
		replay->op = calloc(count + 1, sizeof(replay->op[0]));
		live.bytes = calloc(count + 1, sizeof(live.bytes[0]));
	}
	if (status == TOW_OK && (replay == NULL || replay->op == NULL || live.bytes == NULL ||
				 ids_init(&live.ids, count) < 0))
		status = twi_error(TOW_ENOMEM, "replay: no memory for %llu events",
				   (unsigned long long)count);
	for (uint64_t i = 0; status == TOW_OK && i < count; i++)
		status = compile_one(replay, &live, &event[i], i);
	if (status == TOW_OK && replay->allocs == 0)
		status = twi_error(TOW_EINVAL, "replay: there is no allocation in the log");
	if (status == TOW_OK) {
		replay->never_freed = replay->allocs;
		for (uint64_t i = 0; i < replay->count; i++)
			replay->never_freed -= replay->op[i].kind == TWI_ALLOC_FREE;
		*out = replay;
	} else {
		twi_replay_destroy(replay);
	}
	ids_fini(&live.ids);
	free(live.bytes);
	return status;
}

void twi_replay_destroy(struct twi_replay *replay)
{
	if (replay == NULL)
		return;
	free(replay->op);
	free(replay);
}

/* An op and the time it is moved to; `index` keeps the order of what is moved to the same time. */
struct moved {
	uint64_t ns, index;
};

static int compare_moved(const void *a, const void *b)
{
	const struct moved *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

/* The time at which a thread does what it did at `ns`: its own pace, its own start. */
static uint64_t warp_time(uint64_t ns, uint64_t span, uint64_t seed, uint32_t thread,
			  uint32_t permille)
{
	uint64_t r = twi_hash_word(twi_hash_spread(seed) + thread + 1);
	uint64_t share = span / 1000 * permille;
	double pace = 1.0 + ((double)(r >> 40) / (1 << 24) - 0.5) * 2e-3 * permille;

	return share + (uint64_t)((double)ns * pace) + (share ? (r & 0xffffffff) % share : 0);
}

static void move_all(const struct twi_replay *replay, uint64_t seed, uint32_t permille,
		     struct moved *moved, uint64_t *born)
{
	uint64_t first = replay->op[0].ns, span = replay->op[replay->count - 1].ns - first;

	for (uint64_t i = 0; i < replay->count; i++) {
		const struct twi_replay_op *op = &replay->op[i];

		moved[i].index = i;
		moved[i].ns = warp_time(op->ns >= first ? op->ns - first : 0, span, seed,
					op->thread, permille);
		if (op->kind == TWI_ALLOC_ALLOC)
			born[op->slot] = moved[i].ns;
		else if (op->kind == TWI_ALLOC_FREE)
			moved[i].ns = twi_max(moved[i].ns, born[op->slot]);
	}
	qsort(moved, replay->count, sizeof(moved[0]), compare_moved);
}

int twi_replay_vary(const struct twi_replay *replay, uint64_t seed, uint32_t permille,
		    struct twi_replay **out)
{
	struct moved *moved = calloc(replay->count, sizeof(*moved));
	uint64_t *born = calloc(replay->slots + 1u, sizeof(*born));
	struct twi_alloc_event *event = calloc(replay->count, sizeof(*event));
	int status;

	*out = NULL;
	if (moved == NULL || born == NULL || event == NULL) {
		status = twi_error(TOW_ENOMEM, "replay: no memory for another order of %llu events",
				   (unsigned long long)replay->count);
	} else {
		move_all(replay, seed, permille, moved, born);
		for (uint64_t i = 0; i < replay->count; i++) {
			const struct twi_replay_op *op = &replay->op[moved[i].index];

			event[i] = (struct twi_alloc_event){ .ns = moved[i].ns,
							     .id = op->slot,
							     .bytes = op->bytes,
							     .caller = op->group,
							     .thread = op->thread,
							     .kind = op->kind,
							     .align_log2 = op->align_log2 };
		}
		status = twi_replay_create(event, replay->count, out);
	}
	free(moved);
	free(born);
	free(event);
	return status;
}

static int compare_group(const void *a, const void *b)
{
	const struct twi_replay_group *x = a, *y = b;

	return (x->group > y->group) - (x->group < y->group);
}

static int compare_bytes(const void *a, const void *b)
{
	const struct twi_replay_group *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return compare_group(a, b);
}

/* Joins neighbours of one group; returns how many are left. */
static uint64_t join_groups(struct twi_replay_group *all, uint64_t count)
{
	uint64_t kept = 0;

	qsort(all, count, sizeof(*all), compare_group);
	for (uint64_t i = 0; i < count; i++) {
		if (kept > 0 && all[kept - 1].group == all[i].group) {
			all[kept - 1].bytes += all[i].bytes;
			all[kept - 1].allocations += all[i].allocations;
		} else {
			all[kept++] = all[i];
		}
	}
	qsort(all, kept, sizeof(*all), compare_bytes);
	return kept;
}

int twi_replay_groups(const struct twi_replay *replay, struct twi_replay_group *group, uint32_t max,
		      uint32_t *count_out)
{
	struct twi_replay_group *all = calloc(replay->slots + 1u, sizeof(*all));
	uint64_t live = 0;

	*count_out = 0;
	if (all == NULL)
		return twi_error(TOW_ENOMEM, "replay: no memory for the groups");
	for (uint64_t i = 0; i <= replay->peak_op; i++) {
		const struct twi_replay_op *op = &replay->op[i];

		if (op->kind == TWI_ALLOC_ALLOC)
			all[op->slot] = (struct twi_replay_group){ op->group, op->bytes, 1 };
		else if (op->kind == TWI_ALLOC_FREE)
			all[op->slot].allocations = 0;
	}
	for (uint64_t i = 0; i < replay->slots; i++)
		if (all[i].allocations > 0)
			all[live++] = all[i];
	live = join_groups(all, live);
	for (uint64_t i = 0; i < live; i++) {
		if (i < max) {
			group[(*count_out)++] = all[i];
			continue;
		}
		group[max - 1].group = UINT64_MAX;
		group[max - 1].bytes += all[i].bytes;
		group[max - 1].allocations += all[i].allocations;
	}
	free(all);
	return TOW_OK;
}
