/*
 * top_screen.h - what towstat top has on its screen, and how it becomes bytes for a terminal or
 * lines.
 */
#ifndef TOWSTAT_TOP_SCREEN_H
#define TOWSTAT_TOP_SCREEN_H

#include <stdio.h>

#include "tools/towstat/top_table.h"

#define TOP_PROMPT_BYTES 96

struct top_screen {
	/* what was chosen */
	enum top_column sorted, first; /* first: of the columns behind the name */
	bool reverse, colours, help, typing;
	size_t scrolled; /* rows above the first that is shown */
	size_t visible;  /* rows that the last picture had */
	struct top_filter filter;
	char filter_text[TOP_PROMPT_BYTES];
	char prompt[TOP_PROMPT_BYTES]; /* what is being typed */
	char message[160];             /* what was wrong with it */
	double interval_s;
	/* what there is: taken by top_screen_take */
	size_t count, shown, missed; /* shown: passes the filter */
	struct top_row *rows;        /* the caller's */
	struct top_row total;
	char host[64], clock[32];
};

/* Filters and sorts the rows in place, which have to stay. */
void top_screen_take(struct top_screen *screen, struct top_row *rows, size_t count, size_t missed);

/* The whole picture; the caller's to free. NULL without memory. */
char *top_screen_draw(struct top_screen *screen, size_t columns, size_t lines, size_t *bytes_out);

/* The same as plain lines, all of them. */
void top_screen_print(const struct top_screen *screen, FILE *file);

/* What a key does. false: the end is wanted. */
bool top_screen_key(struct top_screen *screen, int key);

#endif
