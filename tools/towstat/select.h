/*
 * select.h - a part of a JSON document, by its path.
 *
 *	counters.send_bytes            a member
 *	rpcs[0].p99                    an element; [-1]: the last
 *	reasons[name=late_extent]      the first element with such a member
 *	groups[*].entries[*].plan      all of them, as an array
 */
#ifndef TOWSTAT_SELECT_H
#define TOWSTAT_SELECT_H

#include <jansson.h>

/*
 * Returns a new reference. NULL: error_out says what is missing, or is no path. Elements under [*]
 * without the rest of the path are left out.
 */
json_t *select_path(const json_t *root, const char *path, char *error_out, size_t error_size);

#endif
