/*
 * verdict_join.c - the verdict on ranks of this host that no group joins.
 *
 * Each rank is asked twice for its state, and all states are judged here
 * (tools/verdict/verdict_states.h). The ranks are asked one after the other, because each answer is
 * also a reading of the rank's clock. A stopped rank costs LOOK_MS once.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/http_unix.h"
#include "tools/towstat/towstat.h"
#include "tools/verdict/verdict_states.h"

#define LOOK_MS     1000
#define BETWEEN_S   0.4
#define STATE_BYTES 65536
#define ALL_NS      20000000000ull /* limit of one look at all ranks */

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The state of a process from /proc; 0: it cannot be seen. */
static char state_of_process(uint64_t pid)
{
	char path[48], text[512], state = 0;
	const char *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strrchr(text, ')');
	if (at != NULL && at[1] == ' ')
		state = at[2];
	return state;
}

long pid_of_listener(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred who;
	socklen_t bytes = sizeof(who);
	long pid = 0;

	if (strlen(path) < sizeof(address.sun_path))
		memcpy(address.sun_path, path, strlen(path) + 1);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0)
		pid = who.pid;
	if (fd >= 0)
		close(fd);
	return pid > 0 ? pid : 0;
}

/* Identifies the process that listens at the socket of a rank that does not answer. */
static void see_process(const char *path, struct states_rank *rank)
{
	rank->pid = (uint64_t)pid_of_listener(path);
	if (rank->pid > 0)
		rank->process_state = state_of_process(rank->pid);
}

static void ask_state(const char *path, struct states_look *look, struct http_answer *answer)
{
	const struct http_limits limits = { .timeout_ms = LOOK_MS, .bytes_max = STATE_BYTES };
	char error[256];

	look->asked_ns = clock_ns();
	if (http_get_within(path, "/v1/state", &limits, answer, error, sizeof(error)) != 0)
		return;
	look->came_ns = clock_ns();
	if (answer->status != 200)
		return;
	look->bytes = (const unsigned char *)answer->body;
	look->count = answer->bytes;
}

/* Asks all ranks that answered the look before. */
static void look_at_all(const struct runtime_list *targets, struct states_rank *ranks,
			struct http_answer *answers, unsigned which)
{
	uint64_t until_ns = clock_ns() + ALL_NS;

	for (size_t i = 0; i < targets->count && clock_ns() < until_ns; i++)
		if (which == 0 || ranks[i].looks[0].bytes != NULL)
			ask_state(targets->rows[i].path, &ranks[i].looks[which], &answers[i]);
}

static json_t *judge_states(const struct runtime_list *targets, struct states_rank *ranks,
			    struct http_answer *answers)
{
	json_t *document;
	char *text;

	look_at_all(targets, ranks, answers, 0);
	if (!states_are_joined(ranks, targets->count))
		return NULL;
	nap(BETWEEN_S);
	look_at_all(targets, ranks, answers + targets->count, 1);
	for (size_t i = 0; i < targets->count; i++)
		if (ranks[i].looks[0].bytes == NULL)
			see_process(targets->rows[i].path, &ranks[i]);
	text = states_verdict(ranks, targets->count);
	document = text != NULL ? json_loads(text, 0, NULL) : NULL;
	free(text);
	return document;
}

json_t *join_verdict(const struct runtime_list *targets)
{
	struct states_rank *ranks = calloc(targets->count, sizeof(*ranks));
	struct http_answer *answers = calloc(2 * targets->count, sizeof(*answers));
	json_t *document = NULL;

	if (ranks != NULL && answers != NULL) {
		for (size_t i = 0; i < targets->count; i++) {
			struct runtime_name name;

			runtime_name_of(targets->rows[i].name, &name);
			ranks[i].rank = (uint32_t)name.rank;
		}
		document = judge_states(targets, ranks, answers);
		for (size_t i = 0; i < 2 * targets->count; i++)
			http_answer_fini(&answers[i]);
	}
	free(answers);
	free(ranks);
	return document;
}
