/*
 * export_lock.h - one exporter an address: who holds the lock of a file that is named for it.
 *
 * The kernel takes the lock back when its process ends, however that happens, so there is no file
 * of a dead one to be cleared away, no number of a process that may be another's by now, and no
 * moment at which two have it. The file stays.
 */
#ifndef TOWSTAT_EXPORT_LOCK_H
#define TOWSTAT_EXPORT_LOCK_H

#include <stddef.h>

struct export_lock {
	int fd; /* -1: not had */
	char path[320];
	char owner[64]; /* what the one that has it says of itself */
};

/* 0 had, 1 another has it, -1 with why not in error_out. dir NULL: that of the stats sockets. */
int export_lock_take(struct export_lock *out, const char *dir, const char *address, char *error_out,
		     size_t error_size);
void export_lock_drop(struct export_lock *lock);

#endif
