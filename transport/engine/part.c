/* part.c - adds parts' items, polls them, and asks for their deadlines. See part.h. */
#include "transport/engine/part.h"

#include "transport/engine/engine.h"

void twi_parts_init(struct twi_engine *engine)
{
	twi_list_init(&engine->polled);
	for (unsigned i = 0; i < TWI_PART_COUNT; i++) {
		twi_list_init(&engine->parts[i].link);
		twi_list_init(&engine->parts[i].items);
	}
}

void twi_part_add(struct twi_engine *engine, enum twi_part_id id, const struct twi_part_ops *ops,
		  struct twi_list *item)
{
	struct twi_part *part = &engine->parts[id];

	if (twi_list_empty(&part->link)) {
		part->ops = ops;
		twi_list_push_back(&engine->polled, &part->link);
	}
	twi_list_push_back(&part->items, item);
}

unsigned twi_parts_poll(struct twi_engine *engine)
{
	struct twi_list *pos, *next;
	unsigned events = 0;

	twi_list_for_each_safe (pos, next, &engine->polled) {
		struct twi_part *part = twi_container_of(pos, struct twi_part, link);

		if (twi_list_empty(&part->items))
			twi_list_remove(&part->link);
		else
			events += part->ops->poll(engine, &part->items);
	}
	return events;
}

uint64_t twi_parts_deadline_ns(struct twi_engine *engine, uint64_t next_ns)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &engine->polled) {
		struct twi_part *part = twi_container_of(pos, struct twi_part, link);

		if (!twi_list_empty(&part->items))
			next_ns = part->ops->deadline_ns(engine, &part->items, next_ns);
	}
	return next_ns;
}

void twi_parts_close(struct twi_engine *engine)
{
	twi_assert_held(engine);
	for (unsigned i = 0; i < TWI_PART_COUNT; i++) {
		struct twi_part *part = &engine->parts[i];

		if (!twi_list_empty(&part->items) && part->ops->close != NULL)
			part->ops->close(engine, &part->items);
	}
}
