/*
 * top_table.h - the table of towstat top: rows of ranks are filtered, sorted, and put into lines.
 *
 * Pure: no clock, no socket, no terminal. A line is text and marks: which cells want attention.
 * What becomes of a mark (a colour, or nothing) is for who shows the line.
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
	TOP_NEW, /* there was one reading, or none yet */
	TOP_LIVE,
	TOP_SILENT, /* did not answer within its time */
	TOP_WRONG,  /* what it answers is not understood */
	TOP_GONE,   /* its process has ended */
};

struct top_row {
	char name[TOP_NAME_BYTES]; /* of its file, without .sock: clean, as all text here */
	char job[TOP_NAME_BYTES];
	int64_t rank; /* -1: not known */
	enum top_state state;
	double state_s; /* for how long, of those that are not live */
	bool known;     /* figures are there */
	struct figures figures;
	uint64_t copied_bytes, late_count, lost; /* since the start */
	uint64_t pool_used_bytes, pool_bytes;
	bool accused;                    /* the verdict names this rank */
	bool healthy;                    /* the verdict says that the job is */
	char verdict[TOP_VERDICT_BYTES]; /* of the job; never empty: who does not know says so */
	char says[24];                   /* of it, what concerns this rank */
};

/*
 * The columns, which are the keys to sort by: X(name, title, width). A terminal of 80 columns has
 * room for all up to the pool, where the names of ranks are short.
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
/* Of those that scroll; name and verdict stay. */
#define TOP_FIRST TOP_in
#define TOP_LAST  TOP_copied

enum top_column {
#define X(name, title, width) TOP_##name,
	TOP_COLUMNS(X)
#undef X
		TOP_COLUMN_COUNT
};

const char *top_column_name(enum top_column column);

/* -1 when there is no such column. */
int top_column_find(const char *name, enum top_column *out);

/* job=NAME, rank=N, or a regular expression over name, state and verdict; "" lets all through. */
struct top_filter {
	enum { TOP_ALL, TOP_JOB, TOP_RANK, TOP_REGEX } kind;
	char job[TOP_NAME_BYTES];
	int64_t rank;
	regex_t regex;
};

/* 0, or -1 with why not; *out then lets all through. */
int top_filter_init(struct top_filter *out, const char *text, char *error_out, size_t error_size);
void top_filter_fini(struct top_filter *filter);
bool top_filter_passes(const struct top_filter *filter, const struct top_row *row);

/*
 * Numbers: the largest first; names: job, then rank, by number. What is not known comes last, and
 * equals keep the order of their names. reverse turns all of it around.
 */
void top_sort(struct top_row *rows, size_t count, enum top_column key, bool reverse);

/* Sums, and of times, pool and shares the worst. */
void top_total(const struct top_row *rows, size_t count, struct top_row *out);

enum top_mark { TOP_PLAIN, TOP_HEAD, TOP_DIM, TOP_WARN, TOP_ALARM };

struct top_line {
	size_t bytes;
	char text[TOP_LINE_BYTES]; /* printable ASCII */
	size_t mark_count;
	struct {
		size_t first, end; /* bytes of the text */
		enum top_mark mark;
	} marks[TOP_MARKS];
};

/* How a line is laid out: the same for all lines of a table. */
struct top_layout {
	size_t name_width;     /* top_name_width's */
	enum top_column first; /* of the columns behind name and verdict */
	size_t room;           /* only whole columns that end within it; 0: all of them */
};

void top_line_head(struct top_line *out, const struct top_layout *layout, enum top_column sorted,
		   bool reverse);
void top_line_row(struct top_line *out, const struct top_layout *layout, const struct top_row *row);
/* The verdict on a row's job. */
void top_line_verdict(struct top_line *out, const struct top_row *row);

/* Wide enough for the names, in bounds. */
size_t top_name_width(const struct top_row *rows, size_t count);

#endif
