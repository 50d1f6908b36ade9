/*
 * replay_ids.c - the table of live ids; replay_ids.h has the concept.
 */
#include "memreg/sizing/replay_ids.h"

#include <stdlib.h>

#include "diag/base/hash.h"
#include <towline/status.h>

#define ROOM_LEAST 1024
#define DEAD_KEPT  ((uint64_t)1 << 18)
#define DEAD       UINT32_MAX

/* The index of `id`, or of the free entry where it belongs. */
static uint64_t entry_index(const struct twi_replay_ids *ids, uint64_t id)
{
	uint64_t i = twi_hash_word(id) & ids->mask;

	while (ids->used[i] && ids->entry[i].id != id)
		i = (i + 1) & ids->mask;
	return i;
}

static bool is_kept(const struct twi_replay_ids *ids, uint64_t i)
{
	return ids->used[i] && (ids->entry[i].slot != DEAD || ids->dead <= DEAD_KEPT);
}

int twi_replay_ids_reserve(struct twi_replay_ids *ids)
{
	struct twi_replay_ids old = *ids;
	uint64_t room = ROOM_LEAST, kept = 0;

	if (old.entry != NULL && 2 * (old.count + 1) <= old.mask + 1)
		return TOW_OK;
	for (uint64_t i = 0; old.entry != NULL && i <= old.mask; i++)
		kept += is_kept(&old, i);
	while (room < 4 * (kept + 1))
		room *= 2;
	ids->entry = calloc(room, sizeof(ids->entry[0]));
	ids->used = calloc(room, 1);
	if (ids->entry == NULL || ids->used == NULL) {
		free(ids->entry);
		free(ids->used);
		*ids = old;
		return TOW_ENOMEM;
	}
	ids->mask = room - 1;
	ids->count = ids->dead = 0;
	for (uint64_t i = 0; old.entry != NULL && i <= old.mask; i++) {
		if (is_kept(&old, i)) {
			*twi_replay_ids_make(ids, old.entry[i].id) = old.entry[i];
			ids->dead -= old.entry[i].slot != DEAD;
		} else if (old.used[i]) {
			ids->forgot = true;
		}
	}
	twi_replay_ids_fini(&old);
	return TOW_OK;
}

void twi_replay_ids_fini(struct twi_replay_ids *ids)
{
	free(ids->entry);
	free(ids->used);
	ids->entry = NULL;
	ids->used = NULL;
}

void twi_replay_ids_expect(const struct twi_replay_ids *ids, uint64_t id)
{
	uint64_t i = twi_hash_word(id) & ids->mask;

	if (ids->entry == NULL)
		return;
	__builtin_prefetch(&ids->used[i], 1);
	__builtin_prefetch(&ids->entry[i], 1);
}

struct twi_replay_id *twi_replay_ids_find(struct twi_replay_ids *ids, uint64_t id)
{
	uint64_t i = ids->entry != NULL ? entry_index(ids, id) : 0;

	return ids->entry != NULL && ids->used[i] ? &ids->entry[i] : NULL;
}

struct twi_replay_id *twi_replay_ids_make(struct twi_replay_ids *ids, uint64_t id)
{
	uint64_t i = entry_index(ids, id);

	if (!ids->used[i]) {
		ids->used[i] = 1;
		ids->entry[i] = (struct twi_replay_id){ .id = id, .slot = DEAD };
		ids->count++;
		ids->dead++;
	}
	return &ids->entry[i];
}
