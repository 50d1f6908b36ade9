/*
 * socket.h - the stats socket: HTTP on a unix socket of this user, one thread, all bounded.
 * From the first capture on (captures.h) there is a second thread, which finishes captures.
 *
 *	<dir>/<job>.<rank>.sock        mode 0600, in a directory of mode 0700 when we make it
 *	<dir>/<job>.<rank>-2.sock      when a living runtime has the first name already, -3, ...
 *
 * A file whose process is dead is replaced. Who connects must be the same user or root, whatever
 * the file's mode has become; others are hung up on and counted. At most 16 connections, each idle
 * for at most 5 s; further ones wait in the backlog.
 */
#ifndef TWI_SOCKET_H
#define TWI_SOCKET_H

#include <stdint.h>

struct twi_diag;
struct twi_socket;

#define TWI_SOCKET_CONNECTIONS 16
#define TWI_SOCKET_TIMEOUT_S   5

/*
 * dir "" or NULL: tow_stats_dir(). TOW_EINVAL: a job that cannot be in a file's name, or too long a
 * path; TOW_EPERM: the directory; TOW_EBUSY: all names are taken; TOW_ESYSTEM.
 */
int twi_socket_open(struct twi_diag *diag, const char *dir, const char *job, int64_t rank,
		    struct twi_socket **out);

/* Ends the thread and its connections, and takes the file away. NULL is legal. */
void twi_socket_close(struct twi_socket *socket);

/* "" for NULL. */
const char *twi_socket_path(const struct twi_socket *socket);

/* Serves a connected unix socket as if it had been accepted; takes fd. For tests and fuzzing. */
int twi_socket_adopt(struct twi_socket *socket, int fd);

#endif
