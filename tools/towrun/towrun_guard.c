/*
 * towrun_guard.c - kills all that the ranks have started, when SIGKILL or the like ends towrun.
 *
 * In this case the kernel kills the ranks (PR_SET_PDEATHSIG), but not the processes that they have
 * started. So a second process, in a session of its own without a terminal, reads the process
 * groups of the ranks from a pipe. When the pipe ends, it kills these groups.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include "tools/towrun/towrun.h"

static int guard_fd = -1;

static void forget_group(pid_t *groups, size_t *count, pid_t group)
{
	for (size_t i = 0; i < *count; i++) {
		if (groups[i] == group) {
			groups[i] = groups[--*count];
			return;
		}
	}
}

static void run_guard(int fd)
{
	static pid_t groups[RANKS_MAX];
	size_t count = 0;
	pid_t number;

	for (;;) {
		ssize_t got = read(fd, &number, sizeof(number));

		if (got < 0 && errno == EINTR)
			continue;
		if (got != sizeof(number)) /* a write of this size is atomic, so no number is cut */
			break;
		if (number > 0 && count < RANKS_MAX)
			groups[count++] = number;
		else if (number < 0)
			forget_group(groups, &count, -number);
	}
	for (size_t i = 0; i < count; i++)
		kill(-groups[i], SIGKILL);
	_exit(0);
}

int guard_start(void)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0) {
		fprintf(stderr, "towrun: pipe: %s\n", strerror(errno));
		return 1;
	}
	pid = fork();
	if (pid < 0) {
		fprintf(stderr, "towrun: fork: %s\n", strerror(errno));
		return 1;
	}
	if (pid == 0) {
		sigset_t all;
		int null = open("/dev/null", O_RDWR);

		/*
		 * A process that waits for the end of towrun's output must not wait for the guard.
		 */
		for (int i = 0; null >= 0 && i < 3; i++)
			dup2(null, i);
		if (null > 2)
			close(null);
		setsid();
		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, NULL);
		prctl(PR_SET_NAME, "towrun-guard");
		close(ends[1]);
		run_guard(ends[0]);
	}
	close(ends[0]);
	guard_fd = ends[1];
	return 0;
}

/* Writes the number of a process group; a negative number removes the group. */
static void write_guard(pid_t number)
{
	/* Without the guard, the job continues. SIGPIPE is ignored. */
	while (write(guard_fd, &number, sizeof(number)) < 0 && errno == EINTR)
		;
}

void guard_add(pid_t group)
{
	write_guard(group);
}

void guard_remove(pid_t group)
{
	write_guard(-group);
}
