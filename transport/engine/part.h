/*
 * part.h - what the engine polls beside the lanes. Each kind is a part with a list of its own items
 * (devices, groups, views), and is polled while that list is not empty.
 *
 *	engine->polled --- part --- part         those that have, or had, items
 *	                     |       |
 *	                    items   items        added by twi_part_add; leave by twi_list_remove
 *
 * So the engine knows none of the rooms above it, and an idle engine pays for one empty list. All
 * of this is for the holder of the engine.
 */
#ifndef TWI_PART_H
#define TWI_PART_H

#include <stdint.h>

#include <internal/list.h>

struct twi_engine;

enum twi_part_id {
	TWI_PART_DEVICES,  /* device/device_copy.c: devices that are open */
	TWI_PART_COLLS,    /* coll/coll_group.c: groups with a collective that waits for memory */
	TWI_PART_VIEWS,    /* op/view.c: receives that wait for room in the pool */
	TWI_PART_ANY,      /* message/any_peer.c: receives that look at all peers again */
	TWI_PART_CHANNELS, /* message/channel.c: channels that the other side has just closed */
	TWI_PART_COUNT
};

struct twi_part_ops {
	/* Moves what can be moved. Returns how many events there were. */
	unsigned (*poll)(struct twi_engine *engine, struct twi_list *items);
	/* When to poll again though nothing has come, at the latest next_ns, in engine time. */
	uint64_t (*deadline_ns)(struct twi_engine *engine, struct twi_list *items,
				uint64_t next_ns);
	/* The runtime closes: ends all items. NULL: they have ended with what they belong to. */
	void (*close)(struct twi_engine *engine, struct twi_list *items);
};

struct twi_part {
	struct twi_list link; /* on engine->polled */
	const struct twi_part_ops *ops;
	struct twi_list items;
};

void twi_parts_init(struct twi_engine *engine);

/* An item of this kind is polled from now on. */
void twi_part_add(struct twi_engine *engine, enum twi_part_id id, const struct twi_part_ops *ops,
		  struct twi_list *item);

/* The items of a kind that are polled. */
static inline struct twi_list *twi_part_items(struct twi_part *parts, enum twi_part_id id)
{
	return &parts[id].items;
}

/* Polls all parts that have items. A part without items leaves the list. */
unsigned twi_parts_poll(struct twi_engine *engine);

/* The earliest of next_ns and the deadlines of the parts. */
uint64_t twi_parts_deadline_ns(struct twi_engine *engine, uint64_t next_ns);

/* Closes what is left of all parts. Called once, when the runtime closes. */
void twi_parts_close(struct twi_engine *engine);

#endif
