/*
 * listen.h - opens a listening unix socket under a name that no living socket has.
 *
 * A forked child closes it, so that the socket is dead once this process has ended.
 */
#ifndef TWI_LISTEN_H
#define TWI_LISTEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

struct twi_listen {
	int fd;
	uint64_t device, inode; /* of the file, so that only our own file is ever removed */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/*
 * The parts of a socket's name: <dir>/<stem><end>. While a living socket has that name, a number
 * follows the stem: -2, -3, ...
 */
struct twi_listen_name {
	const char *dir, *stem, *end;
	int type;   /* SOCK_STREAM or SOCK_SEQPACKET */
	bool sweep; /* also removes sockets that ended jobs have left (sweep.h) */
};

int twi_listen_open(const struct twi_listen_name *name, struct twi_listen *out);

/* Makes a rank's stem, <job>.<rank>. TOW_EINVAL: the job's name cannot be in a file name. */
#define TWI_LISTEN_STEM_BYTES 96
int twi_listen_stem(const char *job, int64_t rank, char out[TWI_LISTEN_STEM_BYTES]);

/*
 * Is the socket behind a file dead? Only a refused connect says so. A living listener does not
 * notice the question, as the question has a socket type that none of our listeners has.
 */
bool twi_listen_is_dead(const struct sockaddr_un *address);

/* Removes the file, unless another socket has it by now. Does not close fd. */
void twi_listen_unlink(const struct twi_listen *listener);

#endif
