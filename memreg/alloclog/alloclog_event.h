/*
 * alloclog_event.h - one event of an allocation log, as readers see it.
 *
 * Who replays a log needs this alone. Times count from the beginning of the log, and events stand
 * in their order. ids of allocations are 1, 2, 3, ... in the order in which they appear.
 */
#ifndef TWI_ALLOCLOG_EVENT_H
#define TWI_ALLOCLOG_EVENT_H

#include <stdint.h>

/* The tag of what the library takes of the pool for itself; no tag of a program's is that large. */
#define TWI_ALLOC_TAG_LIBRARY UINT32_MAX
/* The tag of what was live when the log began: allocated by nobody knows whom. */
#define TWI_ALLOC_TAG_EARLIER (UINT32_MAX - 1)

enum twi_alloc_kind {
	TWI_ALLOC_ALLOC = 1,
	TWI_ALLOC_FREE = 2,
	TWI_ALLOC_STEP = 3, /* a training step begins: id is its number */
	/*
	 * From here on for `bytes` ns allocations that were freed in this time are left out:
	 * `caller` events, and `id` steps.
	 */
	TWI_ALLOC_GAP = 4,
};

struct twi_alloc_event {
	uint64_t ns;
	uint64_t id; /* pairs alloc and free; a free with 0: allocated before the log began */
	/* What was asked for; of a free what its allocation asked for. With id 0 what that took of
	 * the pool; 0: not known. */
	uint64_t bytes;
	uint64_t caller; /* return address in the user's program; 0: not known */
	uint32_t thread; /* as the kernel numbers them */
	uint32_t tag;    /* of that thread then; 0: none */
	uint8_t kind;    /* enum twi_alloc_kind */
	uint8_t align_log2;
};

#endif
