/*
 * save.h - writes a file atomically: it writes PATH.part, and renames that file.
 */
#ifndef SAVE_H
#define SAVE_H

#include <stddef.h>

/* path "-": the standard output. Returns 0, or -1 after a message of `program` on stderr. */
int save_file(const char *program, const char *path, const void *bytes, size_t count);

#endif
