/* netlab.c - two processes in network namespaces of their own. */
#include "netlab.h"

/* A child's report: the descriptor of its tun, or which step failed. */
static void twt_nl_report(int socket, int fd, const char *step)
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
static int twt_nl_take_report(struct twt_nl_world *world, int socket)
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

static bool twt_nl_up(int socket, const char *name, int side)
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
static int twt_nl_enter(int side, const char **step_out)
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
	if (control < 0 || !twt_nl_up(control, "lo", -1) || !twt_nl_up(control, "tow0", side))
		return -1;
	close(control);
	return fd;
}

static void twt_nl_child(int side, int socket, twt_nl_side run, void *arg)
{
	const char *step;
	char go = 0;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = twt_nl_enter(side, &step);
	twt_nl_report(socket, fd, step);
	if (fd < 0 || read(socket, &go, 1) != 1 || go != 'g')
		_exit(97);
	close(fd);
	close(socket);
	exit(run(side, arg)); /* not _exit: leaks are looked for at exit */
}

static void twt_nl_end(struct twt_nl_world *world)
{
	for (int i = 0; i < 2; i++) {
		if (world->child[i] == 0)
			continue;
		kill(world->child[i], SIGKILL);
		waitpid(world->child[i], &world->status[i], 0);
		world->child[i] = 0;
	}
}

bool twt_nl_world_open(struct twt_nl_world *world, uint64_t seed, twt_nl_side run, void *arg)
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
			twt_nl_child(side, pair[side][1], run, arg);
		}
		close(pair[side][1]);
		tun[side] = twt_nl_take_report(world, pair[side][0]);
		if (tun[side] < 0) {
			twt_nl_end(world);
			return false;
		}
	}
	if (!twt_nl_link_open(&world->link, tun[0], tun[1], seed))
		abort();
	world->start_ns = twt_nl_now();
	for (int side = 0; side < 2; side++) {
		if (write(pair[side][0], "g", 1) != 1)
			abort();
		close(pair[side][0]);
	}
	return true;
}

static bool twt_nl_reap(struct twt_nl_world *world)
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

bool twt_nl_world_run(struct twt_nl_world *world, uint64_t limit_ns, twt_nl_script script,
		      void *arg)
{
	uint64_t reaped = 0, now = twt_nl_now();
	bool in_time = true;

	while (now - world->start_ns < limit_ns) {
		if (script != NULL)
			script(world, now - world->start_ns, arg);
		twt_nl_link_turn(&world->link, now + NL_MS);
		now = twt_nl_now();
		if (now - reaped > 5 * NL_MS) {
			if (!twt_nl_reap(world))
				break;
			reaped = now;
		}
	}
	in_time = !twt_nl_reap(world);
	twt_nl_end(world);
	return in_time;
}

void twt_nl_world_close(struct twt_nl_world *world)
{
	twt_nl_end(world);
	twt_nl_link_close(&world->link);
}
