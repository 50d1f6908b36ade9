/*
 * why_waits.h - towstat why: what a rank waits for right now, and which rank holds it up.
 */
#ifndef WHY_WAITS_H
#define WHY_WAITS_H

#include <jansson.h>

/* What the group of an entry of the flight recorder is called; NULL: it is of none. */
const char *group_of_entry(const json_t *entry);

/*
 * Operations of the flight recorder that have been under way for a second, in a new object
 * {"operations": [...], "verdict": {...}}; NULL: none, or none that holds anything up. `flight` is
 * the document /v1/flight, or NULL; the verdict is asked of the same runtime.
 */
json_t *find_waits(const char *socket_path, const json_t *flight);

/* The same in sentences; nothing for NULL. Returns how many operations there are. */
json_int_t print_waits(const json_t *waits);

#endif
