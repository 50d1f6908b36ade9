/*
 * explain_window.h - the rates of a job while it is watched for some seconds.
 */
#ifndef TOWSTAT_EXPLAIN_WINDOW_H
#define TOWSTAT_EXPLAIN_WINDOW_H

#include <jansson.h>

#include "tools/common/runtimes.h"

struct window;

/*
 * Begins the window. `ranks` has one object for each target, with "before" (explain_rows.h). The
 * targets must outlive the window. NULL: no memory.
 */
struct window *window_open(const struct runtime_list *targets, const json_t *ranks);

/* Sleeps until the window has lasted for `seconds`. */
void window_wait(const struct window *window, double seconds);

/*
 * Ends the window and frees it. `ranks` now has "after". Returns the rates as a document, which the
 * caller owns.
 */
json_t *window_close(struct window *window, const json_t *ranks);

/* Frees the window without a result. */
void window_free(struct window *window);

/* Prints a result of window_close in a few lines. */
void print_window(const json_t *document);

#endif
