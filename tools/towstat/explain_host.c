/*
 * explain_host.c - see explain_host.h.
 */
#include "tools/towstat/explain_host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/http_unix.h"
#include "tools/towstat/towstat.h"

#define ANSWER_BYTES (1u << 18)
#define PATIENCE_MS  5000
#define SPARE_MS     5

/*
 * The checks that concern a running job. Checks that only its start needs are left out (free
 * memory, huge pages, ports, names), and so are checks that need a measurement.
 */
#define OF_ANY_JOB "memlock,cgroup_memory,numa,files,cpu_quota,cpuset,governor"
#define OF_NETWORK                                                                                 \
	",io_uring,tcp_rmem,tcp_wmem,socket_buffers,congestion,window_scaling,timestamps,sack,"    \
	"slow_start,mtu_probing,device_backlog,interfaces,routes,mtu,offloads"

/* Sets or unsets a knob that towdoctor uses. The environment of towstat is not that of the job. */
static void set_knob(const json_t *knobs, const char *knob, const char *variable)
{
	const json_t *value = json_object_get(knobs, knob);
	char number[32];

	unsetenv(variable);
	if (json_is_string(value) && json_string_length(value) > 0)
		setenv(variable, json_string_value(value), 1);
	if (!json_is_integer(value) || json_integer_value(value) <= 0)
		return;
	snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
	setenv(variable, number, 1);
}

/* Runs in the child and does not return. */
static void become_doctor(const struct host_question *question, int out_fd)
{
	char folder[PATH_MAX], beside[PATH_MAX + 16], pid[24];
	char *argv[] = { (char[]){ "towdoctor" },
			 (char[]){ "--no-probe" },
			 (char[]){ "--json" },
			 (char[]){ "--only" },
			 question->network ? (char[]){ OF_ANY_JOB OF_NETWORK }
					   : (char[]){ OF_ANY_JOB },
			 (char[]){ "--pid" },
			 pid,
			 NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out_fd, STDOUT_FILENO) < 0 ||
	    dup2(null, STDERR_FILENO) < 0)
		_exit(127);
	set_knob(question->knobs, "premap_memory_bytes", "TOW_PREMAP_MEMORY_BYTES");
	set_knob(question->knobs, "socket_buffer_bytes", "TOW_SOCKET_BUFFER_BYTES");
	set_knob(question->knobs, "interfaces", "TOW_INTERFACES");
	set_knob(question->knobs, "numa", "TOW_NUMA");
	snprintf(pid, sizeof(pid), "%ld", question->pid);
	own_folder(folder);
	snprintf(beside, sizeof(beside), "%s/towdoctor", folder);
	if (folder[0] != '\0')
		execv(beside, argv);
	execvp("towdoctor", argv);
	_exit(127);
}

/*
 * Reads the output until its end or until the time is over. Returns the bytes; `room` when they are
 * too many or the time is over.
 */
static size_t drain_answer(int fd, long long until_ms, char *out, size_t room)
{
	size_t used = 0;

	while (used < room) {
		struct pollfd polled = { fd, POLLIN, 0 };
		long long left = until_ms - http_now_ms();
		ssize_t got;

		if (left <= 0)
			return room;
		if (poll(&polled, 1, (int)left) <= 0)
			continue;
		got = read(fd, out + used, room - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	return used;
}

/* Its exit status; -1: it was killed. */
static int reap_doctor(pid_t child, long long until_ms)
{
	int status = 0;
	pid_t done;

	while ((done = waitpid(child, &status, WNOHANG)) == 0 && http_now_ms() < until_ms)
		nap(SPARE_MS / 1e3);
	if (done == child)
		return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return -1;
}

static int run_doctor(const struct host_question *question, char *text, size_t room,
		      size_t *bytes_out)
{
	long long until_ms = http_now_ms() + PATIENCE_MS;
	int ends[2];
	pid_t child;

	*bytes_out = 0;
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	fflush(NULL);
	child = fork();
	if (child == 0)
		become_doctor(question, ends[1]);
	close(ends[1]);
	if (child > 0)
		*bytes_out = drain_answer(ends[0], until_ms, text, room);
	close(ends[0]);
	return child > 0 ? reap_doctor(child, until_ms) : -1;
}

json_t *ask_doctor(const struct host_question *question, char *why_out, size_t why_size)
{
	char *text = malloc(ANSWER_BYTES);
	json_t *root = NULL, *checks;
	size_t bytes = 0;
	int status = -1;

	if (text != NULL)
		status = run_doctor(question, text, ANSWER_BYTES, &bytes);
	if (status >= 0 && bytes < ANSWER_BYTES)
		root = json_loadb(text, bytes, 0, NULL);
	free(text);
	checks = json_incref(json_object_get(root, "checks"));
	json_decref(root);
	if (json_is_array(checks))
		return checks;
	json_decref(checks);
	if (status == 127)
		snprintf(why_out, why_size, "there is no towdoctor beside towstat, nor in PATH");
	else
		snprintf(why_out, why_size,
			 "towdoctor has ended with status %d, or has not ended in %d s", status,
			 PATIENCE_MS / 1000);
	return NULL;
}
