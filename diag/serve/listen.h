/*
 * listen.h - a listening unix socket with a name of its own, among the living and the dead.
 *
 * Children of a fork close it, so that nobody seems to live there when this process has ended.
 */
#ifndef TWI_LISTEN_H
#define TWI_LISTEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

struct twi_listen {
	int fd;
	uint64_t device, inode; /* of the file, so that only our own is ever taken away */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/*
 * How a socket may be called: <dir>/<stem><end>, and while a living one has that name, with a
 * number behind the stem: -2, -3, ...
 */
struct twi_listen_name {
	const char *dir, *stem, *end;
	int type;   /* SOCK_STREAM, SOCK_SEQPACKET */
	bool sweep; /* also takes away what jobs that are over have left (sweep.h) */
};

int twi_listen_open(const struct twi_listen_name *name, struct twi_listen *out);

/* The stem of what belongs to a rank, <job>.<rank>. TOW_EINVAL: no file can have the job's name. */
#define TWI_LISTEN_STEM_BYTES 96
int twi_listen_stem(const char *job, int64_t rank, char out[TWI_LISTEN_STEM_BYTES]);

/*
 * Whether nobody listens behind a socket file any more; anything else than a refusal is a life.
 * Who lives there does not notice the question: it is asked with a type that none of ours has.
 */
bool twi_listen_is_dead(const struct sockaddr_un *address);

/* Takes the file away, unless it is another's by now. Does not close fd. */
void twi_listen_unlink(const struct twi_listen *listener);

#endif
