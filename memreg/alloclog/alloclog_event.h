/*
 * alloclog_event.h - one event of an allocation log, as readers see it.
 *
 * A replay needs only this header. Times count from the beginning of the log, and events are sorted
 * by time. The ids of allocations are 1, 2, 3, ... in the order of their events.
 */
#ifndef TWI_ALLOCLOG_EVENT_H
#define TWI_ALLOCLOG_EVENT_H

#include <stdint.h>

/* The tag of memory that the library takes for itself; no tag of a program is that large. */
#define TWI_ALLOC_TAG_LIBRARY UINT32_MAX
/* The tag of memory that was live when the log began; its caller is unknown. */
#define TWI_ALLOC_TAG_EARLIER (UINT32_MAX - 1)

enum twi_alloc_kind {
	TWI_ALLOC_ALLOC = 1,
	TWI_ALLOC_FREE = 2,
	TWI_ALLOC_STEP = 3, /* a training step begins: id is its number */
	/*
	 * From here on, for `bytes` ns, allocations that were also freed in that time are left out.
	 * `caller` is the number of events left out, `id` the number of steps.
	 */
	TWI_ALLOC_GAP = 4,
};

struct twi_alloc_event {
	uint64_t ns;
	uint64_t id; /* pairs alloc and free; a free with 0: allocated before the log began */
	/* The request's size, in an alloc and in its free. In a free with id 0, the bytes that the
	 * allocation took of the pool; 0: not known. */
	uint64_t bytes;
	uint64_t caller; /* return address in the user's program; 0: not known */
	uint32_t thread; /* the kernel's number of the thread */
	uint32_t tag;    /* the thread's tag at that time; 0: none */
	uint8_t kind;    /* enum twi_alloc_kind */
	uint8_t align_log2;
};

#endif
