/*
 * room.h - the waits for room in the pool. Views look for it again (op/view.c); threads wait in
 * tow_alloc (op/alloc.c).
 */
#ifndef TWI_ROOM_H
#define TWI_ROOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct twi_room {
	/* Of views, in engine time; the engine is held. */
	uint64_t look_at_ns; /* when they look next */
	uint64_t since_ns;   /* since when some view waits */
	uint64_t found_ns;   /* when a view last found room */
	uint64_t pressed_ns; /* when a view last asked the pool for more than it has */
	uint64_t weighed_ns; /* when a view last asked whether a user can give some back */
	bool pressing;       /* the view that looks now asks for more */
	/* Of threads. */
	_Atomic uint32_t waiters;
	_Atomic uint64_t waiter_since_ns, waiter_bytes; /* of the thread that began last */
};

#endif
