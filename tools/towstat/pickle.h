/*
 * pickle.h - documents as Python's pickle module reads them.
 */
#ifndef TOWSTAT_PICKLE_H
#define TOWSTAT_PICKLE_H

#include <jansson.h>
#include <stdio.h>

/*
 * Writes it as one pickle of protocol 2: objects become dicts, arrays lists, texts str, numbers int
 * and float, null None. 0, or -1: it cannot be written, or is deeper than PICKLE_DEPTH.
 */
#define PICKLE_DEPTH 64u
int pickle_write(const json_t *document, FILE *out);

#endif
