/*
 * alloclog_file.h - an allocation log as a file: header, records of 48 bytes, checksum.
 *
 *	| header 192 bytes | record | record | ... | end 16 bytes |
 *	| the same, with names from 512 on, to 4096 | record | ... |
 *
 * docs/alloclog.md describes each byte. The functions here are pure: they turn a trace in memory
 * into bytes. memreg/sizing/alloclog_read.h has the reader.
 */
#ifndef TWI_ALLOCLOG_FILE_H
#define TWI_ALLOCLOG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memreg/alloclog/alloclog_event.h"

#define TWI_ALLOCLOG_HEADER_BYTES 192
#define TWI_ALLOCLOG_HEADER_LEAST 128 /* header of minor 0 */
#define TWI_ALLOCLOG_HEADER_MAX   4096
/* The bytes from the last field to here are for later minors; this minor writes 0. */
#define TWI_ALLOCLOG_NAMES_OFFSET 512
#define TWI_ALLOCLOG_NAMES_MAX    (TWI_ALLOCLOG_HEADER_MAX - TWI_ALLOCLOG_NAMES_OFFSET)
#define TWI_ALLOCLOG_RECORD_BYTES 48
#define TWI_ALLOCLOG_END_BYTES    16
/* The most events of a file: twice the limit of the knob alloclog_events. */
#define TWI_ALLOCLOG_EVENTS_MAX ((uint64_t)1 << 27)
#define TWI_ALLOCLOG_SHIFT_MAX  10
/* The longest name of an arena, in bytes. */
#define TWI_ALLOCLOG_ARENA_BYTES 8

struct twi_alloc_trace {
	struct twi_alloc_event *events; /* sorted by time; twi_alloc_trace_fini frees them */
	size_t count;
	uint64_t start_realtime_ns; /* since 1970 */
	uint64_t start_monotonic_ns;
	uint64_t duration_ns;
	uint64_t lost; /* events without room */
	uint64_t live_bytes_at_start;
	uint64_t live_allocations_at_start;
	uint64_t taken_bytes_at_start; /* bytes of the pool that these took; 0: not known */
	/* Peak of the bytes taken of the pool, from its open to the log's end; 0: not known. */
	uint64_t taken_peak_bytes;
	/*
	 * The mapped pool, less the minimum of its largest free block, without the staging. A pool
	 * of this size was enough, fragmentation included. 0: not known.
	 */
	uint64_t spread_bytes;
	uint64_t gaps, left_events, left_steps; /* number of gaps, and what all of them leave out */
	uint64_t gap_peak_bytes;                /* peak of the bytes taken of the pool in gaps */
	uint64_t pool_bytes, page_bytes;
	uint64_t staging_bytes;  /* the knob: the runtime takes as much of its pool at its open */
	uint64_t unknown_frees;  /* frees with id 0 */
	uint32_t sampling_shift; /* the log has allocations at one address in 2^this */
	uint32_t pid;
	bool from_open;                           /* the log began when the runtime was opened */
	char arena[TWI_ALLOCLOG_ARENA_BYTES + 1]; /* provider of the pool; "": not known */
	uint32_t names_bytes;                     /* bytes of names, in the form of the file */
	uint8_t names[TWI_ALLOCLOG_NAMES_MAX];
};

void twi_alloc_trace_fini(struct twi_alloc_trace *trace);

/*
 * Encodes the trace as a file. The caller frees *bytes_out. TOW_EINVAL names an event that readers
 * would refuse. TOW_ENOMEM.
 */
int twi_alloclog_encode(const struct twi_alloc_trace *trace, char **bytes_out, size_t *count_out);

#endif
