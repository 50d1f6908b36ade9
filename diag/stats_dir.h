/*
 * stats_dir.h - the directory of stats sockets: found, made, and refused when others can write it.
 */
#ifndef TWI_STATS_DIR_H
#define TWI_STATS_DIR_H

/*
 * Opens the directory, making its last part (0700) when it is missing. A directory of somebody
 * else's, or one that others can write without the sticky bit, is TOW_EPERM: they could put sockets
 * of their own there. Otherwise TOW_ESYSTEM. The descriptor is the caller's.
 */
int twi_stats_dir_open(const char *dir, int *fd_out);

#endif
