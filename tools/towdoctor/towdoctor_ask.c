/*
 * towdoctor_ask.c - questions that no file answers. The answers come from this system, or from a
 * file beside the files of another host.
 */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/io_uring.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/towdoctor/towdoctor.h"

#define LIBRARY_MS  10000
#define LOOPBACK_MS 8000

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Reads until the other end closes, the buffer is full, or the time is over. */
static void drain_pipe(int fd, uint64_t until_ns, char *out, size_t size)
{
	size_t used = 0;

	while (used + 1 < size) {
		struct pollfd poll_fd = { fd, POLLIN, 0 };
		uint64_t now = now_ns();
		ssize_t got;

		if (now >= until_ns)
			break;
		if (poll(&poll_fd, 1, (int)((until_ns - now) / 1000000 + 1)) <= 0)
			continue;
		got = read(fd, out + used, size - 1 - used);
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	out[used] = '\0';
}

/* Waits for a child until until_ns, and then kills it. True: it ended with status 0 by itself. */
static bool reap_child(pid_t child, uint64_t until_ns)
{
	int status = 0;

	while (waitpid(child, &status, WNOHANG) == 0) {
		if (now_ns() >= until_ns) {
			kill(child, SIGKILL);
			waitpid(child, &status, 0);
			return false;
		}
		usleep(1000);
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool in_child(int (*run)(int fd, void *arg), void *arg, unsigned timeout_ms, char *out, size_t size)
{
	const uint64_t until = now_ns() + timeout_ms * 1000000ull;
	int ends[2];
	pid_t child;

	out[0] = '\0';
	if (pipe(ends) != 0)
		return false;
	fflush(NULL);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		_exit(run(ends[1], arg));
	}
	close(ends[1]);
	if (child > 0)
		drain_pipe(ends[0], until, out, size);
	close(ends[0]);
	return child > 0 && reap_child(child, until);
}

static bool ask_io_uring(const char *rest, char *out, size_t size)
{
	struct io_uring_params params = { 0 };
	long fd = syscall(__NR_io_uring_setup, 4, &params);

	(void)rest;
	say(out, size, "%d", fd < 0 ? errno : 0);
	if (fd >= 0)
		close((int)fd);
	return true;
}

/*
 * The child reads its parent, because Yama allows a parent to read its children. Ranks are no
 * parents of each other.
 */
static int read_parent(int fd, void *arg)
{
	uint64_t here = 0;
	struct iovec local = { &here, sizeof(here) }, remote = { arg, sizeof(here) };

	dprintf(fd, "%d",
		process_vm_readv(getppid(), &local, 1, &remote, 1, 0) == (ssize_t)sizeof(here)
			? 0
			: errno);
	return 0;
}

static bool ask_readv(const char *rest, char *out, size_t size)
{
	uint64_t word = 1;

	(void)rest;
	return in_child(read_parent, &word, 1000, out, size);
}

static bool ask_clock(const char *rest, char *out, size_t size)
{
	const unsigned count = 20000;
	uint64_t best = UINT64_MAX;

	(void)rest;
	for (unsigned round = 0; round < 5; round++) {
		uint64_t start = now_ns(), took;

		for (unsigned i = 0; i < count; i++)
			now_ns();
		took = now_ns() - start;
		best = took < best ? took : best;
	}
	say(out, size, "%llu", (unsigned long long)(best / count));
	return true;
}

/* rest: NAME.KIND */
static bool ask_ethtool(const char *rest, char *out, size_t size)
{
	static const struct {
		const char *kind;
		uint32_t command;
	} rows[] = { { "tso", ETHTOOL_GTSO }, { "gso", ETHTOOL_GGSO }, { "gro", ETHTOOL_GGRO } };
	struct ethtool_value value = { 0 };
	struct ifreq request = { 0 };
	const char *dot = strrchr(rest, '.');
	bool asked = false;
	int fd;

	if (dot == NULL || (size_t)(dot - rest) >= sizeof(request.ifr_name))
		return false;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strcmp(rows[i].kind, dot + 1) == 0)
			value.cmd = rows[i].command;
	}
	say(request.ifr_name, sizeof(request.ifr_name), "%.*s", (int)(dot - rest), rest);
	request.ifr_data = (void *)&value;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	if (value.cmd != 0 && ioctl(fd, SIOCETHTOOL, &request) == 0) {
		say(out, size, "%u", value.data != 0);
		asked = true;
	}
	close(fd);
	return asked;
}

/* Returns a line that a child prints. It is asked once, because several checks use it. */
static bool ask_library(const char *rest, char *out, size_t size)
{
	static struct {
		const char *name;
		int (*run)(int fd, void *arg);
		int state; /* 0: not asked yet; 1: answered; -1: failed */
		char text[FOUND_BYTES];
	} rows[] = { { "pool", library_pool, 0, "" },
		     { "ofi", library_ofi, 0, "" },
		     { "gpu", library_gpu, 0, "" } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strcmp(rows[i].name, rest) != 0)
			continue;
		if (rows[i].state == 0)
			rows[i].state = in_child(rows[i].run, NULL, LIBRARY_MS, rows[i].text,
						 sizeof(rows[i].text))
						? 1
						: -1;
		if (rows[i].state < 0)
			say(rows[i].text, sizeof(rows[i].text),
			    "failed: it crashed, or did not answer within %d s", LIBRARY_MS / 1000);
		say(out, size, "%s", rows[i].text);
		return true;
	}
	return false;
}

static bool ask_lane(const char *rest, char *out, size_t size)
{
	char lane[16];

	say(lane, sizeof(lane), "%s", rest);
	if (!in_child(library_lane, lane, LIBRARY_MS, out, size))
		say(out, size, "failed: it crashed, or did not answer within %d s",
		    LIBRARY_MS / 1000);
	return true;
}

static bool ask_loopback(const char *rest, char *out, size_t size)
{
	char lane[16];

	say(lane, sizeof(lane), "%s", rest);
	if (!in_child(loopback_probe, lane, LOOPBACK_MS, out, size) && out[0] == '\0')
		say(out, size, "failed: it did not end within %d s", LOOPBACK_MS / 1000);
	return true;
}

static bool ask_system(const char *key, char *out, size_t size)
{
	static const struct {
		const char *prefix;
		bool (*ask)(const char *rest, char *out, size_t size);
	} rows[] = {
		{ "io_uring_setup", ask_io_uring }, { "process_vm_readv", ask_readv },
		{ "clock_ns", ask_clock },          { "ethtool.", ask_ethtool },
		{ "library.", ask_library },        { "lane.", ask_lane },
		{ "loopback.", ask_loopback },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t bytes = strlen(rows[i].prefix);

		if (strncmp(rows[i].prefix, key, bytes) == 0)
			return rows[i].ask(key + bytes, out, size);
	}
	return false;
}

bool ask(const struct doctor *doctor, const char *key, char *out, size_t size)
{
	const size_t bytes = strlen(key);
	char text[8192];

	out[0] = '\0';
	if (doctor->live)
		return ask_system(key, out, size);
	root_text(doctor, text, sizeof(text), "/towdoctor.answers");
	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, bytes) != 0 || line[bytes] != ' ')
			continue;
		line += bytes + 1;
		say(out, size, "%.*s", (int)strcspn(line, "\n"), line);
		return true;
	}
	return false;
}

bool ask_number(const struct doctor *doctor, const char *key, int64_t *out)
{
	char text[64], *end;

	if (!ask(doctor, key, text, sizeof(text)))
		return false;
	errno = 0;
	*out = strtoll(text, &end, 10);
	return end != text && errno == 0;
}
