/*
 * metrics_plain.h - an OpenMetrics text in Prometheus' older text format, and who wants it so.
 *
 * The library does the same for one runtime (docs/stats.md); here the text is that of many, whose
 * families may be of any type.
 */
#ifndef TOWSTAT_METRICS_PLAIN_H
#define TOWSTAT_METRICS_PLAIN_H

#include <stddef.h>

#define METRICS_PLAIN_TYPE "text/plain; version=0.0.4; charset=utf-8"

/*
 * Whether the header Accept (or NULL) would rather have the text format: it names text/plain, and
 * OpenMetrics not at all or with a lower q.
 */
int metrics_plain_wanted(const char *accept);

/* `text` is what metrics_merge has checked. The caller's to free; NULL without memory. */
char *metrics_plain(const char *text, size_t *bytes_out);

#endif
