/*
 * memreg_names.h - what tags and calling places of a log are called: names that a recording has,
 * and the words of a text log, which get numbers here.
 *
 * Bounded by MEMREG_TAG_WORDS and MEMREG_CALLER_WORDS. All names are printable ASCII, whatever the
 * file holds, so that they can be shown anywhere.
 */
#ifndef BENCH_MEMREG_NAMES_H
#define BENCH_MEMREG_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memreg/sizing/replay_groups.h"

#define MEMREG_NAME_ROOM    128 /* with its NUL */
#define MEMREG_TAG_WORDS    1024
#define MEMREG_CALLER_WORDS 4096

/* Numbers of words begin here; those that a text log gives itself are below. */
#define MEMREG_TAG_FIRST    UINT32_C(0xf0000000)
#define MEMREG_CALLER_FIRST (UINT64_C(1) << 62)

/* Group of what was live before the log began, by whomever: its caller. */
#define MEMREG_BEFORE (UINT64_MAX - 1)

enum memreg_named { MEMREG_NAMED_TAG, MEMREG_NAMED_CALLER };

struct memreg_name {
	uint64_t key;
	enum memreg_named kind;
	char text[MEMREG_NAME_ROOM];
};

/* All zero: none yet. */
struct memreg_names {
	struct memreg_name *row;
	uint32_t count, room;
	uint32_t words[2]; /* of each kind */
	uint32_t *at;      /* by the hash of a word: row + 1; 0: empty */
};

void memreg_names_free(struct memreg_names *names);

/* False: no memory. */
bool memreg_names_add(struct memreg_names *names, enum memreg_named kind, uint64_t key,
		      const char *text);

/* The number of a word, which gets one when it is new; 0: there are too many, or no memory. */
uint64_t memreg_names_number(struct memreg_names *names, enum memreg_named kind, const char *word);

/* NULL: it has none. */
const char *memreg_names_find(const struct memreg_names *names, enum memreg_named kind,
			      uint64_t key);

struct memreg_job;

/* "tag weights", "train_step+0x41 in trainer+0x1241", "live before the log began". */
void memreg_group_text(const struct memreg_job *job, const struct twi_replay_group *group,
		       char *out, size_t room);
/* A place alone: its name, or "0x5581e0001241", or "an unknown caller". */
void memreg_caller_text(const struct memreg_job *job, uint64_t caller, char *out, size_t room);
/* By both: "tag weights at train_step+0x41 in trainer+0x1241". */
void memreg_culprit_text(const struct memreg_job *job, const struct twi_replay_group *group,
			 char *out, size_t room);

/* Puts a question mark for each byte of a text that is no printable ASCII. */
void memreg_clean_text(char *text);

/* A size for people: "100 bytes", "1.50 KiB", "25.94 MiB", "1.500 GiB". */
struct memreg_text {
	char text[32];
};
struct memreg_text memreg_as_text(uint64_t bytes);

/*
 * A size: 4096, 64MiB, 1.5GiB, or in powers of ten 64MB; up to 2^40. What is left of a byte is cut
 * off. False: it is none.
 */
bool memreg_parse_bytes(const char *text, uint64_t *bytes_out);

#endif
