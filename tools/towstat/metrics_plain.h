/*
 * metrics_plain.h - converts an OpenMetrics text to Prometheus' older text format.
 *
 * The library does the same for one runtime (docs/stats.md). Here the text is that of many
 * runtimes, and their families may be of any type.
 */
#ifndef TOWSTAT_METRICS_PLAIN_H
#define TOWSTAT_METRICS_PLAIN_H

#include <stddef.h>

#define METRICS_PLAIN_TYPE "text/plain; version=0.0.4; charset=utf-8"

/*
 * Whether the header Accept (or NULL) prefers the text format. It does when it names text/plain,
 * and names OpenMetrics not at all or with a lower q.
 */
int metrics_plain_wanted(const char *accept);

/* `text` has been checked by metrics_merge. The caller frees the result. NULL: no memory. */
char *metrics_plain(const char *text, size_t *bytes_out);

#endif
