/*
 * test_ipv6_only.c - a host that has no IPv4 address, not even on loopback: towrun, and jobs that
 * find rank 0 by an exchange of their own, by which it tells the addresses that it has itself.
 */
#include "twt.h"

#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/towline.h>

#define LIMIT_NS 20000000000ull
#define RANKS    3

static struct twt_command command;

/* Leaves this process with IPv6 alone. False: the system lets no one have a network of its own. */
static bool leave_ipv4(void)
{
	if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		return false;
	return system("exec 2>/dev/null; ip link set lo up && ip -4 addr flush dev lo && "
		      "ip -6 addr show dev lo | grep -q ::1 && ! ip -4 addr | grep -q inet") == 0;
}

static void towrun(void **state)
{
	(void)state;
	twt_command("@/tools/towrun/towrun -n 3 --timeout 60 @/tests/group_program all", &command);
	twt_command_expect(&command, 0, "all well", 3);
	twt_command("TOW_LANES=tcp @/tools/towrun/towrun -n 3 --timeout 60 @/tests/group_program "
		    "all",
		    &command);
	twt_command_expect(&command, 0, "all well", 3);
}

/* The exchange is a pipe, of which one value is read for each other rank. */
static int pipes[2];

static int pipe_put(void *user, const char *key, const void *value, size_t bytes)
{
	char text[2048] = "";

	(void)user;
	(void)key;
	memcpy(text, value, bytes);
	for (int i = 1; i < RANKS; i++) {
		if (write(pipes[1], text, sizeof(text)) != (ssize_t)sizeof(text))
			return TOW_ESYSTEM;
	}
	return TOW_OK;
}

static int pipe_get(void *user, const char *key, void *value_out, size_t room, size_t *bytes_out,
		    uint64_t timeout_ns)
{
	char text[2048];

	(void)user;
	(void)key;
	(void)timeout_ns;
	if (read(pipes[0], text, sizeof(text)) != (ssize_t)sizeof(text))
		return TOW_ESYSTEM;
	*bytes_out = strlen(text);
	memcpy(value_out, text, *bytes_out < room ? *bytes_out : room);
	return TOW_OK;
}

static int play_rank(int rank)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_group_options where = TOW_GROUP_OPTIONS_INIT;
	struct tow_runtime *runtime;
	struct tow_group *group;

	options.premap_memory_bytes = 4 << 20;
	where.rank = rank;
	where.world_size = RANKS;
	where.timeout_ns = LIMIT_NS;
	where.put = pipe_put;
	where.get = pipe_get;
	if (tow_runtime_open(&options, &runtime) == TOW_OK &&
	    tow_group_open(runtime, &where, &group) == TOW_OK &&
	    tow_group_barrier(group, LIMIT_NS) == TOW_OK && tow_group_close(group) == TOW_OK &&
	    tow_runtime_close(runtime) == TOW_OK)
		return 0;
	fprintf(stderr, "rank %d: %s\n", rank, tow_error_message());
	return 1;
}

/* local_size is what a launcher says; where it is the job's, rank 0 listens on loopback alone. */
static void play_job(const char *local_size)
{
	pid_t ranks[RANKS];

	assert_int_equal(pipe(pipes), 0);
	for (int i = 0; i < RANKS; i++) {
		ranks[i] = fork();
		assert_true(ranks[i] >= 0);
		if (ranks[i] == 0) {
			if (local_size != NULL)
				setenv("TOW_LOCAL_SIZE", local_size, 1);
			_exit(play_rank(i));
		}
	}
	for (int i = 0; i < RANKS; i++) {
		int status;

		assert_int_equal(waitpid(ranks[i], &status, 0), ranks[i]);
		assert_int_equal(status, 0);
	}
	close(pipes[0]);
	close(pipes[1]);
}

static void exchange(void **state)
{
	(void)state;
	play_job(NULL);
	play_job("3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(towrun),
		cmocka_unit_test(exchange),
	};

	if (!leave_ipv4()) {
		printf("skipped: no network of one's own with IPv6 alone is to be had here\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
