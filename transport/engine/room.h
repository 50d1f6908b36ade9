/*
 * room.h - who waits for room in the pool: views, which look for it again (op/view.c), and threads
 * in tow_alloc (op/alloc.c).
 */
#ifndef TWI_ROOM_H
#define TWI_ROOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct twi_room {
	/* Of views, engine time; the engine is held. */
	uint64_t look_at_ns; /* the next look */
	uint64_t since_ns;   /* since when some view waits */
	uint64_t found_ns;   /* the last view that found room */
	uint64_t pressed_ns; /* when a view last asked the pool for more than it has */
	uint64_t weighed_ns; /* when a view last asked whether anybody can give some back */
	bool pressing;       /* the view that looks now asks for more */
	/* Of threads. */
	_Atomic uint32_t waiters;
	_Atomic uint64_t waiter_since_ns, waiter_bytes; /* of the last that began */
};

#endif
