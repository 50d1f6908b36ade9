/*
 * replay_ids.h - which ids of a log are live: open addressing, an entry for each, with the slot and
 * the event of its allocation.
 *
 * What is freed stays in the table as dead, so that a second free is told from a free of something
 * that the log never had. There may be millions of them: when the table is full the dead ones are
 * forgotten, unless they are few. So its room follows what is live, not the length of the log.
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
	bool forgot; /* some that were dead */
};

/* TOW_OK; TOW_ENOMEM, with the table as it was. Makes room for one more. */
int twi_replay_ids_reserve(struct twi_replay_ids *ids);
void twi_replay_ids_fini(struct twi_replay_ids *ids);

/* The id is asked for soon. */
void twi_replay_ids_expect(const struct twi_replay_ids *ids, uint64_t id);

/* NULL: not there. */
struct twi_replay_id *twi_replay_ids_find(struct twi_replay_ids *ids, uint64_t id);
/* The id's entry, a new one if it has none, as dead. There is room. */
struct twi_replay_id *twi_replay_ids_make(struct twi_replay_ids *ids, uint64_t id);

#endif
