/*
 * fault_net.h - fault.h for the calls by which a runtime opens, connects and keeps messages.
 *
 *   twt_net_fault_arm(TWT_SOCKET, 2);   the second socket() from now fails, once
 *
 * liburing's functions are interposed too: they live in a shared library. malloc is the program's
 * own, so it fails for libc's callers as well; sanitizers need it for themselves (then it never
 * fails).
 */
#ifndef TWT_FAULT_NET_H
#define TWT_FAULT_NET_H

#include "fault.h"

#include <liburing.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/*
 * X(name in capitals, function, errno, what it returns when it fails, parameters, how it is
 * called). The socket calls are made as system calls: their parameters are unions in C, which
 * dlsym's pointer would have to match.
 */
#define TWT_NET_FAULTS(X)                                                                          \
	X(SOCKET, socket, EMFILE, -1, (int domain, int type, int protocol),                        \
	  syscall(SYS_socket, domain, type, protocol))                                             \
	X(BIND, bind, EADDRINUSE, -1, (int fd, __CONST_SOCKADDR_ARG at, socklen_t bytes),          \
	  syscall(SYS_bind, fd, TWT_SOCKADDR(at), bytes))                                          \
	X(LISTEN, listen, EADDRINUSE, -1, (int fd, int backlog), syscall(SYS_listen, fd, backlog)) \
	X(CONNECT, connect, ENETUNREACH, -1, (int fd, __CONST_SOCKADDR_ARG at, socklen_t bytes),   \
	  syscall(SYS_connect, fd, TWT_SOCKADDR(at), bytes))                                       \
	X(ACCEPT4, accept4, EMFILE, -1, (int fd, __SOCKADDR_ARG at, socklen_t *bytes, int flags),  \
	  syscall(SYS_accept4, fd, TWT_SOCKADDR(at), bytes, flags))                                \
	X(EVENTFD, eventfd, EMFILE, -1, (unsigned value, int flags),                               \
	  syscall(SYS_eventfd2, value, flags))                                                     \
	X(SOCKETPAIR, socketpair, EMFILE, -1, (int domain, int type, int protocol, int fds[2]),    \
	  syscall(SYS_socketpair, domain, type, protocol, fds))                                    \
	X(URING_INIT, io_uring_queue_init_params, -ENOMEM, -ENOMEM,                                \
	  (unsigned entries, struct io_uring *ring, struct io_uring_params *params),               \
	  ((int (*)(unsigned, struct io_uring *, struct io_uring_params *))real.call)(             \
		  entries, ring, params))                                                          \
	X(URING_SPARSE, io_uring_register_buffers_sparse, -ENOMEM, -ENOMEM,                        \
	  (struct io_uring * ring, unsigned count),                                                \
	  ((int (*)(struct io_uring *, unsigned))real.call)(ring, count))                          \
	X(URING_BUFFERS, io_uring_register_buffers_update_tag, -ENOMEM, -ENOMEM,                   \
	  (struct io_uring * ring, unsigned at, const struct iovec *parts, const __u64 *tags,      \
	   unsigned count),                                                                        \
	  ((int (*)(struct io_uring *, unsigned, const struct iovec *, const __u64 *,              \
		    unsigned))real.call)(ring, at, parts, tags, count))                            \
	X(URING_BUF_RING, io_uring_register_buf_ring, -EINVAL, -EINVAL,                            \
	  (struct io_uring * ring, struct io_uring_buf_reg * reg, unsigned flags),                 \
	  ((int (*)(struct io_uring *, struct io_uring_buf_reg *, unsigned))real.call)(ring, reg,  \
										       flags))     \
	X(URING_EVENTFD, io_uring_register_eventfd, -EINVAL, -EINVAL,                              \
	  (struct io_uring * ring, int fd),                                                        \
	  ((int (*)(struct io_uring *, int))real.call)(ring, fd))

/* In C a socket address parameter is a union of pointers. */
#define TWT_SOCKADDR(at) ((at).__sockaddr__)

enum twt_net_fault {
#define TWT_NET_ENUM(id, function, err, bad, params, run) TWT_##id,
	TWT_NET_FAULTS(TWT_NET_ENUM)
#undef TWT_NET_ENUM
		TWT_MALLOC,
	TWT_NET_FAULTS_COUNT
};

static _Atomic int twt_net_call = TWT_NET_FAULTS_COUNT;
static _Atomic int twt_net_left;

static inline void twt_net_fault_arm(enum twt_net_fault call, int nth)
{
	atomic_store(&twt_net_left, nth);
	atomic_store(&twt_net_call, (int)call);
}

static inline bool twt_net_fault_off(void)
{
	atomic_store(&twt_net_call, TWT_NET_FAULTS_COUNT);
	return atomic_load(&twt_net_left) <= 0;
}

static inline bool twt_net_fault_now(enum twt_net_fault call)
{
	return atomic_load(&twt_net_call) == (int)call && atomic_fetch_sub(&twt_net_left, 1) == 1;
}

#define TWT_NET_DEFINE(id, function, err, bad, params, run)                                        \
	int function params                                                                        \
	{                                                                                          \
		union {                                                                            \
			void *found;                                                               \
			void (*call)(void);                                                        \
		} real;                                                                            \
                                                                                                   \
		if (twt_net_fault_now(TWT_##id)) {                                                 \
			errno = (err) < 0 ? -(err) : (err);                                        \
			return bad;                                                                \
		}                                                                                  \
		real.found = (err) < 0 ? dlsym(RTLD_NEXT, #function) : NULL;                       \
		(void)real;                                                                        \
		return (int)(run);                                                                 \
	}
TWT_NET_FAULTS(TWT_NET_DEFINE)
#undef TWT_NET_DEFINE

#ifndef TWT_SANITIZED
extern void *__libc_malloc(size_t bytes);

void *malloc(size_t bytes)
{
	if (twt_net_fault_now(TWT_MALLOC)) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_malloc(bytes);
}
#endif

#endif
