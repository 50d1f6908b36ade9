/*
 * tow_perf.c - measures latency, bandwidth and message rate of two Towline peers.
 *
 * The processes of the two ranks:
 *
 *   (default)    this process is rank 0; rank 1 is a child, forked before any runtime is open,
 *                which sends its address through a pipe
 *   --lane loop  rank 1 is a thread, on the runtime of rank 0
 *   --listen     this process is rank 1, for a rank 0 elsewhere that has --connect
 *   no argument  the same at a port of its own, for one rank 0 after another (tow-perf HOST)
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/common/lanes.h"
#include "bench/perf/perf.h"

#define LOOP_LISTEN  "loop://tow-perf-1"
#define LOOP_CONNECT "loop://tow-perf-0"

/* Runs rank 1 with its own runtime. The address goes to fd, or to stderr when fd is below 0. */
static int run_follower(const struct perf_options *options, const char *address, int fd)
{
	struct perf_side side = { .options = options, .rank = 1 };
	char real[TOW_ADDRESS_MAX] = "";
	int rc;

	if (options->pin)
		perf_pin(side.rank);
	rc = perf_side_open(&side, address);
	if (rc == 0) {
		tow_endpoint_address(side.endpoint, real, sizeof(real));
		if (fd < 0)
			fprintf(stderr, "tow-perf: listening at %s\n", real);
		else if (write(fd, real, sizeof(real)) != (ssize_t)sizeof(real))
			rc = PERF_FAILED;
	}
	if (rc == 0)
		rc = perf_side_accept(&side, options->timeout_ns);
	if (rc == 0)
		rc = perf_follow(&side);
	perf_side_close(&side);
	if (side.runtime != NULL)
		tow_runtime_close(side.runtime);
	return rc;
}

/*
 * Runs rank 1 for one client after another, until it is stopped. A failed client does not end it.
 */
static int run_server(const struct perf_options *options)
{
	struct perf_side side = { .options = options, .rank = 1 };
	int rc;

	if (options->pin)
		perf_pin(side.rank);
	rc = perf_side_open(&side, options->address);
	if (rc == 0)
		printf("tow-perf %s: listening at port %llu; tow-perf HOST measures from another "
		       "host\n",
		       tow_version(), (unsigned long long)options->port);
	fflush(stdout);
	while (rc == 0) {
		int served = perf_side_accept(&side, TOW_FOREVER);

		if (served == 0)
			served = perf_follow(&side);
		printf("a client is through%s\n", served == 0 ? "" : ", not in order");
		fflush(stdout);
		perf_side_part(&side);
		if (options->one) {
			rc = served;
			break;
		}
	}
	perf_side_close(&side);
	if (side.runtime != NULL)
		tow_runtime_close(side.runtime);
	return rc;
}

/* Runs rank 0, whose side is open: measures, reports, and closes the side. */
static int run_leader(struct perf_side *side, const char *address)
{
	const struct perf_options *options = side->options;
	int rc = perf_side_connect(side, address), stats;

	if (rc == 0) {
		perf_report_begin(options);
		rc = perf_lead(side);
		perf_report_end(options, rc == 0);
	}
	if (rc != PERF_FAILED && options->stats) {
		stats = perf_report_stats(side);
		rc = rc != 0 ? rc : stats;
	}
	perf_side_close(side);
	return rc;
}

static int run_connect(const struct perf_options *options, const char *address)
{
	char own[TOW_ADDRESS_MAX];
	struct perf_side side = { .options = options };
	int rc;

	if (options->pin)
		perf_pin(side.rank);
	bench_lane_connecting(address, own);
	rc = perf_side_open(&side, own);
	if (rc == 0)
		rc = run_leader(&side, address);
	if (side.runtime != NULL)
		tow_runtime_close(side.runtime);
	return rc;
}

static void *loop_follower(void *arg)
{
	struct perf_side *side = arg;
	int rc;

	if (side->options->pin)
		perf_pin(side->rank);
	rc = perf_side_accept(side, side->options->timeout_ns);
	if (rc == 0)
		rc = perf_follow(side);
	return (void *)(intptr_t)rc;
}

