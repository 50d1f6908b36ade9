/*
 * why_waits.h - the operations that a rank waits for now, and the rank that holds them up.
 */
#ifndef WHY_WAITS_H
#define WHY_WAITS_H

#include <jansson.h>

/* The name of the group of an entry of the flight recorder; NULL: it is of no group. */
const char *group_of_entry(const json_t *entry);

/*
 * Finds the operations of the flight recorder that have been under way for a second. Returns them
 * as a new object {"operations": [...], "verdict": {...}}. NULL: there are none, or nothing holds
 * them up. `flight` is the document /v1/flight, or NULL. The verdict is asked of the same runtime.
 */
json_t *find_waits(const char *socket_path, const json_t *flight);

/* Prints them as sentences; nothing for NULL. Returns the number of operations. */
json_int_t print_waits(const json_t *waits);

#endif
