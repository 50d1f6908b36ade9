/*
 * epoll_notice.h - sends with MSG_ZEROCOPY, and the notices by which the kernel says that it has
 * let go of their memory.
 *
 *	send(MSG_ZEROCOPY) --> the socket's list: number, user data
 *	EPOLLERR --> recvmsg(MSG_ERRQUEUE): numbers from..to, copied or not --> completions
 *
 * The kernel numbers the sends of a socket from 0 on. It puts the notices of all of them into the
 * socket's queue of errors, whichever thread sent. So the lists belong to the runtime: the thread
 * that looks reads the notices of all.
 *
 * A socket may be closed before all its notices have come. In that case a descriptor of the library
 * keeps the socket until they have. Its sends are the memory's last users, and the lane has cut the
 * connection before.
 *
 * The engine is held in all calls, except where said.
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
 * open makes engine->epoll_notices when the first send needs it; it goes with the runtime. The
 * kernel counts a socket's sends on, whichever rings come and go. False: no memory. close: no
 * thread is in a call of the runtime any more, and the engine is not held.
 */
bool twi_epoll_notices_open(struct twi_engine *engine);
void twi_epoll_notices_close(struct twi_engine *engine);

/*
 * The ring `index` goes: its sends are not reported any more. The engine is held, or no thread is
 * in a call of the runtime any more.
 */
void twi_epoll_notices_drop(struct twi_engine *engine, unsigned index);

/* Does this kernel have MSG_ZEROCOPY? Any thread may ask. */
bool twi_epoll_notices_probe(void);

/*
 * Sends with MSG_ZEROCOPY, for ring `index`. Returns what send does. *later_out is true when a
 * notice is to come. False: there was no room for another notice and the bytes went by a send that
 * copies, or the send failed.
 */
ssize_t twi_epoll_notices_send(struct twi_epoll_notices *notices, int fd, const void *data,
			       size_t bytes, unsigned index, uint64_t user_data, bool *later_out);

/* Are notices of the descriptor to come? */
bool twi_epoll_notices_due(const struct twi_epoll_notices *notices, int fd);

/* Reads the notices that have come for the descriptor. Returns how many sends they complete. */
unsigned twi_epoll_notices_read(struct twi_epoll_notices *notices, struct twi_engine *engine,
				int fd);

/* The same for sockets that have been closed meanwhile. */
unsigned twi_epoll_notices_linger(struct twi_epoll_notices *notices, struct twi_engine *engine);

/* The descriptor is about to be closed: keeps its socket until all notices have come. */
void twi_epoll_notices_forget(struct twi_engine *engine, int fd);

#endif
