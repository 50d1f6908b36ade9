/*
 * memreg_names.h - the names of tags and call sites in a log.
 *
 * A recording has names. Words of a text log get numbers here. MEMREG_TAG_WORDS and
 * MEMREG_CALLER_WORDS bound them. All names are printable ASCII for any file, so they can be shown
 * anywhere.
 */
#ifndef BENCH_MEMREG_NAMES_H
#define BENCH_MEMREG_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memreg/sizing/replay_groups.h"

#define MEMREG_NAME_ROOM    128 /* with the NUL */
#define MEMREG_TAG_WORDS    1024
#define MEMREG_CALLER_WORDS 4096

/* The numbers of words begin here; numbers of a text log's own are below. */
#define MEMREG_TAG_FIRST    UINT32_C(0xf0000000)
#define MEMREG_CALLER_FIRST (UINT64_C(1) << 62)

/* The caller of the group of all blocks that were live before the log began. */
#define MEMREG_BEFORE (UINT64_MAX - 1)

enum memreg_named { MEMREG_NAMED_TAG, MEMREG_NAMED_CALLER };

struct memreg_name {
	uint64_t key;
	enum memreg_named kind;
	char text[MEMREG_NAME_ROOM];
};

/* All zero: no names yet. */
struct memreg_names {
	struct memreg_name *row;
	uint32_t count, room;
	uint32_t words[2]; /* number of words of each kind */
	uint32_t *at;      /* hash table of words: row + 1; 0: empty */
};

void memreg_names_free(struct memreg_names *names);

/* Returns false without memory. */
bool memreg_names_add(struct memreg_names *names, enum memreg_named kind, uint64_t key,
		      const char *text);

/* The number of a word; a new word gets one. 0: too many words, or no memory. */
uint64_t memreg_names_number(struct memreg_names *names, enum memreg_named kind, const char *word);

/* NULL: it has no name. */
const char *memreg_names_find(const struct memreg_names *names, enum memreg_named kind,
			      uint64_t key);

struct memreg_job;

/* "tag weights", "train_step+0x41 in trainer+0x1241", or "live before the log began". */
void memreg_group_text(const struct memreg_job *job, const struct twi_replay_group *group,
		       char *out, size_t room);
/* A call site alone: its name, "caller 0x5581e0001241", or "an unknown caller". */
void memreg_caller_text(const struct memreg_job *job, uint64_t caller, char *out, size_t room);
/* Both: "tag weights at train_step+0x41 in trainer+0x1241". */
void memreg_culprit_text(const struct memreg_job *job, const struct twi_replay_group *group,
			 char *out, size_t room);

/* Replaces each byte that is not printable ASCII by a question mark. */
void memreg_clean_text(char *text);

/* A size for people: "100 bytes", "1.50 KiB", "25.94 MiB", "1.500 GiB". */
struct memreg_text {
	char text[32];
};
struct memreg_text memreg_as_text(uint64_t bytes);

/*
 * Reads a size of up to 2^40: 4096, 64MiB, 1.5GiB, or 64MB in powers of ten. Fractions of a byte
 * are cut off. Returns false when it is no size.
 */
bool memreg_parse_bytes(const char *text, uint64_t *bytes_out);

#endif
