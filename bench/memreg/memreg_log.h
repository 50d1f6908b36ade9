/*
 * memreg_log.h - what the readers of the two forms of an allocation log share.
 *
 * memreg_log.c reads recordings and has the common part; memreg_log_text.c reads text. Events go
 * straight into the replayed program. Blocks that were live before the log began must stand before
 * the first event. Where they are known only later, the file is read twice.
 */
#ifndef BENCH_MEMREG_LOG_H
#define BENCH_MEMREG_LOG_H

#include <stdio.h>

#include "bench/memreg/tow_size.h"

/* A block that was allocated before the recording began. */
struct memreg_earlier {
	uint64_t bytes;
	uint32_t thread; /* the thread that frees it */
	uint8_t align_log2;
};

/* A growing array of such blocks; the owner frees `block`. */
struct memreg_blocks {
	struct memreg_earlier *block;
	uint64_t count, room;
};

struct memreg_reader {
	const char *name; /* file name, for messages */
	FILE *file;
	uint64_t line, events, file_bytes;
	struct memreg_log *log;
	struct twi_replay_builder *builder;
	bool begun;                   /* blocks that were live before are in the program */
	bool again;                   /* more of those were found since */
	bool second;                  /* this is the second reading */
	uint64_t before;              /* bytes of blocks live before that are not freed */
	uint64_t before_count;        /* their number; 0: not known */
	uint64_t peak;                /* bytes once live before the log began, but freed since */
	bool taken;                   /* before and peak count what was taken of the pool */
	struct memreg_blocks earlier; /* blocks that the log frees without their allocation */
	uint64_t earlier_seen;
	struct memreg_blocks staying; /* blocks at the start of the log that it never frees */
	uint64_t held_bytes;          /* bytes of all blocks at the start of the log */
};

/* Adds the next event of the log. Returns 0, or an exit code after printing why. */
int memreg_reader_add(struct memreg_reader *reader, const struct twi_alloc_event *event);
/* Prints an error with the file and, for text, the line. Returns MEMREG_USAGE. */
int memreg_reader_refuse(const struct memreg_reader *reader, const char *what, const char *value);

int memreg_read_text(struct memreg_reader *reader);

#endif
