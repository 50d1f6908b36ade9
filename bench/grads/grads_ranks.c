/*
 * grads_ranks.c - a process for each rank.
 *
 * All processes are forked before any runtime is open. They meet at a port of loopback that was
 * chosen before, and report their results through one pipe. Rank 0, which is the program itself,
 * prints the report of all.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/grads/grads.h"

static int write_outcome(int fd, const void *data, size_t bytes)
{
	if (write(fd, data, bytes) == (ssize_t)bytes)
		return 0;
	fprintf(stderr, "tow-grads: rank 0 has gone\n");
	return GRADS_FAILED;
}

/* Makes the plan of one rank, and runs it until its steps are over. */
static int run_rank(struct grads_rank *rank, const struct strategy_plan *plan)
{
	int rc = 0;

	rank->plan = *plan;
	rank->outcome.rank = rank->rank;
	strategy_become(&rank->plan, (uint32_t)rank->rank);
	if (strategy_make(&rank->plan, rank->work) != 0)
		rc = grads_failed(rank->rank, "the plan of a step", TOW_ENOMEM);
	if (rc == 0)
		rc = grads_rank_open(rank);
	if (rc == 0 && rank->rank == 0)
		grads_report_head(rank);
	if (rc == 0)
		rc = grads_rank_fits(rank) ? grads_rank_run(rank) : grads_walk_run(rank);
	rank->outcome.code = rc;
	return rc;
}

static void linger_on(const struct grads_options *options, int rc)
{
	if (rc == 0 && options->linger_s > 0)
		usleep((useconds_t)(options->linger_s * 1e6));
}

static int run_child(const struct grads_options *options, const struct workload *work,
		     const struct strategy_plan *plan, int number, int fd)
{
	struct grads_rank rank = { .options = options, .work = work, .rank = number };
	int rc = run_rank(&rank, plan);
	int said = write_outcome(fd, &rank.outcome, sizeof(rank.outcome));

	linger_on(options, rc);
	grads_rank_close(&rank);
	return rc != 0 ? rc : said;
}

/*
 * Reads the results of a child, within the time limit. They are smaller than the atomic size of a
 * pipe, so they come whole.
 */
static int read_outcome(const struct grads_options *options, int fd, void *data, size_t bytes)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	if (poll(&wait, 1, (int)(options->timeout_ns / 1000000)) == 1 &&
	    TEMP_FAILURE_RETRY(read(fd, data, bytes)) == (ssize_t)bytes)
		return 0;
	fprintf(stderr, "tow-grads: a rank failed\n");
	return GRADS_FAILED;
}

/* Reads the results of all children, in any order. */
static int read_outcomes(const struct grads_options *options, int fd, struct grads_outcome *outcome,
			 uint32_t ranks)
{
	int rc = 0;

	for (uint32_t i = 1; i < ranks && rc == 0; i++) {
		struct grads_outcome one;

		rc = read_outcome(options, fd, &one, sizeof(one));
		if (rc == 0 && one.rank > 0 && (uint32_t)one.rank < ranks)
			outcome[one.rank] = one;
		if (rc == 0)
			rc = one.code;
	}
	return rc;
}

static int run_parent(const struct grads_options *options, const struct workload *work,
		      const struct strategy_plan *plan, int fd)
{
	struct grads_rank rank = { .options = options, .work = work };
	struct grads_outcome outcome[GRADS_RANKS] = { { 0 } };
	int rc = run_rank(&rank, plan);

	if (rc == 0)
		rc = read_outcomes(options, fd, outcome, strategy_ranks(plan));
	outcome[0] = rank.outcome;
	if (rc == 0) {
		grads_report_run(&rank, outcome);
		grads_report_library(&rank);
	}
	linger_on(options, rc);
	grads_rank_close(&rank);
	return rc;
}

/* Waits for a child, which has its own time limits. A child that takes longer is killed. */
static int reap_child(pid_t child, int rank, double seconds)
{
	int status = 0;

	for (double waited = 0; waited < seconds; waited += 0.01) {
		if (waitpid(child, &status, WNOHANG) == child)
			return WIFEXITED(status) ? WEXITSTATUS(status) : GRADS_FAILED;
		usleep(10000);
	}
	fprintf(stderr, "tow-grads: rank %d does not end; stopping it\n", rank);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return GRADS_FAILED;
}

/* Chooses a free port of loopback, which stays ours while the ranks run (see towrun_start.c). */
static int choose_store(struct grads_options *options)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &bytes) < 0) {
		fprintf(stderr, "tow-grads: no free port for the ranks: %s\n", strerror(errno));
		return GRADS_FAILED;
	}
	snprintf(options->store, sizeof(options->store), "127.0.0.1:%u", ntohs(at.sin_port));
	return 0;
}

/* Refuses a job that needs more memory than the machine has, as the kernel would kill it. */
static int check_memory(const struct grads_options *options, const struct workload *work,
			const struct strategy_plan *plan)
{
	uint64_t have = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t need = 0;

	for (uint32_t rank = 0; rank < strategy_ranks(plan) && need < have; rank++) {
		struct strategy_plan one = *plan;

		strategy_become(&one, rank);
		if (strategy_make(&one, work) == 0)
			need += grads_premap(&one, options->lane);
		strategy_free(&one);
	}
	if (need < have)
		return 0;
	fprintf(stderr,
		"tow-grads: %u ranks need %.1f GB or more, this machine has %.1f GB: --tensors N "
		"takes fewer\n",
		strategy_ranks(plan), (double)need / 1e9, (double)have / 1e9);
	return GRADS_FAILED;
}

/* A child's wrong payload counts more than rank 0's failure that follows from it. */
static int reap_all(const pid_t *child, uint32_t count, int rc, double seconds)
{
	int worst = 0;

	for (uint32_t i = 0; i < count; i++) {
		int ended = reap_child(child[i], (int)i + 1, seconds);

		if (worst == 0 || ended == GRADS_MISMATCH)
			worst = ended;
	}
	return rc == 0 || worst == GRADS_MISMATCH ? worst : rc;
}

static int fork_children(const struct grads_options *options, const struct workload *work,
			 const struct strategy_plan *plan, const int fds[2], pid_t *child,
			 uint32_t *count_out)
{
	pid_t parent = getpid();

	for (*count_out = 0; *count_out + 1 < strategy_ranks(plan); ++*count_out) {
		pid_t pid = fork();

		if (pid < 0) {
			fprintf(stderr, "tow-grads: no process for rank %u: %s\n", *count_out + 1,
				strerror(errno));
			return GRADS_FAILED;
		}
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(fds[0]);
			_exit(getppid() == parent
				      ? run_child(options, work, plan, (int)*count_out + 1, fds[1])
				      : GRADS_FAILED);
		}
		child[*count_out] = pid;
	}
	return 0;
}

int grads_ranks_run(struct grads_options *options, const struct workload *work,
		    const struct strategy_plan *plan)
{
	pid_t child[GRADS_RANKS];
	uint32_t count = 0;
	int fds[2], rc = check_memory(options, work, plan);

	if (rc == 0)
		rc = choose_store(options);
	if (rc == 0 && pipe(fds) != 0) {
		fprintf(stderr, "tow-grads: no pipe: %s\n", strerror(errno));
		rc = GRADS_FAILED;
	}
	if (rc != 0)
		return rc;
	rc = fork_children(options, work, plan, fds, child, &count);
	close(fds[1]);
	if (rc == 0)
		rc = run_parent(options, work, plan, fds[0]);
	close(fds[0]);
	return reap_all(child, count, rc, rc == GRADS_FAILED ? 3 : 10 + options->linger_s);
}
