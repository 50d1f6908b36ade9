/*
 * profile.h - how long collectives take, as a table for programs that schedule them.
 *
 *	tow-coll --profile -----\                        /--- JSON (docs/scheduler-profile.md)
 *	a capture --------------- struct tool_profile ---
 *	JSON -------------------/                        \--- XLA's own formats (tools/trace)
 *
 * A row is for one kind, type, size, group and lane. A row with a name is for one call of a
 * program. Rows with names are in a list of their own, so one collective is in both lists.
 *
 * The table is plain memory of at most TOOL_PROFILE_ROWS rows. Functions return 0, or -1 with a
 * sentence in `why`, which has TOOL_PROFILE_WHY bytes.
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
	char kind[TOOL_PROFILE_TEXT];      /* "all-reduce" */
	char type[TOOL_PROFILE_TEXT];      /* "f32"; "": unknown */
	char lane[TOOL_PROFILE_TEXT];      /* "shm"; "": unknown */
	char name[TOOL_PROFILE_NAME];      /* of a call; "": none */
	uint64_t bytes;                    /* of a rank's result or input, whichever is larger */
	uint32_t ranks;                    /* size of the group */
	uint32_t hosts;                    /* number of hosts of these ranks; 0: unknown */
	bool ring;                         /* of a permute: each rank sends to the next one */
	uint64_t count;                    /* number of measurements */
	struct tool_profile_times latency; /* from the start to the completion */
	struct tool_profile_times moving;  /* without the wait for the last rank to start */
};

struct tool_profile_list {
	size_t count, room;
	struct tool_profile_row *rows;
};

/* All zero: an empty profile. */
struct tool_profile {
	struct tool_profile_list collectives, names;
};

void tool_profile_fini(struct tool_profile *profile);

/* True: the library has a collective of this name. */
bool tool_profile_is_kind(const char *kind);
/* Returns the bytes of an element of the type; 0: there is no such type. */
uint64_t tool_profile_type_bytes(const char *type);

/* Adds a copy of a row; one with a name goes to `names`. */
int tool_profile_add(struct tool_profile *profile, const struct tool_profile_row *row, char *why);

/*
 * Moves the rows of `from` to `into`, and empties `from`. If both have a row for the same
 * collective, the call returns -1 and moves nothing, because quantiles do not add up.
 */
int tool_profile_merge(struct tool_profile *into, struct tool_profile *from, char *why);

/*
 * Returns mean and quantiles, and sorts `values`. A quantile is the value at rank ceil(share *
 * count).
 */
struct tool_profile_times tool_profile_times_of(double *values, size_t count);

/* `source` names what has measured. The caller frees *text_out with free(). */
int tool_profile_write(const struct tool_profile *profile, const char *source, char **text_out,
		       char *why);

/* Reads untrusted text, and checks all of it. *out is empty after a failure. */
int tool_profile_read(const char *text, size_t bytes, struct tool_profile *out, char *why);

#endif