/* Both endpoints exist before either thread needs the other. */
static int run_loop(const struct perf_options *options)
{
	struct perf_side side = { .options = options }, other = { .options = options, .rank = 1 };
	void *followed = NULL;
	pthread_t thread;
	int rc;

	if (options->pin)
		perf_pin(side.rank);
	rc = perf_side_open(&side, LOOP_CONNECT);
	other.runtime = side.runtime;
	if (rc == 0)
		rc = perf_side_open(&other, LOOP_LISTEN);
	if (rc == 0 && pthread_create(&thread, NULL, loop_follower, &other) != 0) {
		fprintf(stderr, "tow-perf: no thread for rank 1\n");
		rc = PERF_FAILED;
	} else if (rc == 0) {
		rc = run_leader(&side, LOOP_LISTEN);
		pthread_join(thread, &followed);
	}
	perf_side_close(&other);
	perf_side_close(&side);
	if (side.runtime != NULL)
		tow_runtime_close(side.runtime);
	return rc != 0 ? rc : (int)(intptr_t)followed;
}

/* Waits for the child, which has its own time limits. A child that takes longer is killed. */
static int reap_child(pid_t child)
{
	int status = 0;

	for (int tries = 0; tries < 500; tries++) {
		pid_t got = waitpid(child, &status, WNOHANG);

		if (got == child)
			return WIFEXITED(status) ? WEXITSTATUS(status) : PERF_FAILED;
		usleep(10000);
	}
	fprintf(stderr, "tow-perf: rank 1 does not end; stopping it\n");
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return PERF_FAILED;
}

/* Returns whether there is something to read within the time, whatever signals come. */
static bool await_input(int fd, uint64_t timeout_ns)
{
	double left_s = (double)timeout_ns / 1e9, until = perf_now() + left_s;
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	int ready;

	do {
		ready = poll(&wait, 1, (int)(left_s * 1e3));
		left_s = until - perf_now();
	} while (ready < 0 && errno == EINTR && left_s > 0);
	return ready == 1;
}

/* Reads the child's address. When the child failed, it has printed why. */
static int read_address(const struct perf_options *options, int fd, char *address)
{
	if (!await_input(fd, options->timeout_ns) ||
	    TEMP_FAILURE_RETRY(read(fd, address, TOW_ADDRESS_MAX)) != TOW_ADDRESS_MAX) {
		fprintf(stderr, "tow-perf: rank 1 did not start\n");
		return PERF_FAILED;
	}
	address[TOW_ADDRESS_MAX - 1] = '\0';
	return 0;
}

static int run_spawn(const struct perf_options *options)
{
	char address[TOW_ADDRESS_MAX];
	pid_t parent = getpid(), child;
	int fds[2], rc, followed;

	if (pipe(fds) != 0 || (child = fork()) < 0) {
		fprintf(stderr, "tow-perf: no second process: %s\n", strerror(errno));
		return PERF_FAILED;
	}
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[0]);
		if (!bench_lane_address(options->lane, address))
			snprintf(address, sizeof(address), "tow://");
		_exit(getppid() == parent ? run_follower(options, address, fds[1]) : PERF_FAILED);
	}
	close(fds[1]);
	rc = read_address(options, fds[0], address);
	close(fds[0]);
	if (rc == 0)
		rc = run_connect(options, address);
	if (rc == PERF_FAILED)
		kill(child, SIGTERM);
	followed = reap_child(child);
	return rc != 0 ? rc : followed;
}

int main(int argc, char **argv)
{
	struct perf_options options;
	int rc = perf_options_parse(&options, argc, argv);

	if (rc != 0)
		return rc < 0 ? EXIT_SUCCESS : rc;
	signal(SIGPIPE, SIG_IGN);
	if (options.serve)
		return run_server(&options);
	if (options.loop)
		return run_loop(&options);
	if (options.listen != NULL)
		return run_follower(&options, options.listen, -1);
	if (options.connect != NULL)
		return run_connect(&options, options.connect);
	return run_spawn(&options);
}
