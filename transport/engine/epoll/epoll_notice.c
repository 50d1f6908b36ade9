/* epoll_notice.c - the zero-copy sends whose memory the kernel still holds. See epoll_notice.h. */
#include "transport/engine/epoll/epoll_notice.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/fd.h"
#include "transport/engine/engine.h"
#include "transport/engine/poller.h"

#define SOCKETS_FIRST 64u

/* A send whose notice is to come. */
struct notice {
	uint64_t user_data;
	uint32_t number; /* of the send, as the kernel counts */
	uint32_t next;   /* next one of the same socket, or free; index + 1 */
	uint8_t ring;
};

struct socket {
	uint32_t first, last; /* of its notices; index + 1 */
	uint32_t number;      /* of its next send */
	bool enabled;
	bool lingers; /* the descriptor is ours: the lane has closed its own */
};

struct twi_epoll_notices {
	uint32_t free; /* first free one; index + 1 */
	uint32_t lingering;
	uint32_t socket_count;
	struct socket *sockets; /* by descriptor */
	struct notice notices[TWI_EPOLL_NOTICES_MAX];
};

bool twi_epoll_notices_open(struct twi_engine *engine)
{
	struct twi_epoll_notices *notices = engine->epoll_notices;

	twi_assert_held(engine);
	if (notices != NULL)
		return true;
	notices = calloc(1, sizeof(*notices));
	if (notices == NULL)
		return false;
	for (uint32_t i = 0; i < TWI_EPOLL_NOTICES_MAX; i++)
		notices->notices[i].next = i + 1 < TWI_EPOLL_NOTICES_MAX ? i + 2 : 0;
	notices->free = 1;
	engine->epoll_notices = notices;
	return true;
}

bool twi_epoll_notices_probe(void)
{
	int fd = twi_fd_high(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), one = 1;
	bool there;

	if (fd < 0)
		return false;
	there = setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)) == 0;
	close(fd);
	return there;
}

/* Extends the table up to the descriptor. NULL: no memory. */
static struct socket *socket_of(struct twi_epoll_notices *notices, int fd)
{
	uint32_t count = twi_max(notices->socket_count, SOCKETS_FIRST);
	struct socket *sockets;

	if ((uint32_t)fd < notices->socket_count)
		return &notices->sockets[fd];
	while (count <= (uint32_t)fd)
		count *= 2;
	sockets = realloc(notices->sockets, count * sizeof(sockets[0]));
	if (sockets == NULL)
		return NULL;
	for (uint32_t i = notices->socket_count; i < count; i++)
		sockets[i] = (struct socket){ 0 };
	notices->sockets = sockets;
	notices->socket_count = count;
	return &sockets[fd];
}

static struct notice *notice_at(struct twi_epoll_notices *notices, uint32_t index)
{
	return &notices->notices[index - 1];
}

static void add_notice(struct twi_epoll_notices *notices, struct socket *own, unsigned ring,
		       uint64_t user_data)
{
	uint32_t index = notices->free;
	struct notice *notice = notice_at(notices, index);

	notices->free = notice->next;
	*notice = (struct notice){ user_data, own->number++, 0, (uint8_t)ring };
	if (own->last != 0)
		notice_at(notices, own->last)->next = index;
	else
		own->first = index;
	own->last = index;
}

/* Frees the notice behind `before` (index + 1; 0: the first one). */
static void take_notice(struct twi_epoll_notices *notices, struct socket *own, uint32_t before)
{
	uint32_t *link = before != 0 ? &notice_at(notices, before)->next : &own->first;
	uint32_t index = *link;

	*link = notice_at(notices, index)->next;
	if (own->last == index)
		own->last = before;
	notice_at(notices, index)->next = notices->free;
	notices->free = index;
}

ssize_t twi_epoll_notices_send(struct twi_epoll_notices *notices, int fd, const void *data,
			       size_t bytes, unsigned index, uint64_t user_data, bool *later_out)
{
	const int flags = MSG_DONTWAIT | MSG_NOSIGNAL, one = 1;
	struct socket *own = socket_of(notices, fd);
	ssize_t n = -1;

	*later_out = false;
	if (own == NULL || notices->free == 0)
		return send(fd, data, bytes, flags);
	if (!own->enabled && setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)) != 0)
		return send(fd, data, bytes, flags);
	own->enabled = true;
	n = send(fd, data, bytes, flags | MSG_ZEROCOPY);
	if (n < 0 && errno == ENOBUFS) /* net.core.optmem_max: too many are to come */
		return send(fd, data, bytes, flags);
	if (n > 0) {
		add_notice(notices, own, index, user_data);
		*later_out = true;
	}
	return n;
}

bool twi_epoll_notices_due(const struct twi_epoll_notices *notices, int fd)
{
	return (uint32_t)fd < notices->socket_count && notices->sockets[fd].first != 0;
}

