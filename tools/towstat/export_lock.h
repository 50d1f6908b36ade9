/*
 * export_lock.h - allows one exporter for each address, by a lock on a file that is named for it.
 *
 * The kernel releases the lock when its process ends for any reason. So no file of a dead process
 * must be cleared away. No stored process number can belong to another process by now, and the lock
 * never has two holders. The file stays.
 */
#ifndef TOWSTAT_EXPORT_LOCK_H
#define TOWSTAT_EXPORT_LOCK_H

#include <stddef.h>

struct export_lock {
	int fd; /* -1: not held */
	char path[320];
	char owner[64]; /* the text that the holder has written about itself */
};

/*
 * Returns 0 when the lock is taken, 1 when another process has it, and -1 with the reason in
 * error_out. dir NULL: the folder of the stats sockets.
 */
int export_lock_take(struct export_lock *out, const char *dir, const char *address, char *error_out,
		     size_t error_size);
void export_lock_drop(struct export_lock *lock);

#endif
