/*
 * replay_groups.c - the owners of a program's memory; replay_groups.h has the concept.
 *
 * Each event has an actor, which is a thread with a tag and a call site. So one table maps the sums
 * of actors to the sums of their groups.
 */
#include "memreg/sizing/replay_groups.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include "memreg/sizing/replay_op.h"
#include <internal/base.h>

struct grouping {
	struct twi_replay_group *group; /* sums of the live allocations */
	uint32_t *of;                   /* the group of each actor */
	uint32_t count;
};

static int compare_keys(const void *a, const void *b)
{
	const struct twi_replay_group *x = a, *y = b;

	if (x->tag != y->tag)
		return x->tag < y->tag ? -1 : 1;
	return (x->caller > y->caller) - (x->caller < y->caller);
}

static int compare_bytes(const void *a, const void *b)
{
	const struct twi_replay_group *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return compare_keys(a, b);
}

static struct twi_replay_group key_of(const struct twi_replay_actor *actor, enum twi_replay_by by)
{
	struct twi_replay_group key = { .caller = actor->caller, .tag = actor->tag };

	if (by == TWI_REPLAY_BY_TAG && key.tag != 0)
		key.caller = 0;
	if (by == TWI_REPLAY_BY_CALLER)
		key.tag = 0;
	return key;
}

static void fini_grouping(struct grouping *all)
{
	free(all->group);
	free(all->of);
}

static bool init_grouping(struct grouping *all, const struct twi_replay *replay,
			  enum twi_replay_by by)
{
	*all = (struct grouping){ .group = calloc(replay->actors + 1u, sizeof(all->group[0])),
				  .of = calloc(replay->actors + 1u, sizeof(all->of[0])) };
	if (all->group == NULL || all->of == NULL) {
		fini_grouping(all);
		return false;
	}
	for (uint32_t i = 0; i < replay->actors; i++)
		all->group[i] = key_of(&replay->actor[i], by);
	qsort(all->group, replay->actors, sizeof(all->group[0]), compare_keys);
	for (uint32_t i = 0; i < replay->actors; i++) {
		if (all->count == 0 ||
		    compare_keys(&all->group[all->count - 1], &all->group[i]) != 0)
			all->group[all->count++] = all->group[i];
	}
	for (uint32_t i = 0; i < replay->actors; i++) {
		struct twi_replay_group key = key_of(&replay->actor[i], by);
		const struct twi_replay_group *found =
			bsearch(&key, all->group, all->count, sizeof(all->group[0]), compare_keys);

		all->of[i] = (uint32_t)(found - all->group);
	}
	return true;
}

static int lacks_memory(void)
{
	return twi_error(TOW_ENOMEM, "replay: no memory for the groups");
}

/* The change of a group's sums by one event. */
struct change {
	uint64_t bytes;
	uint32_t group, alloc; /* alloc: the index of the allocation */
	uint8_t kind;
};

static struct change change_at(const struct twi_replay *replay, const struct grouping *all,
			       uint64_t position)
{
	uint32_t index = twi_replay_index(replay, position);
	const struct twi_replay_packed *op = &replay->op[index];
	struct change change = { .kind = twi_replay_kind(op), .alloc = index };

	if (change.kind == TWI_ALLOC_FREE) {
		change.alloc = (uint32_t)twi_replay_value(op);
		op = &replay->op[change.alloc];
	}
	change.group = all->of[twi_replay_actor(op)];
	change.bytes = change.kind != TWI_ALLOC_STEP ? twi_replay_value(op) : 0;
	return change;
}

static void apply_change(struct grouping *all, const struct change *change)
{
	struct twi_replay_group *group = &all->group[change->group];

	if (change->kind == TWI_ALLOC_ALLOC) {
		group->bytes += change->bytes;
		group->allocations++;
	} else if (change->kind == TWI_ALLOC_FREE) {
		group->bytes -= change->bytes;
		group->allocations--;
	}
}

int twi_replay_groups(const struct twi_replay *replay, enum twi_replay_by by,
		      struct twi_replay_group *group, uint32_t max, uint32_t *count_out)
{
	struct grouping all;

