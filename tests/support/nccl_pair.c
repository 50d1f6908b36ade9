/*
 * nccl_pair.c - see nccl_pair.h.
 */
#include "nccl_pair.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bytes.h"
#include "twt_random.h"

#define PLUGIN "plugins/nccl/libnccl-net-towline.so"

double twt_nccl_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const char *twt_nccl_lane(size_t index)
{
	/* Two processes have no part in a lane that joins endpoints of one runtime. */
	static const struct {
		const char *address;
		bool one_runtime;
	} lanes[] = {
#define TWT_LANE(name, here, there, one, pair_one) { here, one },
#define TWT_VARIANT(...)
#include "lanes.def"
#undef TWT_LANE
#undef TWT_VARIANT
	};

	for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++)
		if (!lanes[i].one_runtime && index-- == 0)
			return lanes[i].address;
	return NULL;
}

bool twt_nccl_missed(const struct twt_nccl_side *side, const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: side %d, table %d, %s%s: not so: %s\n", file, line, side->side,
		side->net.version, side->run->lane, side->run->threads ? ", threads" : "", what);
	return false;
}

bool twt_nccl_exchange(const struct twt_nccl_side *side, const void *mine, void *theirs,
		       size_t bytes)
{
	size_t got = 0;

	if (send(side->fd, mine, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		return false;
	while (got < bytes) {
		ssize_t n = read(side->fd, (char *)theirs + got, bytes - got);

		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return true;
}

bool twt_nccl_meet(const struct twt_nccl_side *side)
{
	char mine = 0, theirs;

	return twt_nccl_exchange(side, &mine, &theirs, 1);
}

/* Where each side waits for the other, two that spin keep the cores from what they wait for. */
void twt_nccl_give_way(void)
{
	usleep(20);
}

bool twt_nccl_connect(struct twt_nccl_side *side, void **send, void **recv)
{
	char mine[NCCL_HANDLE_BYTES] = { 0 }, theirs[NCCL_HANDLE_BYTES];
	double begin = twt_nccl_now();
	void *listening = NULL;

	*send = *recv = NULL;
	TWT_NEED(side, net_listen(&side->net, side->context, 0, mine, &listening) == 0);
	TWT_NEED(side, twt_nccl_exchange(side, mine, theirs, sizeof(mine)));
	while (*send == NULL || *recv == NULL) {
		if (*send == NULL)
			TWT_NEED(side, net_connect(&side->net, side->context, 0, theirs, send) ==
					       NCCL_SUCCESS);
		if (*recv == NULL)
			TWT_NEED(side, net_accept(&side->net, listening, recv) == NCCL_SUCCESS);
		TWT_NEED(side, twt_nccl_now() - begin < TWT_NCCL_WAIT_S);
		if (*send == NULL || *recv == NULL)
			twt_nccl_give_way();
	}
	TWT_NEED(side, net_close_listen(&side->net, listening) == NCCL_SUCCESS);
	return true;
}

bool twt_nccl_close(struct twt_nccl_side *side, void *send, void *recv)
{
	/* Nobody closes while the other side still waits for a message of his. */
	TWT_NEED(side, twt_nccl_meet(side));
	TWT_NEED(side, net_close_send(&side->net, send) == NCCL_SUCCESS);
	TWT_NEED(side, net_close_recv(&side->net, recv) == NCCL_SUCCESS);
	return true;
}

void *twt_nccl_post_send(struct twt_nccl_side *side, void *comm, void *data, size_t bytes, int tag)
{
	double begin = twt_nccl_now();
	void *request = NULL;

	while (request == NULL && twt_nccl_now() - begin < TWT_NCCL_WAIT_S)
		if (net_send(&side->net, comm, data, bytes, tag, NULL, &request) != NCCL_SUCCESS)
			return NULL;
	return request;
}

void *twt_nccl_post_recv(struct twt_nccl_side *side, void *comm, void *data, size_t bytes, int tag)
{
	void *request = NCCL_OPTIONAL_COMPLETION, *region = NULL;
	double begin = twt_nccl_now();

	do {
		if (net_recv(&side->net, comm, 1, &data, &bytes, &tag, &region, &request) !=
		    NCCL_SUCCESS)
			return NULL;
	} while (request == NULL && twt_nccl_now() - begin < TWT_NCCL_WAIT_S);
	return request;
}

bool twt_nccl_wait(struct twt_nccl_side *side, void *request, int *sizes)
{
	double begin = twt_nccl_now();
	int done = 0;

	TWT_NEED(side, request != NULL);
	for (int i = 1; done == 0; i++) {
		TWT_NEED(side, net_test(&side->net, request, &done, sizes) == NCCL_SUCCESS);
		if (i % 64 == 0)
			sched_yield();
		TWT_NEED(side, i % 64 != 0 || twt_nccl_now() - begin < TWT_NCCL_WAIT_S);
	}
	return true;
}

void twt_nccl_fill(void *data, size_t bytes, uint64_t which)
{
	twt_fill(data, bytes, which + 1); /* of seed 0 it would begin with zeros */
}

bool twt_nccl_is(const void *data, size_t bytes, uint64_t which)
{
	return twt_same(data, bytes, which + 1);
}

__attribute__((format(printf, 5, 6))) static void
show_line(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	va_list arguments;

	if (getenv("TOW_TEST_NCCL_LOG") == NULL)
		return;
	va_start(arguments, format);
	fprintf(stderr, "%s:%d: %d/%lu: ", file, line, level, flags);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
}

static bool side_play(struct twt_nccl_side *side)
{
	nccl_logger logger = side->run->logger != NULL ? side->run->logger : show_line;

	if (side->run->bare)
		return side->run->part(side);
	TWT_NEED(side, net_init(&side->net, &side->context, 7, logger) == NCCL_SUCCESS);
	TWT_NEED(side, side->run->part(side));
	if (side->loose)
		return true;
	TWT_NEED(side, twt_nccl_meet(side));
	TWT_NEED(side, net_finalize(&side->net, side->context) == NCCL_SUCCESS);
	return true;
}

static void *play_thread(void *arg)
{
	struct twt_nccl_side *side = arg;

	if (side_play(side))
		return side;
	shutdown(side->fd, SHUT_RDWR); /* so that the other one does not wait */
	return NULL;
}

/* In a process of its own. `side`: both of them where they are threads. */
static int play_process(const struct twt_nccl_run *run, int number, int pair[2])
{
	struct twt_nccl_side sides[2] = { { .side = 0 }, { .side = 1 } };
	const char *build = getenv("TOW_TEST_BUILD");
	char path[512];
	pthread_t other;
	void *well;
	bool good;

	/* cmocka's handlers would go on with its tests, in this process. */
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	signal(SIGABRT, SIG_DFL);
	setenv("NCCL_SOCKET_IFNAME", run->interface != NULL ? run->interface : "lo", 1);
	setenv("TOW_NCCL_LANE", run->lane, 1);
	/* NCCL takes nothing of the pool, and each connection over shm maps all of it. */
	setenv("TOW_PREMAP_MEMORY_BYTES", "4MiB", 0);
	snprintf(path, sizeof(path), "%s/" PLUGIN, build != NULL ? build : ".");
	for (int i = 0; i < 2; i++) {
		sides[i].fd = pair[i];
		sides[i].seed = run->seed;
		sides[i].random = run->seed + (uint64_t)i;
		sides[i].run = run;
		if (net_load(&sides[i].net, path, run->version) < 0)
			return 1;
	}
	if (!run->threads) {
		close(pair[1 - number]);
		return side_play(&sides[number]) ? 0 : 1;
	}
	if (pthread_create(&other, NULL, play_thread, &sides[1]) != 0)
		return 1;
	good = play_thread(&sides[0]) != NULL;
	pthread_join(other, &well);
	return good && well != NULL ? 0 : 1;
}

/* Tables without finalize leave their runtime open, where a leak checker sees lost memory. */
static void end_process(const struct twt_nccl_run *run, int status)
{
	fflush(NULL);
	if (run->version < 11)
		_exit(status);
	exit(status);
}

bool twt_nccl_run(const struct twt_nccl_run *run)
{
	int count = run->threads ? 1 : 2, pair[2], status;
	pid_t child[2];
	bool good = true;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return false;
	fflush(NULL);
	for (int i = 0; i < count; i++) {
		child[i] = fork();
		if (child[i] == 0)
			end_process(run, play_process(run, i, pair));
	}
	close(pair[0]);
	close(pair[1]);
	for (int i = 0; i < count; i++) {
		if (waitpid(child[i], &status, 0) != child[i])
			return false;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			good &= i == 1 && run->one_may_die;
	}
	return good;
}
