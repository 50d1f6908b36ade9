/*
 * metrics_merge.h - the OpenMetrics texts of many ranks become one.
 *
 *	# TYPE f counter      # TYPE f counter          # TYPE f counter
 *	f_total 1         +   f_total 2             =   f_total{tow_job="j",rank="0"} 1
 *	# EOF                 # EOF                     f_total{tow_job="j",rank="1"} 2
 *
 * Pure. A text is a stranger's: it is checked whole before anything of it is taken, so one that is
 * cut or wrong adds nothing. Where two disagree about a family's type, the first is right, and the
 * other's samples of that family are left out and counted.
 */
#ifndef TOWSTAT_METRICS_MERGE_H
#define TOWSTAT_METRICS_MERGE_H

#include <stddef.h>

struct metrics_merge;

/* bytes_max: of the whole result. NULL without memory. */
struct metrics_merge *metrics_merge_create(size_t bytes_max);
void metrics_merge_destroy(struct metrics_merge *merge);

/*
 * Adds a text. labels: what each sample gets in front of its own, such as tow_job="a",rank="0",
 * escaped already; a label of the text that has such a name becomes exported_<name>. 0, or -1 with
 * what is wrong in error_out, and nothing taken.
 */
int metrics_merge_add(struct metrics_merge *merge, const char *text, size_t bytes,
		      const char *labels, char *error_out, size_t error_size);

/* Samples left out because the type of their family was another. */
size_t metrics_merge_disagreed(const struct metrics_merge *merge);

/* The whole with its # EOF, NUL-terminated; the caller's to free. NULL without memory. */
char *metrics_merge_take(struct metrics_merge *merge, size_t *bytes_out);

/* A label's value, escaped; cut where there is no more room. */
void metrics_escape(char *out, size_t size, const char *value);

#endif
