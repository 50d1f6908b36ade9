/*
 * test_group_flaps.c - a network that breaks connections all the time, also in their handshakes and
 * that to the store, while ranks split groups, connect, and run collectives. Nothing may fail, as
 * each connection that broke can be made again. Nor has a rank gone that asks for nothing while its
 * connection to the store breaks.
 */
#include "beside.h"
#include "coll_job.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define ROUNDS   8
#define FDS      256
#define PAUSE_US 4000 /* at most, between two breaks */
/* For each step. A connect of two ranks may fail by each break at either, and is tried 6 times. */
#define BREAKS 2

struct flaps {
	uint64_t state; /* of random numbers */
	_Atomic bool over;
	_Atomic int left; /* breaks */
	int breaks;
	pthread_t thread;
};

static uint64_t seed;

static bool is_connected(int fd)
{
	struct sockaddr_in other;
	socklen_t bytes = sizeof(other), type_bytes = sizeof(int);
	int type;

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) == 0 &&
	       type == SOCK_STREAM &&
	       getpeername(fd, (struct sockaddr *)(void *)&other, &bytes) == 0 &&
	       other.sin_family == AF_INET;
}

static int find_connected(int fds[FDS])
{
	int n = 0;

	for (int fd = 3; fd < FDS; fd++) {
		if (is_connected(fd))
			fds[n++] = fd;
	}
	return n;
}

/* As a network does, with no order to what threads of the process do: TSan does not see these. */
static void break_one(int fd, bool reset)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	if (reset)
		(void)syscall(SYS_connect, fd, &none, sizeof(none));
	else
		(void)syscall(SYS_shutdown, fd, SHUT_RDWR);
}

/* Breaks any connection of this process. */
static void *break_connections(void *arg)
{
	struct flaps *flaps = arg;

	while (!atomic_load(&flaps->over)) {
		int fds[FDS], n;

		usleep((useconds_t)twt_random_below(&flaps->state, PAUSE_US));
		n = find_connected(fds);
		if (n == 0 || atomic_load(&flaps->left) <= 0)
			continue;
		atomic_fetch_sub(&flaps->left, 1);
		break_one(fds[twt_random_below(&flaps->state, (uint64_t)n)],
			  twt_random_below(&flaps->state, 2) == 0);
		flaps->breaks++;
	}
	return NULL;
}

static void play(struct twt_job *job, const void *arg)
{
	struct flaps flaps = { .state = *(const uint64_t *)arg + (uint64_t)job->rank };

	twt_must(pthread_create(&flaps.thread, NULL, break_connections, &flaps) == 0);
	for (int round = 0; round < ROUNDS; round++) {
		struct tow_group *groups[2];

		for (int i = 0; i < 2; i++) {
			atomic_store(&flaps.left, BREAKS);
			twt_must(tow_group_split(i == 0 ? job->group : groups[0], 0, -job->rank,
						 TWT_JOB_WAIT_NS, &groups[i]) == TOW_OK);
		}
		for (int i = 0; i < 2; i++) {
			atomic_store(&flaps.left, BREAKS);
			twt_job_sum(job, groups[i], 20000u << round);
		}
		for (int i = 1; i >= 0; i--)
			twt_must(tow_group_close(groups[i]) == TOW_OK);
	}
	atomic_store(&flaps.over, true);
	twt_must(pthread_join(flaps.thread, NULL) == 0);
	twt_must(flaps.breaks > 0);
	twt_job_sum(job, job->group, 1); /* the last that is said is not cut */
}

/* Those that broke come back by themselves. */
static int await_connected(int fds[FDS])
{
	int n = find_connected(fds);

	for (int i = 0; n == 0 && i < 500; i++) {
		usleep(10000);
		n = find_connected(fds);
	}
	return n;
}

/* Rank 1 computes for longer than the store waits for a rank that has gone. */
static void play_idle(struct twt_job *job, const void *arg)
{
	struct tow_group *group;

	(void)arg;
	for (int i = 0; job->rank == 1 && i < 4; i++) {
		int fds[FDS], n = await_connected(fds);

		twt_must(n > 0);
		while (n > 0)
			break_one(fds[--n], i % 2 == 0);
		usleep(1100000);
	}
	twt_must(tow_group_split(job->group, 0, job->rank, TWT_JOB_WAIT_NS, &group) == TOW_OK);
	twt_must(tow_group_close(group) == TOW_OK);
}

struct row {
	void (*play)(struct twt_job *job, const void *arg);
	int size;
	const char *poller, *encrypt;
};

static const struct row rows[] = {
	{ play_idle, 3, "io_uring", "0" }, { play_idle, 2, "epoll", "1" },
	{ play, 2, "io_uring", "0" },      { play, 3, "epoll", "0" },
	{ play, 4, "io_uring", "0" },      { play, 5, "epoll", "0" },
	{ play, 3, "io_uring", "1" },      { play, 4, "epoll", "1" },
};

static void run(size_t which)
{
	const struct row *row = &rows[which];
	uint64_t state = seed + which * 1000;

	setenv("TOW_POLLER", row->poller, 1);
	setenv("TOW_ENCRYPT", row->encrypt, 1);
	setenv("TOW_JOB_KEY", "a secret of this job: 8d2c9f", 1);
	twt_job_run("tcp", row->size, 0, row->play, &state, NULL);
}

static void test_jobs(void **state)
{
	(void)state;
	twt_beside(sizeof(rows) / sizeof(rows[0]), 3, run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jobs),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
