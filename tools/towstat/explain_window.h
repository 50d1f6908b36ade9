/*
 * explain_window.h - how a job goes while it is watched: the rates of some seconds.
 */
#ifndef TOWSTAT_EXPLAIN_WINDOW_H
#define TOWSTAT_EXPLAIN_WINDOW_H

#include <jansson.h>

#include "tools/common/runtimes.h"

struct window;

/*
 * It begins: with what `ranks` have as "before" (explain_rows.h), one for each target. The targets
 * must stay until it is closed. NULL: no memory.
 */
struct window *window_open(const struct runtime_list *targets, const json_t *ranks);

/* Until it has lasted for so long. */
void window_wait(const struct window *window, double seconds);

/* It ends: with what they have as "after". What went on, as a document of the caller's. */
json_t *window_close(struct window *window, const json_t *ranks);

/* Without what went on. */
void window_free(struct window *window);

/* What window_close says, in one or two lines. */
void print_window(const json_t *document);

#endif