/* Ends the sends from..to, which the kernel has let go of. The numbers may have gone round. */
static unsigned end_sends(struct twi_epoll_notices *notices, struct twi_engine *engine, int fd,
			  const struct sock_extended_err *error)
{
	bool copied = (error->ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0;
	uint32_t before = 0, index = notices->sockets[fd].first;
	unsigned count = 0;

	while (index != 0) {
		struct notice notice = *notice_at(notices, index);

		if (notice.number - error->ee_info > error->ee_data - error->ee_info) {
			before = index;
			index = notice.next;
			continue;
		}
		take_notice(notices, &notices->sockets[fd], before);
		index = notice.next;
		/*
		 * The lane ends a lease and learns about its path: that adds or removes no notice.
		 */
		twi_ring_complete(engine, notice.user_data, copied ? (int)TWI_DONE_KERNEL_COPY : 0,
				  TWI_DONE_NOTICE, NULL);
		count++;
	}
	return count;
}

static const struct sock_extended_err *zerocopy_error(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
		const struct sock_extended_err *error = (const void *)CMSG_DATA(c);

		if (((c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
		     (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR)) &&
		    error->ee_origin == SO_EE_ORIGIN_ZEROCOPY && error->ee_errno == 0)
			return error;
	}
	return NULL;
}

unsigned twi_epoll_notices_read(struct twi_epoll_notices *notices, struct twi_engine *engine,
				int fd)
{
	unsigned count = 0;

	twi_assert_held(engine);
	while (twi_epoll_notices_due(notices, fd)) {
		_Alignas(struct cmsghdr) uint8_t control[128];
		struct msghdr message = { .msg_control = control,
					  .msg_controllen = sizeof(control) };
		const struct sock_extended_err *error;

		if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			break;
		error = zerocopy_error(&message);
		if (error != NULL)
			count += end_sends(notices, engine, fd, error);
	}
	return count;
}

static void end_lingering(struct twi_epoll_notices *notices, int fd)
{
	notices->sockets[fd] = (struct socket){ 0 };
	notices->lingering--;
	close(fd);
}

unsigned twi_epoll_notices_linger(struct twi_epoll_notices *notices, struct twi_engine *engine)
{
	unsigned count = 0;

	twi_assert_held(engine);
	for (uint32_t fd = 0; notices->lingering > 0 && fd < notices->socket_count; fd++) {
		if (!notices->sockets[fd].lingers)
			continue;
		count += twi_epoll_notices_read(notices, engine, (int)fd);
		if (notices->sockets[fd].first == 0)
			end_lingering(notices, (int)fd);
	}
	return count;
}

/*
 * Ends sends whose notices cannot be read. Their connection has been cut, and their bytes with it.
 */
static void end_untold(struct twi_epoll_notices *notices, struct twi_engine *engine,
		       struct socket *own)
{
	while (own->first != 0) {
		uint64_t user_data = notice_at(notices, own->first)->user_data;

		take_notice(notices, own, 0);
		twi_ring_complete(engine, user_data, (int)TWI_DONE_KERNEL_COPY, TWI_DONE_NOTICE,
				  NULL);
	}
}

void twi_epoll_notices_forget(struct twi_engine *engine, int fd)
{
	struct twi_epoll_notices *notices = engine->epoll_notices;
	struct socket own, *kept = NULL;
	int ours;

	twi_assert_held(engine);
	if (notices == NULL || (uint32_t)fd >= notices->socket_count)
		return;
	own = notices->sockets[fd];
	notices->sockets[fd] = (struct socket){ 0 };
	if (own.first == 0)
		return;
	ours = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (ours >= 0)
		kept = socket_of(notices, ours);
	if (kept != NULL) {
		*kept = own;
		kept->lingers = true;
		notices->lingering++;
		return;
	}
	if (ours >= 0)
		close(ours);
	end_untold(notices, engine, &own);
}

static void drop_notices_of(struct twi_epoll_notices *notices, struct socket *own, unsigned ring)
{
	uint32_t before = 0, index = own->first;

	while (index != 0) {
		uint32_t next = notice_at(notices, index)->next;

		if (notice_at(notices, index)->ring == ring)
			take_notice(notices, own, before);
		else
			before = index;
		index = next;
	}
}

void twi_epoll_notices_drop(struct twi_engine *engine, unsigned index)
{
	struct twi_epoll_notices *notices = engine->epoll_notices;

	for (uint32_t fd = 0; notices != NULL && fd < notices->socket_count; fd++) {
		struct socket *own = &notices->sockets[fd];

		drop_notices_of(notices, own, index);
		if (own->lingers && own->first == 0)
			end_lingering(notices, (int)fd);
	}
}

void twi_epoll_notices_close(struct twi_engine *engine)
{
	struct twi_epoll_notices *notices = engine->epoll_notices;

	if (notices == NULL)
		return;
	free(notices->sockets);
	free(notices);
	engine->epoll_notices = NULL;
}
