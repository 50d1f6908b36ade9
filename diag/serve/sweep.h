/*
 * sweep.h - takes away the sockets that ended processes left in a directory of stats sockets.
 *
 * A job that is killed leaves its files, and towrun gives each job a new name, so nobody would ever
 * reuse them. Files of a job of which anybody lives stay: they tell who of it has died.
 *
 * Bounds: TWI_SWEEP_MAX sockets are looked at, some 5 us each, so that opening stays quick.
 * Of a job with more of them a dead rank's file may go though others live, which nobody misses.
 */
#ifndef TWI_SWEEP_H
#define TWI_SWEEP_H

#define TWI_SWEEP_MAX 512

/* Under the directory's lock: who has bound and does not listen yet looks dead. */
void twi_sweep(int dir_fd, const char *dir);

#endif
