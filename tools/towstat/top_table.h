/*
 * top_table.h - the table of towstat top: filters and sorts rows of ranks, and makes lines of them.
 *
 * Pure: no clock, no socket, no terminal. A line is text and marks of the cells that need
 * attention. The code that shows the line makes a colour of a mark, or nothing.
 */
#ifndef TOWSTAT_TOP_TABLE_H
#define TOWSTAT_TOP_TABLE_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/towstat/reading.h"

#define TOP_NAME_BYTES    96
#define TOP_VERDICT_BYTES VERDICT_BYTES
#define TOP_LINE_BYTES    512
#define TOP_MARKS         8

enum top_state {
	TOP_NEW, /* no reading yet, or one */
	TOP_LIVE,
	TOP_SILENT, /* did not answer in time */
	TOP_WRONG,  /* its answer is not understood */
	TOP_GONE,   /* its process has ended */
};

struct top_row {
	char name[TOP_NAME_BYTES]; /* of its file, without .sock; printable, as all text here */
	char job[TOP_NAME_BYTES];
	int64_t rank; /* -1: not known */
	enum top_state state;
	double state_s; /* how long it has had a state other than live */
	bool known;     /* there are figures */
	struct figures figures;
	uint64_t copied_bytes, late_count, lost; /* since the start */
	uint64_t pool_used_bytes, pool_bytes;
	bool accused;                    /* the verdict names this rank */
	bool healthy;                    /* the verdict says that the job is healthy */
	char verdict[TOP_VERDICT_BYTES]; /* on the job; never empty, "not known" if need be */
	char says[24];                   /* the part of it that concerns this rank */
};

/*
 * The columns, which are also the sort keys: X(name, title, width). With short names of ranks, 80
 * columns of a terminal have room for all up to the pool.
 */
#define TOP_COLUMNS(X)                                                                             \
	X(name, "RANK", 10)                                                                        \
	X(verdict, "VERDICT", 8)                                                                   \
	X(in, "IN/s", 5)                                                                           \
	X(out, "OUT/s", 5)                                                                         \
	X(msgs, "MSG/s", 5)                                                                        \
	X(wait, "WAIT", 4)                                                                         \
	X(slack, "SLACK", 6)                                                                       \
	X(p50, "P50", 6)                                                                           \
	X(p99, "P99", 6)                                                                           \
	X(copy, "COPY/s", 6)                                                                       \
	X(pool, "POOL", 9)                                                                         \
	X(late, "LATE", 5)                                                                         \
	X(copied, "COPIED", 6)
/* The columns that scroll. Name and verdict stay. */
#define TOP_FIRST TOP_in
#define TOP_LAST  TOP_copied

enum top_column {
#define X(name, title, width) TOP_##name,
	TOP_COLUMNS(X)
#undef X
		TOP_COLUMN_COUNT
};

const char *top_column_name(enum top_column column);

/* Returns -1 when there is no such column. */
int top_column_find(const char *name, enum top_column *out);

/* job=NAME, rank=N, or a regular expression over name, state and verdict; "" passes all rows. */
struct top_filter {
	enum { TOP_ALL, TOP_JOB, TOP_RANK, TOP_REGEX } kind;
	char job[TOP_NAME_BYTES];
	int64_t rank;
	regex_t regex;
};

/* Returns 0, or -1 with the reason in error_out. *out then passes all rows. */
int top_filter_init(struct top_filter *out, const char *text, char *error_out, size_t error_size);
void top_filter_fini(struct top_filter *filter);
bool top_filter_passes(const struct top_filter *filter, const struct top_row *row);

/*
 * Sorts numbers with the largest first, and names by job, then by rank number. Unknown values come
 * last. Equal rows keep the order of their names. `reverse` reverses the whole order.
 */
void top_sort(struct top_row *rows, size_t count, enum top_column key, bool reverse);

/* Sums the rows. Of times, pool and shares it takes the worst. */
void top_total(const struct top_row *rows, size_t count, struct top_row *out);

enum top_mark { TOP_PLAIN, TOP_HEAD, TOP_DIM, TOP_WARN, TOP_ALARM };

struct top_line {
	size_t bytes;
	char text[TOP_LINE_BYTES]; /* printable ASCII */
	size_t mark_count;
	struct {
		size_t first, end; /* byte offsets in the text */
		enum top_mark mark;
	} marks[TOP_MARKS];
};

/* The layout of a line, which is the same for all lines of a table. */
struct top_layout {
	size_t name_width;     /* from top_name_width */
	enum top_column first; /* the first column shown behind the verdict */
	size_t room;           /* only whole columns that end within it; 0: all */
};

void top_line_head(struct top_line *out, const struct top_layout *layout, enum top_column sorted,
		   bool reverse);
void top_line_row(struct top_line *out, const struct top_layout *layout, const struct top_row *row);
/* The line of the verdict on a row's job. */
void top_line_verdict(struct top_line *out, const struct top_row *row);

/* The width for the names, within bounds. */
size_t top_name_width(const struct top_row *rows, size_t count);

#endif
