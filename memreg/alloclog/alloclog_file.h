/*
 * alloclog_file.h - an allocation log as a file: header, records of 48 bytes, checksum.
 *
 *	| header 192 bytes | record | record | ... | end 16 bytes |
 *	| the same, with names from 512 on, to 4096 | record | ... |
 *
 * docs/alloclog.md has it byte by byte. The functions here are pure: a trace in memory becomes
 * bytes. The way back is in memreg/sizing/alloclog_read.h.
 */
#ifndef TWI_ALLOCLOG_FILE_H
#define TWI_ALLOCLOG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memreg/alloclog/alloclog_event.h"

#define TWI_ALLOCLOG_HEADER_BYTES 192
#define TWI_ALLOCLOG_HEADER_LEAST 128 /* of minor 0 */
#define TWI_ALLOCLOG_HEADER_MAX   4096
/* Fields of later minors have the room before; it is 0 in files of this one. */
#define TWI_ALLOCLOG_NAMES_OFFSET 512
#define TWI_ALLOCLOG_NAMES_MAX    (TWI_ALLOCLOG_HEADER_MAX - TWI_ALLOCLOG_NAMES_OFFSET)
#define TWI_ALLOCLOG_RECORD_BYTES 48
#define TWI_ALLOCLOG_END_BYTES    16
/* The most events that a file may have: twice what the knob alloclog_events allows. */
#define TWI_ALLOCLOG_EVENTS_MAX ((uint64_t)1 << 27)
#define TWI_ALLOCLOG_SHIFT_MAX  10
/* The longest name of an arena. */
#define TWI_ALLOCLOG_ARENA_BYTES 8

struct twi_alloc_trace {
	struct twi_alloc_event *events; /* by time; twi_alloc_trace_fini frees them */
	size_t count;
	uint64_t start_realtime_ns; /* since 1970 */
	uint64_t start_monotonic_ns;
	uint64_t duration_ns;
	uint64_t lost; /* events that there was no room for */
	uint64_t live_bytes_at_start;
	uint64_t live_allocations_at_start;
	uint64_t taken_bytes_at_start; /* what these take of the pool; 0: not known */
	/* The most that was taken of the pool from its open to the end of the log; 0: not known. */
	uint64_t taken_peak_bytes;
	/*
	 * The mapped pool less the least that its largest free piece has been, staging left out: as
	 * much was enough, with all that lay in pieces. 0: not known.
	 */
	uint64_t spread_bytes;
	uint64_t gaps, left_events, left_steps; /* gaps, and what is left out in all of them */
	uint64_t gap_peak_bytes;                /* the most that was taken of the pool in a gap */
	uint64_t pool_bytes, page_bytes;
	uint64_t staging_bytes;  /* the knob: the runtime takes as much of its pool when it opens */
	uint64_t unknown_frees;  /* frees with id 0 */
	uint32_t sampling_shift; /* allocations at one in 2^this addresses are in it */
	uint32_t pid;
	bool from_open;                           /* it began when the runtime was opened */
	char arena[TWI_ALLOCLOG_ARENA_BYTES + 1]; /* which provider the pool has; "": not known */
	uint32_t names_bytes;                     /* as they lie in the file: alloclog_names.h */
	uint8_t names[TWI_ALLOCLOG_NAMES_MAX];
};

void twi_alloc_trace_fini(struct twi_alloc_trace *trace);

/*
 * The trace as a file. *bytes_out is to be given to free(). TOW_EINVAL naming the event for a trace
 * that the reader would refuse; TOW_ENOMEM.
 */
int twi_alloclog_encode(const struct twi_alloc_trace *trace, char **bytes_out, size_t *count_out);

#endif
