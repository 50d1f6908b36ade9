/*
 * towrun_start.c - starts the ranks, with their variables, pipes and cores. Each is the leader of a
 * process group.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/towrun/towrun.h"

static int failed_call(const char *what)
{
	fprintf(stderr, "towrun: %s: %s\n", what, strerror(errno));
	return 1;
}

/*
 * Reserves a free port at a loopback address while the job runs: the socket is bound, and does not
 * listen. Both sockets set SO_REUSEADDR, so rank 0 may listen there, and no other process gets the
 * port by chance. Returns 0 and *port_out, or -1.
 */
static int reserve_port(struct sockaddr *at, socklen_t bytes, const in_port_t *port_at,
			unsigned *port_out)
{
	int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, err;

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, at, bytes) < 0 || getsockname(fd, at, &bytes) < 0) {
		err = errno;
		close(fd);
		errno = err;
		return -1;
	}
	*port_out = ntohs(*port_at);
	return 0;
}

/* Chooses the address of the store. IPv6's loopback is for hosts without an IPv4 loopback. */
static int choose_store(void)
{
	struct sockaddr_in four = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	const char *host = "127.0.0.1";
	unsigned port;
	char text[64];

	if (reserve_port((struct sockaddr *)&four, sizeof(four), &four.sin_port, &port) < 0) {
		host = "[::1]";
		if (reserve_port((struct sockaddr *)&six, sizeof(six), &six.sin6_port, &port) < 0)
			return failed_call("a port for the job's store");
	}
	snprintf(text, sizeof(text), "%s:%u", host, port);
	return setenv("TOW_STORE", text, 1) < 0 ? failed_call("TOW_STORE") : 0;
}

/* Makes a key, so that no other process of this machine can join the job. */
static int choose_key(void)
{
	unsigned char bytes[32];
	char text[2 * sizeof(bytes) + 1];

	if (getenv("TOW_JOB_KEY") != NULL || getenv("TOW_JOB_KEY_FILE") != NULL)
		return 0;
	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return failed_call("getrandom");
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return setenv("TOW_JOB_KEY", text, 1) < 0 ? failed_call("TOW_JOB_KEY") : 0;
}

static int set_number(const char *name, long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", value);
	return setenv(name, text, 1) < 0 ? failed_call(name) : 0;
}

static int set_common(const struct options *options)
{
	char job[64];

	/* Stats sockets are named by job and rank, so two jobs of one user need different names. */
	snprintf(job, sizeof(job), "towrun-%ld", (long)getpid());
	if (setenv("TOW_JOB", job, 0) < 0)
		return failed_call("TOW_JOB");
	/* A rank's stderr is a pipe to towrun, which prints its lines, so its warnings are seen. */
	if (isatty(STDERR_FILENO) && setenv("TOW_LOG", "stderr", 0) < 0)
		return failed_call("TOW_LOG");
	if (choose_store() != 0 || choose_key() != 0)
		return 1;
	return set_number("TOW_WORLD_SIZE", options->ranks) != 0 ||
	       set_number("TOW_LOCAL_SIZE", options->ranks) != 0;
}

/* Pins rank i to the i-th group of `cores` allowed CPUs. The groups wrap around. */
static void pin_rank(long rank, long cores)
{
	cpu_set_t ours, its;
	long count, at, seen = 0;

	if (cores == 0 || sched_getaffinity(0, sizeof(ours), &ours) < 0)
		return;
	count = CPU_COUNT(&ours);
	CPU_ZERO(&its);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &ours))
			continue;
		at = (seen - rank * cores % count + count) % count;
		if (at < cores)
			CPU_SET(cpu, &its);
		seen++;
	}
	if (sched_setaffinity(0, sizeof(its), &its) < 0)
		fprintf(stderr, "towrun: rank %ld cannot be pinned: %s\n", rank, strerror(errno));
}

struct pipes {
	int in[2], out[2], err[2], report[2];
};

static void close_pipes(struct pipes *pipes)
{
	int *fds[] = { pipes->in, pipes->out, pipes->err, pipes->report };

	for (size_t i = 0; i < 4; i++) {
		for (int end = 0; end < 2; end++) {
			if (fds[i][end] >= 0)
				close(fds[i][end]);
			fds[i][end] = -1;
		}
	}
}

