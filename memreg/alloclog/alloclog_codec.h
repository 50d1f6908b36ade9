/*
 * alloclog_codec.h - the shared part of the writer and the reader of a log's file: the constants of
 * the format, and the check of every event.
 *
 * The checker knows which ids are live, and their sizes. It keeps one word for each allocation that
 * it has seen, and needs no event but the one that it checks.
 */
#ifndef TWI_ALLOCLOG_CODEC_H
#define TWI_ALLOCLOG_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memreg/alloclog/alloclog_event.h"

#define TWI_ALLOCLOG_MAGIC       "TOWALOG\n"
#define TWI_ALLOCLOG_MAGIC_BYTES 8u
/* Minors of major 2. 1: taken bytes; 2: live allocations at the begin, and names; 3: gaps. */
#define TWI_ALLOCLOG_MINOR     3
#define TWI_ALLOCLOG_MAJOR     2 /* also read: 1, without arena, and id 0 frees have no size */
#define TWI_ALLOCLOG_FROM_OPEN 1u
#define TWI_ALLOCLOG_END_MAGIC 0x444e4554u /* "TEND" */

/* State after the events so far. The caller frees `live` in the end. */
struct twi_alloclog_checker {
	uint64_t last_ns, duration_ns, unknown_frees;
	uint64_t gaps, left_events, left_steps;
	bool unsized;   /* frees of allocations from before the log have no size */
	uint64_t *live; /* bytes by id - 1; UINT64_MAX: freed */
	size_t allocs, room;
	const char *wrong;
	unsigned field; /* offset of the wrong field in the record */
};

/* Tests whether the event may follow those before it. False: `wrong` says why; NULL: no memory. */
bool twi_alloclog_check(struct twi_alloclog_checker *checker, const struct twi_alloc_event *event);

#endif
