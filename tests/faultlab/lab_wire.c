/*
 * lab_wire.c - hosts that are network namespaces of this one, and the network between them.
 *
 *	lab_wire hosts HOSTS RAILS     makes them, prints "hosts PID...", and carries their packets
 *	lab_wire join PID COMMAND...   runs a command in the namespace of PID
 *
 * Each host has a tun device for each rail: host i has 10.88.RAIL.(i + 1). This program is the
 * switch: it reads packets from all devices, and gives each to the host of its address, later, or
 * not at all, as the rules say. A rule is a line of its input, -1 means each of them:
 *
 *	FROM TO RAIL delay_us loss_ppm kbit mtu cut nosyn
 *
 * Rules hold from then on. At the end of its input it ends, and so do the hosts. No such network
 * needs tc, iptables or root, but the system's leave to make namespaces; else it exits with 77.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOSTS_MAX  8
#define RAILS_MAX  2
#define PACKET_MAX 2048u
#define QUEUE_MAX  2048u               /* packets on their way from one host to another */
#define HELD_MAX   UINT64_C(100000000) /* ns of a limited rate that wait; beyond: dropped */
#define NS_PER_S   UINT64_C(1000000000)
#define TCP_SYN    2u
#define TCP_ACK    16u

struct packet {
	uint64_t due_ns;
	struct packet *next;
	uint32_t bytes;
	uint8_t data[];
};

/* From one host to another by one rail. */
struct line {
	long delay_us, loss_ppm, kbit, mtu, cut, nosyn;
	struct packet *first, *last;
	uint32_t waiting;
	uint64_t busy_ns; /* until when what was let in takes, at the rate */
};

static int hosts, rails;
static int devices[HOSTS_MAX][RAILS_MAX];
static pid_t pids[HOSTS_MAX];
static struct line lines[HOSTS_MAX][HOSTS_MAX][RAILS_MAX];
static uint64_t random_state = 88172645463325252u;

static uint64_t wire_now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * NS_PER_S + (uint64_t)at.tv_nsec;
}

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void give_up(const char *what)
{
	fprintf(stderr, "lab_wire: %s: %s\n", what, strerror(errno));
	exit(77);
}

/* --- hosts --- */

static bool set_up(int control, const char *name, const char *address)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct ifreq request = { 0 };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (address != NULL) {
		at.sin_addr.s_addr = inet_addr(address);
		memcpy(&request.ifr_addr, &at, sizeof(at));
		if (ioctl(control, SIOCSIFADDR, &request) != 0)
			return false;
		at.sin_addr.s_addr = htonl(0xffffff00u);
		memcpy(&request.ifr_netmask, &at, sizeof(at));
		if (ioctl(control, SIOCSIFNETMASK, &request) != 0)
			return false;
	}
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	return ioctl(control, SIOCSIFFLAGS, &request) == 0;
}

static void open_device(int host, int rail, int control)
{
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	char address[32];

	if (fd < 0)
		give_up("/dev/net/tun");
	snprintf(request.ifr_name, sizeof(request.ifr_name), "rail%d", rail);
	if (ioctl(fd, TUNSETIFF, &request) != 0)
		give_up("TUNSETIFF");
	snprintf(address, sizeof(address), "10.88.%d.%d", rail, host + 1);
	if (!set_up(control, request.ifr_name, address))
		give_up("setting a device up");
	devices[host][rail] = fd;
}

/*
 * A process that is there so that its namespace is. The devices are opened here, as this process
 * is in that namespace for so long: a descriptor of a tun works wherever its owner goes.
 */
