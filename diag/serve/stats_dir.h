/*
 * stats_dir.h - finds and makes the directory of stats sockets, and refuses unsafe ones.
 */
#ifndef TWI_STATS_DIR_H
#define TWI_STATS_DIR_H

#include <stddef.h>

struct twi_diag;

/*
 * Opens the directory, and makes its last part (0700) if it is missing. TOW_EPERM: it belongs to
 * another user, or others can write it and it has no sticky bit, so they could put their own
 * sockets there. TOW_EPERM, too, for a symbolic link, which can change its target. Else
 * TOW_ESYSTEM. The caller owns the descriptor.
 */
int twi_stats_dir_open(const char *dir, int *fd_out);

/*
 * Finds a directory when the user has named none. It is the first default, from *index on, that
 * belongs to this user alone or can be created. The defaults are tow_stats_dir's, /run/towline for
 * root, /tmp/towline-<uid> and /dev/shm/towline-<uid>. Another user may have taken such a name, and
 * containers may have it read-only. Such a directory is skipped, with a warning in the log of
 * `diag` (NULL: none). *index: the one found. TOW_EPERM, TOW_ESYSTEM: none can be used.
 */
int twi_stats_dir_find(struct twi_diag *diag, unsigned *index, char *out, size_t bytes);

#endif