	*count_out = 0;
	if (!init_grouping(&all, replay, by))
		return lacks_memory();
	for (uint64_t i = 0; i <= replay->peak_op; i++) {
		struct change change = change_at(replay, &all, i);

		apply_change(&all, &change);
	}
	qsort(all.group, all.count, sizeof(all.group[0]), compare_bytes);
	for (uint32_t i = 0; i < all.count; i++) {
		if (all.group[i].allocations == 0)
			continue;
		if (*count_out < max) {
			group[(*count_out)++] = all.group[i];
			continue;
		}
		group[max - 1].caller = TWI_REPLAY_REST;
		group[max - 1].tag = 0;
		group[max - 1].bytes += all.group[i].bytes;
		group[max - 1].allocations += all.group[i].allocations;
	}
	fini_grouping(&all);
	return TOW_OK;
}

/* Replaces *most by a larger group. */
static void keep_larger(struct twi_replay_group *most, const struct twi_replay_group *key,
			uint64_t bytes, uint64_t allocations)
{
	struct twi_replay_group group = *key;

	group.bytes = bytes;
	group.allocations = allocations;
	if (bytes > most->bytes)
		*most = group;
}

/* Compares each group's live bytes with those at the middle step. */
static void keep_grown(const struct grouping *all, const struct twi_replay_group *middle,
		       struct twi_replay_group *grown)
{
	for (uint32_t i = 0; i < all->count; i++) {
		const struct twi_replay_group *now = &all->group[i];

		if (now->bytes > middle[i].bytes)
			keep_larger(grown, now, now->bytes - middle[i].bytes,
				    now->allocations -
					    twi_min(middle[i].allocations, now->allocations));
	}
}

static void walk_leaks(const struct twi_replay *replay, struct grouping *all,
		       struct twi_replay_group *middle, struct twi_replay_group *late,
		       struct twi_replay_leaks *out)
{
	uint64_t steps = 0;

	for (uint64_t i = 0; i < replay->count; i++) {
		struct change change = change_at(replay, all, i);

		apply_change(all, &change);
		if (change.alloc >= replay->count / 2 && change.kind != TWI_ALLOC_STEP) {
			struct twi_replay_group *group = &late[change.group];
			bool made = change.kind == TWI_ALLOC_ALLOC;

			group->bytes += made ? change.bytes : -change.bytes;
			group->allocations += made ? 1u : UINT64_MAX;
		}
		if (change.kind != TWI_ALLOC_STEP)
			continue;
		if (++steps == (replay->steps + 1) / 2)
			for (uint32_t k = 0; k < all->count; k++)
				middle[k] = all->group[k];
		else if (steps == replay->steps)
			keep_grown(all, middle, &out->grown);
	}
	for (uint32_t i = 0; i < all->count; i++)
		keep_larger(&out->left, &all->group[i], late[i].bytes, late[i].allocations);
	for (uint32_t i = 0; i < all->count && replay->late_bytes == 0; i++)
		keep_larger(&out->left, &all->group[i], all->group[i].bytes,
			    all->group[i].allocations);
}

int twi_replay_leaks(const struct twi_replay *replay, struct twi_replay_leaks *out)
{
	struct twi_replay_group *middle, *late;
	struct grouping all;

	*out = (struct twi_replay_leaks){ .left = { .bytes = 0 } };
	if (!init_grouping(&all, replay, TWI_REPLAY_BY_BOTH))
		return lacks_memory();
	middle = calloc(all.count + 1u, sizeof(middle[0]));
	late = calloc(all.count + 1u, sizeof(late[0]));
	if (middle != NULL && late != NULL)
		walk_leaks(replay, &all, middle, late, out);
	fini_grouping(&all);
	free(late);
	if (middle == NULL || late == NULL) {
		free(middle);
		return lacks_memory();
	}
	free(middle);
	return TOW_OK;
}

