/*
 * profile.h - how long collectives take, as a table for programs that schedule them.
 *
 *	tow-coll --profile -----\                        /--- JSON (docs/scheduler-profile.md)
 *	a capture --------------- struct tool_profile ---
 *	JSON -------------------/                        \--- XLA's own formats (tools/trace)
 *
 * A row is one kind, type, size, group and lane. Rows with a name are of one call of a program, and
 * stand in a list of their own: one collective is in both lists.
 *
 * All of it is plain memory, bounded by TOOL_PROFILE_ROWS. Functions return 0, or -1 with a
 * sentence in `why`, of TOOL_PROFILE_WHY bytes.
 */
#ifndef TOOL_PROFILE_H
#define TOOL_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOOL_PROFILE_ROWS    65536u
#define TOOL_PROFILE_WHY     256
#define TOOL_PROFILE_TEXT    64
#define TOOL_PROFILE_NAME    128
#define TOOL_PROFILE_SCHEMA  "towline-collective-profile"
#define TOOL_PROFILE_VERSION 1

struct tool_profile_times {
	double mean_us, median_us, p90_us;
};

struct tool_profile_row {
	char kind[TOOL_PROFILE_TEXT]; /* "all-reduce" */
	char type[TOOL_PROFILE_TEXT]; /* "f32"; "": not known */
	char lane[TOOL_PROFILE_TEXT]; /* "shm"; "": not known */
	char name[TOOL_PROFILE_NAME]; /* "": of no call */
	uint64_t bytes; /* of a rank's result, or of what it gives where that is more */
	uint32_t ranks; /* of the group */
	uint32_t hosts; /* that these ranks are on; 0: not known */
	bool ring;      /* of a permute: each rank's goes to the next one */
	uint64_t count; /* measured */
	struct tool_profile_times latency; /* from the start until it was done */
	struct tool_profile_times moving;  /* without the wait for the last rank to start */
};

struct tool_profile_list {
	size_t count, room;
	struct tool_profile_row *rows;
};

/* All zero is an empty one. */
struct tool_profile {
	struct tool_profile_list collectives, names;
};

void tool_profile_fini(struct tool_profile *profile);

/* Whether that is what the library calls a collective. */
bool tool_profile_is_kind(const char *kind);
/* Bytes of an element of that type; 0: there is no such type. */
uint64_t tool_profile_type_bytes(const char *type);

/* Adds a copy: to `names` where it has a name. */
int tool_profile_add(struct tool_profile *profile, const struct tool_profile_row *row, char *why);

/*
 * Moves the rows of `from` to `into`; `from` is empty after it. What is in both cannot be one row,
 * as quantiles do not add up: -1, and nothing is moved.
 */
int tool_profile_merge(struct tool_profile *into, struct tool_profile *from, char *why);

/* Mean and quantiles of `count` values, which it sorts: the value at rank ceil(share * count). */
struct tool_profile_times tool_profile_times_of(double *values, size_t count);

/* `source` says who has measured. *text_out goes to free(). */
int tool_profile_write(const struct tool_profile *profile, const char *source, char **text_out,
		       char *why);

/* Of a stranger's text nothing is believed. *out is empty after a failure. */
int tool_profile_read(const char *text, size_t bytes, struct tool_profile *out, char *why);

#endif