static void make_host(int host, int home)
{
	int ready[2], control;
	char word;

	if (unshare(CLONE_NEWNET) != 0)
		give_up("unshare(CLONE_NEWNET)");
	control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (control < 0 || !set_up(control, "lo", NULL))
		give_up("setting lo up");
	for (int rail = 0; rail < rails; rail++)
		open_device(host, rail, control);
	close(control);
	if (pipe2(ready, O_CLOEXEC) != 0)
		give_up("pipe");
	pids[host] = fork();
	if (pids[host] < 0)
		give_up("fork");
	if (pids[host] == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(STDIN_FILENO);
		close(STDOUT_FILENO);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	if (read(ready[0], &word, 1) != 1)
		give_up("a host");
	close(ready[0]);
	close(ready[1]);
	if (setns(home, CLONE_NEWNET) != 0)
		give_up("setns");
}

static void write_word(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		give_up(path);
	close(fd);
}

/* Without root it becomes root in a user namespace of its own, to which all hosts belong. */
static void leave_home(void)
{
	char map[64];

	snprintf(map, sizeof(map), "%u %u 1", (unsigned)getuid(), (unsigned)getuid());
	if (unshare(CLONE_NEWNET) == 0)
		return;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		give_up("unshare(CLONE_NEWUSER | CLONE_NEWNET)");
	write_word("/proc/self/uid_map", map);
}

static void make_hosts(void)
{
	int home;

	leave_home();
	home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (home < 0)
		give_up("/proc/self/ns/net");
	for (int host = 0; host < hosts; host++)
		make_host(host, home);
	close(home);
	printf("hosts");
	for (int host = 0; host < hosts; host++)
		printf(" %d", (int)pids[host]);
	printf("\n");
	fflush(stdout);
}

/* --- the network --- */

static bool is_syn(const uint8_t *data, size_t bytes)
{
	size_t head = (size_t)(data[0] & 15) * 4;

	return data[9] == IPPROTO_TCP && bytes >= head + 14 &&
	       (data[head + 13] & (TCP_SYN | TCP_ACK)) == TCP_SYN;
}

/* Whether a packet is lost, and else when it is due. */
static bool judge_packet(struct line *line, const uint8_t *data, size_t bytes, uint64_t *due_out)
{
	uint64_t now = wire_now(), due = now;

	if (line->cut != 0 || (line->mtu != 0 && bytes > (size_t)line->mtu) ||
	    (line->nosyn != 0 && is_syn(data, bytes)) || line->waiting >= QUEUE_MAX ||
	    (uint64_t)line->loss_ppm > random_next() % 1000000)
		return false;
	if (line->kbit > 0) {
		line->busy_ns = line->busy_ns > now ? line->busy_ns : now;
		if (line->busy_ns - now > HELD_MAX)
			return false;
		line->busy_ns += bytes * 8 * 1000000 / (uint64_t)line->kbit;
		due = line->busy_ns;
	}
	*due_out = due + (uint64_t)line->delay_us * 1000;
	return true;
}

static void take_packet(int from, int rail, const uint8_t *data, size_t bytes)
{
	int to = bytes >= 20 && data[0] >> 4 == 4 ? data[19] - 1 : -1;
	struct packet *packet;
	struct line *line;
	uint64_t due = 0;

	if (to < 0 || to >= hosts || to == from || data[16] != 10 || data[17] != 88 ||
	    data[18] >= rails)
		return;
	line = &lines[from][to][rail];
	if (!judge_packet(line, data, bytes, &due))
		return;
	packet = malloc(sizeof(*packet) + bytes);
	if (packet == NULL)
		return;
	*packet = (struct packet){ .due_ns = due, .bytes = (uint32_t)bytes };
	memcpy(packet->data, data, bytes);
	if (line->first != NULL) {
		/* In order, also where a delay has just become shorter. */
		packet->due_ns = due > line->last->due_ns ? due : line->last->due_ns;
		line->last->next = packet;
	} else {
		line->first = packet;
	}
	line->last = packet;
	line->waiting++;
}

/* Gives what is due; returns when the next is. */
static uint64_t give_due(int from, int to, int rail, uint64_t now, uint64_t next)
{
	struct line *line = &lines[from][to][rail];

	while (line->first != NULL && line->first->due_ns <= now) {
		struct packet *packet = line->first;

		/* A device that is full loses packets, as devices do. */
		if (write(devices[to][packet->data[18]], packet->data, packet->bytes) < 0 &&
		    errno == EBADFD)
			exit(1);
		line->first = packet->next;
		line->waiting--;
		free(packet);
	}
	return line->first != NULL && line->first->due_ns < next ? line->first->due_ns : next;
}

static uint64_t give_all(uint64_t now)
{
	uint64_t next = now + NS_PER_S / 10;

	for (int from = 0; from < hosts; from++)
		for (int to = 0; to < hosts; to++)
			for (int rail = 0; rail < rails; rail++)
				next = give_due(from, to, rail, now, next);
	return next;
}

static void set_rule(const char *text)
{
	struct line rule = { 0 };
	int from, to, rail;

	if (sscanf(text, "%d %d %d %ld %ld %ld %ld %ld %ld", &from, &to, &rail, &rule.delay_us,
		   &rule.loss_ppm, &rule.kbit, &rule.mtu, &rule.cut, &rule.nosyn) != 9) {
		fprintf(stderr, "lab_wire: no rule: %s\n", text);
		return;
	}
	for (int i = 0; i < hosts; i++)
		for (int k = 0; k < hosts; k++)
			for (int r = 0; r < rails; r++) {
				struct line *line = &lines[i][k][r];

				if ((from >= 0 && i != from) || (to >= 0 && k != to) ||
				    (rail >= 0 && r != rail))
					continue;
				rule.first = line->first;
				rule.last = line->last;
				rule.waiting = line->waiting;
				*line = rule;
			}
}

/* Reads rules; false at the end of the input. */
static bool read_rules(void)
{
	static char text[4096];
	static size_t held;
	ssize_t n = read(STDIN_FILENO, text + held, sizeof(text) - 1 - held);
	char *begin = text, *end;

	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	held += (size_t)n;
	text[held] = '\0';
	while ((end = strchr(begin, '\n')) != NULL) {
		*end = '\0';
		set_rule(begin);
		begin = end + 1;
	}
	held -= (size_t)(begin - text);
	memmove(text, begin, held);
	return held < sizeof(text) - 1;
}

static void carry_packets(void)
{
	struct pollfd fds[1 + HOSTS_MAX * RAILS_MAX] = { { STDIN_FILENO, POLLIN, 0 } };
	uint8_t data[PACKET_MAX];
	int count = 1;

	for (int host = 0; host < hosts; host++)
		for (int rail = 0; rail < rails; rail++)
			fds[count++] = (struct pollfd){ devices[host][rail], POLLIN, 0 };
	for (;;) {
		uint64_t now = wire_now(), next = give_all(now);
		struct timespec wait = { 0, 0 };

		now = wire_now();
		if (next > now)
			wait.tv_nsec = (long)(next - now); /* at most a tenth of a second */
		if (ppoll(fds, (nfds_t)count, &wait, NULL) < 0 && errno != EINTR)
			give_up("ppoll");
		if (fds[0].revents != 0 && !read_rules())
			return;
		for (int i = 1; i < count; i++) {
			ssize_t n = 1;

			if ((fds[i].revents & POLLIN) == 0)
				continue;
			for (int k = 0; n > 0 && k < 64; k++) {
				n = read(fds[i].fd, data, sizeof(data));
				if (n > 0)
					take_packet((i - 1) / rails, (i - 1) % rails, data,
						    (size_t)n);
			}
		}
	}
}

/* --- commands --- */

static int join_host(const char *pid, char **command)
{
	static const struct {
		const char *name;
		int kind;
	} spaces[] = { { "user", CLONE_NEWUSER }, { "net", CLONE_NEWNET } };
	struct stat mine, theirs;
	char path[64];
	int fd;

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/%s/ns/%s", pid, spaces[i].name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &theirs) != 0)
			give_up(path);
		snprintf(path, sizeof(path), "/proc/self/ns/%s", spaces[i].name);
		if (stat(path, &mine) != 0)
			give_up(path);
		if (mine.st_ino != theirs.st_ino && setns(fd, spaces[i].kind) != 0)
			give_up("setns");
		close(fd);
	}
	execvp(command[0], command);
	give_up(command[0]);
	return 77;
}

int main(int argc, char **argv)
{
	if (argc >= 4 && strcmp(argv[1], "join") == 0)
		return join_host(argv[2], argv + 3);
	hosts = argc == 4 ? atoi(argv[2]) : 0;
	rails = argc == 4 ? atoi(argv[3]) : 0;
	if (hosts < 2 || hosts > HOSTS_MAX || rails < 1 || rails > RAILS_MAX) {
		fprintf(stderr, "usage: lab_wire hosts 2..8 1..2 | lab_wire join PID COMMAND...\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_TIMERSLACK, 1000);
	make_hosts();
	carry_packets();
	return 0;
}
