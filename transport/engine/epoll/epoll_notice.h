/*
 * epoll_notice.h - sends with MSG_ZEROCOPY, and the notices by which the kernel says that it has
 * let go of their memory.
 *
 *	send(MSG_ZEROCOPY) --> the socket's list: number, user data
 *	EPOLLERR --> recvmsg(MSG_ERRQUEUE): numbers from..to, copied or not --> completions
 *
 * The kernel numbers the sends of a socket from 0 on and puts the notices of all of them into the
 * socket's queue of errors, whichever thread sent. So the lists belong to the runtime: the thread
 * that looks reads the notices of all.
 *
 * A socket that is closed before all of them have come is kept by a descriptor of our own until
 * they have: its sends are the memory's last users, and the lane has cut the connection before.
 *
 * The engine is held in all calls, but where said.
 */
#ifndef TWI_EPOLL_NOTICE_H
#define TWI_EPOLL_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct twi_engine;

#define TWI_EPOLL_NOTICES_MAX 4096u /* sends whose notice is to come */

struct twi_epoll_notices;

/*
 * engine->epoll_notices is made when the first send needs it, and goes with the runtime: the kernel
 * counts a socket's sends on, whichever rings come and go. False: no memory. close: nobody is
 * in a call of the runtime any more, and the engine is not held.
 */
bool twi_epoll_notices_open(struct twi_engine *engine);
void twi_epoll_notices_close(struct twi_engine *engine);

/*
 * The ring `index` goes, and what it has sent is not told any more. The engine is held, or nobody
 * is in a call of the runtime any more.
 */
void twi_epoll_notices_drop(struct twi_engine *engine, unsigned index);

/* Does this kernel have MSG_ZEROCOPY? Any thread may ask. */
bool twi_epoll_notices_probe(void);

/*
 * Sends by MSG_ZEROCOPY, for ring `index`. Returns what send does. *later_out: the notice is to
 * come; else there is no room for more of them, and the bytes went by a send that copies.
 */
ssize_t twi_epoll_notices_send(struct twi_epoll_notices *notices, int fd, const void *data,
			       size_t bytes, unsigned index, uint64_t user_data, bool *later_out);

/* Are there some to come, of the descriptor? */
bool twi_epoll_notices_due(const struct twi_epoll_notices *notices, int fd);

/* Reads what has come for the descriptor; returns how many sends are completed by it. */
unsigned twi_epoll_notices_read(struct twi_epoll_notices *notices, struct twi_engine *engine,
				int fd);

/* The same for sockets that have been closed meanwhile. */
unsigned twi_epoll_notices_linger(struct twi_epoll_notices *notices, struct twi_engine *engine);

/* The descriptor is about to be closed. */
void twi_epoll_notices_forget(struct twi_engine *engine, int fd);

#endif
