/*
 * alloclog_codec.h - what the writer of an allocation log's file and its reader share: the marks of
 * the format, its checksum, and the check that every event passes on its way out and in.
 *
 * The checker knows which ids are live, and their sizes, from one word for each allocation, which
 * exists only once the allocation has been seen. It needs no event but the one it checks.
 */
#ifndef TWI_ALLOCLOG_CODEC_H
#define TWI_ALLOCLOG_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memreg/alloclog/alloclog_event.h"

#define TWI_ALLOCLOG_MAGIC       "TOWALOG\n"
#define TWI_ALLOCLOG_MAGIC_BYTES 8u
/* Of major 2. 1: what was taken; 2: what was live at the begin, and names; 3: gaps. */
#define TWI_ALLOCLOG_MINOR     3
#define TWI_ALLOCLOG_MAJOR     2 /* and 1, without an arena and sizes of frees with id 0 */
#define TWI_ALLOCLOG_FROM_OPEN 1u
#define TWI_ALLOCLOG_END_MAGIC 0x444e4554u /* "TEND" */

/* What is known of the events so far. `live` is to be given to free() in the end. */
struct twi_alloclog_checker {
	uint64_t last_ns, duration_ns, unknown_frees;
	uint64_t gaps, left_events, left_steps;
	bool unsized;   /* frees of what was allocated before the log have no size */
	uint64_t *live; /* by id - 1: its bytes, UINT64_MAX once it is freed */
	size_t allocs, room;
	const char *wrong;
	unsigned field; /* offset in the record of what is wrong */
};

/* Whether the event may follow those before it; false with what is wrong, NULL: no memory. */
bool twi_alloclog_check(struct twi_alloclog_checker *checker, const struct twi_alloc_event *event);

#endif
