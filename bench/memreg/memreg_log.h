/*
 * memreg_log.h - what the readers of the two forms of an allocation log share: memreg_log.c has
 * recordings and what is common, memreg_log_text.c the text.
 *
 * Events go straight into the program that is replayed. What was live before the log began must
 * stand before the first of them; where that is known only later, the file is read once more.
 */
#ifndef BENCH_MEMREG_LOG_H
#define BENCH_MEMREG_LOG_H

#include <stdio.h>

#include "bench/memreg/tow_size.h"

/* What was allocated before the recording began. */
struct memreg_earlier {
	uint64_t bytes;
	uint32_t thread; /* that frees it */
	uint8_t align_log2;
};

/* Such blocks; to be given to free(). */
struct memreg_blocks {
	struct memreg_earlier *block;
	uint64_t count, room;
};

struct memreg_reader {
	const char *name; /* of the file, for messages */
	FILE *file;
	uint64_t line, events, file_bytes;
	struct memreg_log *log;
	struct twi_replay_builder *builder;
	bool begun;                   /* what was live before stands there */
	bool again;                   /* more of that has been found since */
	bool second;                  /* this is the second reading */
	uint64_t before;              /* bytes of what was live before and stays */
	uint64_t before_count;        /* blocks of it; 0: not known */
	uint64_t peak;                /* bytes that were live at once before, and are no more */
	bool taken;                   /* before and peak are what was taken of the pool */
	struct memreg_blocks earlier; /* that are freed without having stood in the log */
	uint64_t earlier_seen;
	struct memreg_blocks staying; /* that stand at the begin of the log, and are not freed */
	uint64_t held_bytes;          /* of all that stands there */
};

/* The next event of the log. 0; an exit code, after having said why. */
int memreg_reader_add(struct memreg_reader *reader, const struct twi_alloc_event *event);
/* Names the file and, in text, the line. MEMREG_USAGE. */
int memreg_reader_refuse(const struct memreg_reader *reader, const char *what, const char *value);

int memreg_read_text(struct memreg_reader *reader);

#endif
