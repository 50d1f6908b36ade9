/*
 * listen.h - a listening unix socket with a name of its own, among the living and the dead.
 *
 * Children of a fork close it, so that nobody seems to live there when this process has ended.
 */
#ifndef TWI_LISTEN_H
#define TWI_LISTEN_H

#include <stdint.h>
#include <sys/un.h>

struct twi_listen {
	int fd;
	uint64_t device, inode; /* of the file, so that only our own is ever taken away */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

int twi_listen_open(const char *dir, const char *job, int64_t rank, struct twi_listen *out);

/* Takes the file away, unless it is another's by now. Does not close fd. */
void twi_listen_unlink(const struct twi_listen *listener);

#endif
