/*
 * stats_dir.h - the directory of stats sockets: found, made, and refused when others can write it.
 */
#ifndef TWI_STATS_DIR_H
#define TWI_STATS_DIR_H

#include <stddef.h>

struct twi_diag;

/*
 * Opens the directory, making its last part (0700) when it is missing. A directory of somebody
 * else's, or one that others can write without the sticky bit, is TOW_EPERM: they could put sockets
 * of their own there; so is one behind a symbolic link, which can come to mean another. Otherwise
 * TOW_ESYSTEM. The descriptor is the caller's.
 */
int twi_stats_dir_open(const char *dir, int *fd_out);

/*
 * Where nobody has named a directory: the first of the default ones, from *index on, that is or can
 * be made ours alone. They are tow_stats_dir's, /run/towline for root, /tmp/towline-<uid> and
 * /dev/shm/towline-<uid>. Anybody can take such a name before us, and containers have read-only
 * ones, so one that is of no use is passed over, with a warning in the log of `diag` (NULL: none).
 * *index: which it was. TOW_EPERM, TOW_ESYSTEM: none is of use.
 */
int twi_stats_dir_find(struct twi_diag *diag, unsigned *index, char *out, size_t bytes);

#endif