/* Chooses the groups with the highest peaks, and maps each group to its series. */
static void choose_series(const struct twi_replay *replay, struct grouping *all,
			  struct twi_replay_group *most, uint32_t *series,
			  struct twi_replay_timeline *line)
{
	for (uint32_t i = 0; i < all->count; i++)
		most[i] = all->group[i];
	for (uint64_t i = 0; i < replay->count; i++) {
		struct change change = change_at(replay, all, i);

		apply_change(all, &change);
		most[change.group].bytes =
			twi_max(most[change.group].bytes, all->group[change.group].bytes);
	}
	qsort(most, all->count, sizeof(most[0]), compare_bytes);
	while (line->count < twi_min(all->count, (uint32_t)TWI_REPLAY_SERIES) &&
	       most[line->count].bytes > 0) {
		line->series[line->count] = most[line->count];
		line->count++;
	}
	for (uint32_t i = 0; i < all->count; i++) {
		series[i] = line->count;
		for (uint32_t k = 0; k < line->count; k++)
			if (compare_keys(&all->group[i], &line->series[k]) == 0)
				series[i] = k;
	}
}

struct timeline_walk {
	uint64_t live[TWI_REPLAY_SERIES + 1];
	uint64_t sum, most; /* live bytes of all groups; their peak in this bin */
	uint32_t bin;
};

static void store_bin(struct timeline_walk *walk, struct twi_replay_timeline *line)
{
	uint64_t *bytes = line->bytes + (uint64_t)walk->bin * (line->count + 1);

	for (uint32_t i = 0; i <= line->count; i++)
		bytes[i] = walk->live[i];
	walk->most = walk->sum;
}

static void advance_bins(struct timeline_walk *walk, struct twi_replay_timeline *line, uint32_t bin)
{
	while (walk->bin < bin) {
		walk->bin++;
		store_bin(walk, line);
	}
}

static void fill_bins(const struct twi_replay *replay, const struct grouping *all,
		      const uint32_t *series, struct twi_replay_timeline *line)
{
	struct timeline_walk walk = { .sum = 0 };
	double span = (double)(line->end_ns - line->begin_ns) + 1;

	for (uint64_t i = 0; i < replay->count; i++) {
		struct change change = change_at(replay, all, i);
		uint64_t ns = twi_replay_ns(replay, i) - line->begin_ns;
		uint32_t bin = (uint32_t)((double)ns / span * line->bins);
		uint64_t bytes = change.kind == TWI_ALLOC_FREE ? -change.bytes : change.bytes;

		advance_bins(&walk, line, twi_min(bin, line->bins - 1));
		walk.live[series[change.group]] += bytes;
		walk.sum += bytes;
		if (walk.sum > walk.most)
			store_bin(&walk, line);
	}
	advance_bins(&walk, line, line->bins - 1);
}

int twi_replay_timeline_init(struct twi_replay_timeline *line, const struct twi_replay *replay,
			     uint32_t bins)
{
	struct twi_replay_group *most;
	struct grouping all;
	uint32_t *series;

	*line = (struct twi_replay_timeline){ .bins = bins };
	if (!init_grouping(&all, replay, TWI_REPLAY_BY_TAG))
		return lacks_memory();
	most = calloc(all.count + 1u, sizeof(most[0]));
	series = calloc(all.count + 1u, sizeof(series[0]));
	if (most != NULL && series != NULL) {
		choose_series(replay, &all, most, series, line);
		line->bytes = calloc((uint64_t)bins * (line->count + 1), sizeof(line->bytes[0]));
	}
	if (line->bytes != NULL) {
		line->begin_ns = twi_replay_ns(replay, 0);
		line->end_ns = twi_replay_ns(replay, replay->count - 1);
		line->peak_ns = twi_replay_ns(replay, replay->peak_op);
		fill_bins(replay, &all, series, line);
	}
	free(most);
	free(series);
	fini_grouping(&all);
	return line->bytes != NULL ? TOW_OK : lacks_memory();
}

void twi_replay_timeline_fini(struct twi_replay_timeline *line)
{
	free(line->bytes);
	line->bytes = NULL;
}
