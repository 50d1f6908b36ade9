/*
 * why_merge.h - several addresses of one source line become one site, also those of several ranks.
 *
 * A compiler that unrolls a loop or inlines a function makes many call sites of one line. The
 * runtime, which has addresses alone, reports each; here their lines are known.
 */
#ifndef TOWSTAT_WHY_MERGE_H
#define TOWSTAT_WHY_MERGE_H

#include <jansson.h>

/*
 * Folds those sites of `document` that have the same reason, tag, "file" and "line" into the first
 * of them, and sorts by cost; likewise those of one place of one module, which two processes may
 * have. "ranks" of sites, where they have some, become one list. A folded site has "addresses", and
 * the sentence of its sum, in which its events are called `one` or `many` ("copy", "copies").
 * Returns how many sites are gone.
 */
size_t merge_sites(json_t *document, const char *one, const char *many);

#endif
