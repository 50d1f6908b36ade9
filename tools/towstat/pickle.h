/*
 * pickle.h - writes documents so that Python's pickle module can read them.
 */
#ifndef TOWSTAT_PICKLE_H
#define TOWSTAT_PICKLE_H

#include <jansson.h>
#include <stdio.h>

/*
 * Writes a document as one pickle of protocol 2. Objects become dicts, arrays lists, texts str,
 * numbers int and float, null None. Returns -1 when it cannot be written, or is deeper than
 * PICKLE_DEPTH; else 0.
 */
#define PICKLE_DEPTH 64u
int pickle_write(const json_t *document, FILE *out);

#endif
