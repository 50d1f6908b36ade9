/*
 * replay_ids.h - the live ids of a log, with the slot and the event of their allocation.
 *
 * A table with open addressing. A freed id stays in it as dead, so that a second free can be told
 * from a free of an unknown id. There may be millions of dead ids. When the table is full they are
 * forgotten, unless they are few. So its size follows the live ids, not the length of the log.
 */
#ifndef TWI_REPLAY_IDS_H
#define TWI_REPLAY_IDS_H

#include <stdbool.h>
#include <stdint.h>

struct twi_replay_id {
	uint64_t id;
	uint32_t slot; /* UINT32_MAX: dead */
	uint32_t alloc;
};

struct twi_replay_ids {
	struct twi_replay_id *entry;
	uint8_t *used;
	uint64_t mask, count, dead;
	bool forgot; /* some dead ids were forgotten */
};

/* Makes room for one more id. TOW_OK; TOW_ENOMEM, with the table unchanged. */
int twi_replay_ids_reserve(struct twi_replay_ids *ids);
void twi_replay_ids_fini(struct twi_replay_ids *ids);

/* Prefetches the entry of an id that is needed soon. */
void twi_replay_ids_expect(const struct twi_replay_ids *ids, uint64_t id);

/* The id's entry; NULL: there is none. */
struct twi_replay_id *twi_replay_ids_find(struct twi_replay_ids *ids, uint64_t id);
/* The id's entry, or a new one that is dead. There must be room. */
struct twi_replay_id *twi_replay_ids_make(struct twi_replay_ids *ids, uint64_t id);

#endif
