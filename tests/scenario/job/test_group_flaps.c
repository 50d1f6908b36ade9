/*
 * test_group_flaps.c - a network that breaks connections all the time, also in their handshakes and
 * that to the store, while ranks split groups, connect, and run collectives. Nothing may fail, as
 * each connection that broke can be made again.
 */
#include "beside.h"
#include "coll_job.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#define ROUNDS   4
#define FDS      256
#define PAUSE_US 4000 /* at most, between two breaks */

struct flaps {
	uint64_t state; /* of random numbers */
	_Atomic bool over;
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

/* Breaks any connection of this process: by a reset, or by an end. */
static void *break_connections(void *arg)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct flaps *flaps = arg;

	while (!atomic_load(&flaps->over)) {
		int fds[FDS], n = 0, fd;

		usleep((useconds_t)twt_random_below(&flaps->state, PAUSE_US));
		for (fd = 3; fd < FDS; fd++) {
			if (is_connected(fd))
				fds[n++] = fd;
		}
		if (n == 0)
			continue;
		fd = fds[twt_random_below(&flaps->state, (uint64_t)n)];
		if (twt_random_below(&flaps->state, 2) == 0)
			(void)connect(fd, &none, sizeof(none));
		else
			(void)shutdown(fd, SHUT_RDWR);
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

		for (int i = 0; i < 2; i++)
			twt_must(tow_group_split(i == 0 ? job->group : groups[0], 0, -job->rank,
						 TWT_JOB_WAIT_NS, &groups[i]) == TOW_OK);
		for (int i = 0; i < 2; i++)
			twt_job_sum(job, groups[i], 20000u << round * 2);
		for (int i = 1; i >= 0; i--)
			twt_must(tow_group_close(groups[i]) == TOW_OK);
	}
	atomic_store(&flaps.over, true);
	twt_must(pthread_join(flaps.thread, NULL) == 0);
	twt_must(flaps.breaks > 0);
	twt_job_sum(job, job->group, 1); /* the last that is said is not cut */
}

struct row {
	int size;
	const char *poller, *encrypt;
};

static const struct row rows[] = {
	{ 2, "io_uring", "0" }, { 3, "epoll", "0" },    { 4, "io_uring", "0" },
	{ 5, "epoll", "0" },    { 3, "io_uring", "1" }, { 4, "epoll", "1" },
};

static void run(size_t which)
{
	const struct row *row = &rows[which];
	uint64_t state = seed + which * 1000;

	setenv("TOW_POLLER", row->poller, 1);
	setenv("TOW_ENCRYPT", row->encrypt, 1);
	setenv("TOW_JOB_KEY", "a secret of this job: 8d2c9f", 1);
	twt_job_run("tcp", row->size, 0, play, &state, NULL);
}

static void test_jobs(void **state)
{
	(void)state;
	twt_beside(sizeof(rows) / sizeof(rows[0]), 2, run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jobs),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
