/*
 * save.h - a file appears whole or not at all: it is written beside its place and then renamed.
 */
#ifndef SAVE_H
#define SAVE_H

#include <stddef.h>

/* path "-": the standard output. 0, or -1 after saying why on stderr, in the name of `program`. */
int save_file(const char *program, const char *path, const void *bytes, size_t count);

#endif
