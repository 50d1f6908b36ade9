/*
 * why_merge.h - merges call sites of one source line, also those of several ranks.
 *
 * A compiler that unrolls a loop or inlines a function makes many call sites of one line. The
 * runtime knows only addresses and reports each of them. towstat knows their lines.
 */
#ifndef TOWSTAT_WHY_MERGE_H
#define TOWSTAT_WHY_MERGE_H

#include <jansson.h>

/*
 * Folds sites of `document` into the first with the same reason, tag, "file" and "line", and sorts
 * the sites by cost. Sites at one address of one module fold too, as two processes may have them.
 * The "ranks" of folded sites become one list. A folded site has "addresses", and its sentence has
 * the sum. `one` and `many` name its events in that sentence ("copy", "copies"). Returns the number
 * of sites folded away.
 */
size_t merge_sites(json_t *document, const char *one, const char *many);

#endif
