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
 *
 * The same documents over TCP, where it is asked for: a second thread, 16 connections of its own,
 * and no answer but 401 or 429 without the token (token.h), in the header Authorization or in the
 * query, as `?token=`.
 */
#ifndef TWI_SOCKET_H
#define TWI_SOCKET_H

#include <stdint.h>

struct twi_diag;
struct twi_socket;

#define TWI_SOCKET_CONNECTIONS 16
#define TWI_SOCKET_TIMEOUT_S   5

/*
 * dir "" or NULL: the first default one that is of use (twi_stats_dir_find). TOW_EINVAL: a job that
 * cannot be in a file's name, or too long a path; TOW_EPERM: the directory; TOW_EBUSY: all names
 * are taken; TOW_ESYSTEM.
 */
int twi_socket_open(struct twi_diag *diag, const char *dir, const char *job, int64_t rank,
		    struct twi_socket **out);

/*
 * Serves TCP as well, at an address as listen_tcp.h has them, for the token of token.h. Once for
 * each socket. TOW_EINVAL: no address, or no token; TOW_EBUSY, TOW_EPERM, TOW_ESYSTEM, TOW_ENOMEM.
 */
int twi_socket_listen(struct twi_socket *socket, const char *address, const char *token,
		      const char *token_file);

/* Ends the thread and its connections, and takes the file away. NULL is legal. */
void twi_socket_close(struct twi_socket *socket);

/* "" for NULL. */
const char *twi_socket_path(const struct twi_socket *socket);

/* ADDRESS:PORT of TCP; "" without it, and for NULL. */
const char *twi_socket_address(const struct twi_socket *socket);

/* Serves a connected unix socket as if it had been accepted; takes fd. For tests and fuzzing. */
int twi_socket_adopt(struct twi_socket *socket, int fd);

/* The same, as if it had come over TCP: with a token. */
int twi_socket_adopt_tcp(struct twi_socket *socket, int fd);

#endif