static int make_pipes(const struct options *options, long rank, struct pipes *pipes)
{
	*pipes = (struct pipes){ { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
	if (pipe2(pipes->report, O_CLOEXEC) < 0 ||
	    (options->tag &&
	     (pipe2(pipes->out, O_CLOEXEC) < 0 || pipe2(pipes->err, O_CLOEXEC) < 0)) ||
	    (rank == 0 && pipe2(pipes->in, O_CLOEXEC) < 0)) {
		close_pipes(pipes);
		return failed_call("pipe");
	}
	return 0;
}

static struct rlimit files_before;

/* Runs in the child, and does not return. */
static void become_rank(const struct options *options, long rank, const struct pipes *pipes,
			pid_t parent)
{
	int in = pipes->in[0] >= 0 ? pipes->in[0] : open("/dev/null", O_RDONLY | O_CLOEXEC);
	int err;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* the parent died before the prctl */
		_exit(1);
	if (in >= 0)
		dup2(in, 0);
	if (options->tag) {
		dup2(pipes->out[1], 1);
		dup2(pipes->err[1], 2);
	}
	if (set_number("TOW_RANK", rank) != 0 || set_number("TOW_LOCAL_RANK", rank) != 0)
		_exit(1);
	pin_rank(rank, options->cores);
	setrlimit(RLIMIT_NOFILE, &files_before);
	restore_signals();
	execvp(options->program[0], options->program);
	err = errno;
	if (write(pipes->report[1], &err, sizeof(err)) < 0)
		_exit(1);
	_exit(127);
}

/* Returns 0 if the program runs: exec closes the pipe, which is then empty. */
static int read_report(const struct options *options, int fd)
{
	int err = 0;
	ssize_t got;

	do
		got = read(fd, &err, sizeof(err));
	while (got < 0 && errno == EINTR);
	if (got != sizeof(err))
		return 0;
	fprintf(stderr, "towrun: cannot run %s: %s\n", options->program[0], strerror(err));
	return err == ENOENT ? 127 : 126;
}

static int start_rank(const struct options *options, long number, struct rank *rank, int *stdin_out)
{
	struct pipes pipes;
	pid_t pid, parent = getpid();
	int status;

	if (make_pipes(options, number, &pipes) != 0)
		return 1;
	pid = fork();
	if (pid == 0)
		become_rank(options, number, &pipes, parent);
	if (pid < 0) {
		close_pipes(&pipes);
		return failed_call("fork");
	}
	setpgid(pid, pid); /* parent and child both call it: either may be first */
	rank->pid = pid;
	guard_add(pid);
	close(pipes.report[1]);
	pipes.report[1] = -1;
	status = read_report(options, pipes.report[0]);
	rank->streams[0].fd = pipes.out[0];
	rank->streams[1].fd = pipes.err[0];
	if (number == 0)
		*stdin_out = pipes.in[1];
	pipes.out[0] = pipes.err[0] = pipes.in[1] = -1;
	close_pipes(&pipes);
	for (int i = 0; i < 2; i++) {
		if (rank->streams[i].fd >= 0)
			fcntl(rank->streams[i].fd, F_SETFL, O_NONBLOCK);
	}
	return status;
}

int start_ranks(const struct options *options, struct rank *ranks, int *stdin_out)
{
	struct rlimit files;
	int status;

	*stdin_out = -1;
	if (getrlimit(RLIMIT_NOFILE, &files_before) == 0) {
		files = files_before;
		files.rlim_cur = files.rlim_max; /* two descriptors for each rank */
		setrlimit(RLIMIT_NOFILE, &files);
	}
	status = set_common(options);
	if (status != 0)
		return status;
	for (long i = 0; i < options->ranks; i++) {
		status = start_rank(options, i, &ranks[i], stdin_out);
		if (status != 0)
			return status;
	}
	if (*stdin_out >= 0)
		fcntl(*stdin_out, F_SETFL, O_NONBLOCK);
	return 0;
}
