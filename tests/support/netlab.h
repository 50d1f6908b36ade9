/*
 * netlab.h - two processes, each in a network namespace of its own, and a cable between them that
 * this process is (netlab_link.h). Needs no root where the system gives users namespaces.
 *
 *	child 0: namespace,               parent:               child 1: namespace,
 *	tun 10.77.0.1          <------>   nl_link   <------>    tun 10.77.0.2
 *
 * The namespaces and devices go when the children do. Everything is bounded: nl_world_run ends the
 * children by pid when its time is over. A system that permits none of it makes the test end with
 * 77 and the reason.
 */
#ifndef TWT_NETLAB_H
#define TWT_NETLAB_H

#include "netlab_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define NL_ADDRESS "10.77.0.%d" /* 1: of side 0, 2: of side 1 */

struct nl_world {
	struct nl_link link;
	pid_t child[2]; /* 0: it has ended */
	int status[2];  /* what waitpid said */
	uint64_t start_ns;
	char reason[128]; /* why there is no such world here */
};

typedef int (*nl_side)(int side, void *arg);
/* Called between packets; changes the shape, stops processes. */
typedef void (*nl_script)(struct nl_world *world, uint64_t elapsed_ns, void *arg);

/* A child's report: the descriptor of its tun, or which step failed. */
static inline void nl_report(int socket, int fd, const char *step)
{
	char text[128] = "", room[CMSG_SPACE(sizeof(int))] = "";
	struct iovec part = { text, sizeof(text) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (fd < 0) {
		snprintf(text, sizeof(text), "%s: %s", step, strerror(errno));
	} else {
		struct cmsghdr *head;

		message.msg_control = room;
		message.msg_controllen = sizeof(room);
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	}
	if (sendmsg(socket, &message, 0) < 0)
		_exit(96);
}

/* Takes a child's report; -1 with the reason when it has no tun. */
static inline int nl_take_report(struct nl_world *world, int socket)
{
	char room[CMSG_SPACE(sizeof(int))];
	struct iovec part = { world->reason, sizeof(world->reason) - 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = room,
				  .msg_controllen = sizeof(room) };
	struct cmsghdr *head;
	int fd = -1;

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) <= 0) {
		snprintf(world->reason, sizeof(world->reason), "a child ended too early");
		return -1;
	}
	head = CMSG_FIRSTHDR(&message);
	if (head != NULL && head->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(head), sizeof(fd));
	return fd;
}

static inline bool nl_up(int socket, const char *name, int side)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct ifreq request = { 0 };
	char text[32];

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (side >= 0) {
		snprintf(text, sizeof(text), NL_ADDRESS, side + 1);
		address.sin_addr.s_addr = inet_addr(text);
		memcpy(&request.ifr_addr, &address, sizeof(address));
		if (ioctl(socket, SIOCSIFADDR, &request) != 0)
			return false;
		address.sin_addr.s_addr = htonl(0xffffff00u);
		memcpy(&request.ifr_netmask, &address, sizeof(address));
		if (ioctl(socket, SIOCSIFNETMASK, &request) != 0)
			return false;
	}
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	return ioctl(socket, SIOCSIFFLAGS, &request) == 0;
}

/* Into a namespace of its own, with a tun in it. Returns the tun, -1 with *step_out. */
static inline int nl_enter(int side, const char **step_out)
{
	struct ifreq request = { .ifr_name = "tow0", .ifr_flags = IFF_TUN | IFF_NO_PI };
	int fd, control;

	*step_out = "unshare(CLONE_NEWUSER | CLONE_NEWNET)";
	if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		return -1;
	*step_out = "/dev/net/tun";
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -1;
	*step_out = "TUNSETIFF";
	if (ioctl(fd, TUNSETIFF, &request) != 0)
		return -1;
	*step_out = "setting the interface up";
	control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (control < 0 || !nl_up(control, "lo", -1) || !nl_up(control, "tow0", side))
		return -1;
	close(control);
	return fd;
}

static inline void nl_child(int side, int socket, nl_side run, void *arg)
{
	const char *step;
	char go = 0;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = nl_enter(side, &step);
	nl_report(socket, fd, step);
	if (fd < 0 || read(socket, &go, 1) != 1 || go != 'g')
		_exit(97);
	close(fd);
	close(socket);
	exit(run(side, arg)); /* not _exit: leaks are looked for at exit */
}

static inline void nl_end(struct nl_world *world)
{
	for (int i = 0; i < 2; i++) {
		if (world->child[i] == 0)
			continue;
		kill(world->child[i], SIGKILL);
		waitpid(world->child[i], &world->status[i], 0);
		world->child[i] = 0;
	}
}

/* Opens the world and starts both sides; false: world->reason says why it cannot be. */
static inline bool nl_world_open(struct nl_world *world, uint64_t seed, nl_side run, void *arg)
{
	int pair[2][2], tun[2] = { -1, -1 };

	memset(world, 0, sizeof(*world));
	fflush(NULL);
	for (int side = 0; side < 2; side++) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair[side]) != 0)
			abort();
		world->child[side] = fork();
		if (world->child[side] < 0)
			abort();
		if (world->child[side] == 0) {
			close(pair[side][0]);
			nl_child(side, pair[side][1], run, arg);
		}
		close(pair[side][1]);
		tun[side] = nl_take_report(world, pair[side][0]);
		if (tun[side] < 0) {
			nl_end(world);
			return false;
		}
	}
	if (!nl_link_open(&world->link, tun[0], tun[1], seed))
		abort();
	world->start_ns = nl_now();
	for (int side = 0; side < 2; side++) {
		if (write(pair[side][0], "g", 1) != 1)
			abort();
		close(pair[side][0]);
	}
	return true;
}

static inline bool nl_reap(struct nl_world *world)
{
	bool left = false;

	for (int i = 0; i < 2; i++) {
		if (world->child[i] != 0 &&
		    waitpid(world->child[i], &world->status[i], WNOHANG) == world->child[i])
			world->child[i] = 0;
		left |= world->child[i] != 0;
	}
	return left;
}

/* Carries packets until both sides have ended; false: limit_ns passed first; they were ended. */
static inline bool nl_world_run(struct nl_world *world, uint64_t limit_ns, nl_script script,
				void *arg)
{
	uint64_t reaped = 0, now = nl_now();
	bool in_time = true;

	while (now - world->start_ns < limit_ns) {
		if (script != NULL)
			script(world, now - world->start_ns, arg);
		nl_link_turn(&world->link, now + NL_MS);
		now = nl_now();
		if (now - reaped > 5 * NL_MS) {
			if (!nl_reap(world))
				break;
			reaped = now;
		}
	}
	in_time = !nl_reap(world);
	nl_end(world);
	return in_time;
}

static inline void nl_world_close(struct nl_world *world)
{
	nl_end(world);
	nl_link_close(&world->link);
}

#endif
