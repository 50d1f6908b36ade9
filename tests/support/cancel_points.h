/*
 * cancel_points.h - stands in place of libc's cancellation points, and looks whether the thread
 * could be canceled there while it is in a call of the library. A test includes this once.
 *
 *	twt_inside = true;
 *	...calls of the library...
 *	twt_inside = false;
 *	assert_int_equal(atomic_load(&twt_point_faults), 0);
 */
#ifndef TWT_CANCEL_POINTS_H
#define TWT_CANCEL_POINTS_H

#include "twt.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The calling thread is within a call of the library. */
static _Thread_local bool twt_inside;
static _Atomic unsigned twt_points, twt_point_faults;
static const char *twt_points_where = ""; /* the lane */

#ifndef TWT_SANITIZED /* its runtime has wrappers of these calls itself */
#define TWT_LOOKS_AT_POINTS 1

static void twt_point_look(const char *name)
{
	int state;

	if (!twt_inside)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	atomic_fetch_add(&twt_points, 1);
	if (state == PTHREAD_CANCEL_ENABLE) {
		fprintf(stderr, "%s: %s can be canceled\n", twt_points_where, name);
		atomic_fetch_add(&twt_point_faults, 1);
	}
	pthread_setcancelstate(state, NULL);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
	twt_point_look("write");
	return syscall(SYS_write, fd, data, bytes);
}

ssize_t read(int fd, void *data, size_t bytes)
{
	twt_point_look("read");
	return syscall(SYS_read, fd, data, bytes);
}

ssize_t recv(int fd, void *data, size_t bytes, int flags)
{
	twt_point_look("recv");
	return syscall(SYS_recvfrom, fd, data, bytes, flags, NULL, NULL);
}

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
	twt_point_look("send");
	return syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	twt_point_look("sendmsg");
	return syscall(SYS_sendmsg, fd, msg, flags);
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	twt_point_look("recvmsg");
	return syscall(SYS_recvmsg, fd, msg, flags);
}

int close(int fd)
{
	twt_point_look("close");
	return (int)syscall(SYS_close, fd);
}

int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t bytes)
{
	twt_point_look("connect");
	return (int)syscall(SYS_connect, fd, address.__sockaddr__, bytes);
}

int accept4(int fd, __SOCKADDR_ARG address, socklen_t *bytes, int flags)
{
	twt_point_look("accept4");
	return (int)syscall(SYS_accept4, fd, address.__sockaddr__, bytes, flags);
}

int epoll_wait(int fd, struct epoll_event *events, int count, int timeout)
{
	twt_point_look("epoll_wait");
	return (int)syscall(SYS_epoll_pwait, fd, events, count, timeout, NULL, 8);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec left = timeout != NULL ? *timeout : (struct timespec){ 0 };

	twt_point_look("ppoll");
	return (int)syscall(SYS_ppoll, fds, count, timeout != NULL ? &left : NULL, mask, 8);
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
	twt_point_look("nanosleep");
	return (int)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, time, left) == 0 ? 0 : -1;
}
#else
#define TWT_LOOKS_AT_POINTS 0
#endif

#endif
