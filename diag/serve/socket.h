/*
 * socket.h - the stats socket: serves HTTP on a unix socket of this user, in one thread.
 * The first capture starts a second thread, which finishes captures (captures.h).
 *
 *	<dir>/<job>.<rank>.sock        mode 0600; a directory that we make has mode 0700
 *	<dir>/<job>.<rank>-2.sock      if a living runtime has the first name; then -3, ...
 *
 * A file whose process is dead is replaced. A client must be the same user or root, whatever the
 * file's mode is by now. Other clients are disconnected and counted. There are at most 16
 * connections, each idle for at most 5 s; more clients wait in the backlog.
 *
 * If asked, the same documents are served over TCP: by another thread, with 16 connections of its
 * own. The client sends the token (token.h) in the header Authorization, or in the query as
 * `?token=`. Without it, the only answers are 401 and 429.
 */
#ifndef TWI_SOCKET_H
#define TWI_SOCKET_H

#include <stdint.h>

struct twi_diag;
struct twi_socket;

#define TWI_SOCKET_CONNECTIONS 16
#define TWI_SOCKET_TIMEOUT_S   5

/*
 * dir "" or NULL: the first usable default directory (twi_stats_dir_find). TOW_EINVAL: the job
 * cannot be in a file name, or the path is too long; TOW_EPERM: the directory; TOW_EBUSY: all names
 * are taken; TOW_ENOMEM; TOW_ENOTSUP: libmicrohttpd cannot be loaded; TOW_ESYSTEM.
 */
int twi_socket_open(struct twi_diag *diag, const char *dir, const char *job, int64_t rank,
		    struct twi_socket **out);

/*
 * Serves TCP, too, at an address as in listen_tcp.h, with the token of token.h. Once for each
 * socket. TOW_EINVAL: no address, or no token; TOW_EBUSY, TOW_EPERM, TOW_ESYSTEM, TOW_ENOMEM.
 */
int twi_socket_listen(struct twi_socket *socket, const char *address, const char *token,
		      const char *token_file);

/* Ends the threads and all connections, and removes the file. NULL is legal. */
void twi_socket_close(struct twi_socket *socket);

/* The path of the file; "" for NULL. */
const char *twi_socket_path(const struct twi_socket *socket);

/* ADDRESS:PORT of TCP; "" without TCP, and for NULL. */
const char *twi_socket_address(const struct twi_socket *socket);

/* Serves a connected unix socket as if it had been accepted; takes fd. For tests and fuzzing. */
int twi_socket_adopt(struct twi_socket *socket, int fd);

/* Serves it as if it had come over TCP, so with a token. */
int twi_socket_adopt_tcp(struct twi_socket *socket, int fd);

#endif
