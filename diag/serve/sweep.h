/*
 * sweep.h - removes the sockets that ended processes left in a directory of stats sockets.
 *
 * A job that is killed leaves its files. towrun gives each job a new name, so no later job would
 * reuse them. If any rank of a job lives, its files stay: they show which ranks have died.
 *
 * At most TWI_SWEEP_MAX sockets are checked, at some 5 us each, so that opening stays quick. A job
 * with more sockets may lose a dead rank's file while others live, which does no harm.
 */
#ifndef TWI_SWEEP_H
#define TWI_SWEEP_H

#define TWI_SWEEP_MAX 512

/* Under the directory's lock: a socket between bind and listen looks dead. */
void twi_sweep(int dir_fd, const char *dir);

#endif
