/*
 * metrics_merge.h - merges the OpenMetrics texts of many ranks into one.
 *
 *	# TYPE f counter      # TYPE f counter          # TYPE f counter
 *	f_total 1         +   f_total 2             =   f_total{tow_job="j",rank="0"} 1
 *	# EOF                 # EOF                     f_total{tow_job="j",rank="1"} 2
 *
 * Pure. A text is not trusted: all of it is checked before any of it is taken, so a cut or wrong
 * text adds nothing. Where two texts disagree about a family's type, the first type is kept.
 * Samples of that family in the other text are left out and counted.
 */
#ifndef TOWSTAT_METRICS_MERGE_H
#define TOWSTAT_METRICS_MERGE_H

#include <stddef.h>

struct metrics_merge;

/* bytes_max bounds the result. NULL: no memory. */
struct metrics_merge *metrics_merge_create(size_t bytes_max);
void metrics_merge_destroy(struct metrics_merge *merge);

/*
 * Adds a text. `labels` stands in front of each sample's own labels, such as tow_job="a",rank="0",
 * already escaped. A label of the text with the name of one of these becomes exported_<name>.
 * Returns 0. Or returns -1 with the reason in error_out; nothing is then taken.
 */
int metrics_merge_add(struct metrics_merge *merge, const char *text, size_t bytes,
		      const char *labels, char *error_out, size_t error_size);

/* The samples left out because another text had another type for their family. */
size_t metrics_merge_disagreed(const struct metrics_merge *merge);

/* The merged text with its # EOF, NUL-terminated. The caller frees it. NULL: no memory. */
char *metrics_merge_take(struct metrics_merge *merge, size_t *bytes_out);

/* Writes the escaped value of a label, cut where `out` is full. */
void metrics_escape(char *out, size_t size, const char *value);

#endif
