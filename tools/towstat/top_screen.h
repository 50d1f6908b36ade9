/*
 * top_screen.h - the state of towstat top's screen, and its output as terminal bytes or as lines.
 */
#ifndef TOWSTAT_TOP_SCREEN_H
#define TOWSTAT_TOP_SCREEN_H

#include <stdio.h>

#include "tools/towstat/top_table.h"

#define TOP_PROMPT_BYTES 96

struct top_screen {
	/* chosen by the user */
	enum top_column sorted, first; /* first: the first column shown behind the verdict */
	bool reverse, colours, help, typing;
	size_t scrolled; /* rows above the first that is shown */
	size_t visible;  /* rows in the last picture */
	struct top_filter filter;
	char filter_text[TOP_PROMPT_BYTES];
	char prompt[TOP_PROMPT_BYTES]; /* being typed */
	char message[160];             /* the error in it */
	double interval_s;
	/* data, set by top_screen_take */
	size_t count, shown, missed; /* shown: rows that pass the filter */
	struct top_row *rows;        /* the caller's */
	struct top_row total;
	char host[64], clock[32];
};

/* Filters and sorts the rows in place. The rows must stay until the next call. */
void top_screen_take(struct top_screen *screen, struct top_row *rows, size_t count, size_t missed);

/* Draws the screen. The caller frees the text. NULL: no memory. */
char *top_screen_draw(struct top_screen *screen, size_t columns, size_t lines, size_t *bytes_out);

/* Prints the same as plain lines, all of them. */
void top_screen_print(const struct top_screen *screen, FILE *file);

/* Handles a key. Returns false when the user wants the end. */
bool top_screen_key(struct top_screen *screen, int key);

#endif
