/*
 * test_towstat_ras.c - towstat ras over a living job of two ranks: what NCCL's own client and the
 * watchers send, what is said of a rank that is stopped, of one that has died, to who monitors; and
 * clients that send too much, nothing, or do not read.
 */
#include "twt.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"

#define RANKS    2
#define PATIENCE 30 /* s, for whatever is waited for */
#define CLIENTS  16 /* that are served at a time */
#define ANSWER   (1u << 20)

static char dir[64];
static struct twt_command command;

static struct fixture {
	pid_t job, ras;
	FILE *said; /* by towstat */
	int port;
	long pids[RANKS];
} fixture;

static const char *build_folder(void)
{
	const char *build = getenv("TOW_TEST_BUILD");

	return build != NULL ? build : ".";
}

/* A job that reduces until its towrun is told to end. */
static pid_t start_job(void)
{
	char towrun[512], program[512];
	pid_t pid;

	snprintf(towrun, sizeof(towrun), "%s/tools/towrun/towrun", build_folder());
	snprintf(program, sizeof(program), "%s/tests/group_program", build_folder());
	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setenv("TOW_JOB", "ras", 1);
		if (freopen("/dev/null", "w", stdout) == NULL ||
		    dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
			_exit(126);
		execl(towrun, "towrun", "-n", "2", "--grace", "1", program, "reduce", NULL);
		_exit(127);
	}
	return pid;
}

static void await_job(void)
{
	for (int turn = 0; turn < 10 * PATIENCE; turn++) {
		json_t *rows, *row;
		size_t i;

		twt_command("@/tools/towstat/towstat get /v1/info --job ras --select pid",
			    &command);
		rows = json_loads(command.text, 0, NULL);
		json_array_foreach(rows, i, row)
		{
			if (i < RANKS)
				fixture.pids[i] =
					(long)json_integer_value(json_object_get(row, "document"));
		}
		i = json_array_size(rows);
		json_decref(rows);
		if (command.status == 0 && i == RANKS)
			return;
		usleep(100000);
	}
	fail_msg("the job did not come up: %s", command.text);
}

/* "towstat: speaks RAS for ras at 127.0.0.1, port N; ..." */
static void start_ras(void)
{
	char towstat[512], line[256];
	const char *port;
	int ends[2];

	snprintf(towstat, sizeof(towstat), "%s/tools/towstat/towstat", build_folder());
	assert_int_equal(pipe(ends), 0);
	fixture.ras = fork();
	assert_true(fixture.ras >= 0);
	if (fixture.ras == 0) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		execl(towstat, "towstat", "ras", "--port", "0", "--host", "10.9.8.7", "ras", NULL);
		_exit(127);
	}
	close(ends[1]);
	fixture.said = fdopen(ends[0], "r");
	assert_non_null(fixture.said);
	assert_non_null(fgets(line, sizeof(line), fixture.said));
	port = strstr(line, "port ");
	if (port == NULL)
		fail_msg("%s", line);
	fixture.port = atoi(port + 5);
}

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-ras-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	setenv("TOW_STATS_DIR", dir, 1);
	fixture.job = start_job();
	await_job();
	start_ras();
	return 0;
}

static int teardown(void **state)
{
	char line[128];
	int status;

	(void)state;
	if (fixture.job > 0) {
		kill(fixture.job, SIGTERM);
		waitpid(fixture.job, &status, 0);
	}
	if (fixture.ras > 0) {
		kill(fixture.ras, SIGTERM);
		waitpid(fixture.ras, &status, 0);
	}
	fclose(fixture.said);
	snprintf(line, sizeof(line), "rm -r %s", dir);
	twt_command(line, &command);
	return command.status;
}

/* --- a client --- */

static int dial(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons((uint16_t)fixture.port),
				       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	const struct timeval patience = { PATIENCE, 0 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void say(int fd, const char *text)
{
	assert_true(send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

/* One line, with its end, as a client that goes step by step reads it. */
static const char *hear_line(int fd)
{
	static char line[512];
	size_t bytes = 0;

	while (bytes + 1 < sizeof(line) && recv(fd, line + bytes, 1, 0) == 1) {
		if (line[bytes++] == '\n')
			break;
	}
	line[bytes] = '\0';
	return line;
}

/* All until the other side hangs up; a reset is an end, too. */
static char *hear_all(int fd)
{
	char *text = malloc(ANSWER);
	size_t bytes = 0;
	ssize_t got;

	assert_non_null(text);
	while (bytes + 1 < ANSWER && (got = recv(fd, text + bytes, ANSWER - 1 - bytes, 0)) > 0)
		bytes += (size_t)got;
	if (got < 0 && errno != ECONNRESET)
		fail_msg("the connection did not end: %s", strerror(errno));
	text[bytes] = '\0';
	close(fd);
	return text;
}

/* As SGLang's watcher asks: both lines at once, and what comes from the first brace on. */
static json_t *ask_json(void)
{
	int fd = dial();
	const char *begin;
	json_t *root;
	char *text;

	say(fd, "SET FORMAT json\nSTATUS\n");
	text = hear_all(fd);
	begin = strchr(text, '{');
	assert_int_equal(strncmp(text, "OK\n", 3), 0);
	root = begin != NULL ? json_loads(begin, 0, NULL) : NULL;
	if (root == NULL)
		fail_msg("%s", text);
	free(text);
	return root;
}

static json_t *comm_of(json_t *root)
{
	return json_array_get(json_object_get(root, "communicators"), 0);
}

static json_int_t number_at(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* Until the group misses so many ranks; the report is the caller's. */
static json_t *await_missing(json_int_t missing)
{
	for (int turn = 0; turn < 10 * PATIENCE; turn++) {
		json_t *root = ask_json();

		if (number_at(comm_of(root), "missing_ranks_count") == missing &&
		    json_array_size(json_object_get(root, "communicators")) > 0)
			return root;
		json_decref(root);
		usleep(100000);
	}
	fail_msg("the group does not miss %d ranks", (int)missing);
	return NULL;
}

/* --- what they are told --- */

/* Step by step, as ncclras does with -t 8 -f json. */
static void speaks_with_ncclras(void **state)
{
	int fd = dial();
	json_t *root;
	char *text;

	(void)state;
	say(fd, "CLIENT PROTOCOL 2\n");
	assert_string_equal(hear_line(fd), "SERVER PROTOCOL 2\n");
	say(fd, "TIMEOUT 8\n");
	assert_string_equal(hear_line(fd), "OK\n");
	say(fd, "SET FORMAT json\n");
	assert_string_equal(hear_line(fd), "OK\n");
	say(fd, "STATUS\n");
	text = hear_all(fd);
	root = json_loads(text, 0, NULL);
	if (root == NULL)
		fail_msg("%s", text);
	assert_int_equal(number_at(root, "communicators_count"), 1);
	json_decref(root);
	free(text);
}

/* The members that Ray Train's detector indexes, and that the counts of all ranks grow. */
static void counts_collectives(void **state)
{
	json_int_t before[RANKS] = { 0 };

	(void)state;
	for (int look = 0; look < 2; look++) {
		json_t *root = await_missing(0), *comm = comm_of(root), *rank;
		size_t i;

		assert_true(json_is_string(json_object_get(root, "timestamp")));
		assert_true(json_is_string(json_object_get(comm, "hash")));
		assert_true(json_is_string(json_object_get(comm, "secondary_hash")));
		assert_int_equal(number_at(comm, "size"), RANKS);
		assert_int_equal(json_array_size(json_object_get(comm, "ranks")), RANKS);
		json_array_foreach(json_object_get(comm, "ranks"), i, rank)
		{
			json_t *status = json_object_get(rank, "status");
			json_int_t begun =
				number_at(json_object_get(rank, "collective_counts"), "AllReduce");

			assert_int_equal(number_at(rank, "rank"), i);
			assert_int_equal(number_at(rank, "pid"), fixture.pids[i]);
			assert_string_equal(json_string_value(json_object_get(rank, "host")),
					    "10.9.8.7");
			assert_true(json_is_integer(json_object_get(status, "init_state")));
			assert_int_equal(number_at(status, "async_error"), 0);
			assert_true(json_is_false(json_object_get(status, "abort_flag")));
			assert_true(begun > before[i]);
			before[i] = begun;
		}
		json_decref(root);
		usleep(300000);
	}
}

/* echo verbose status | nc: the client's side is shut before the answer comes. */
static void speaks_with_netcat(void **state)
{
	int fd = dial();
	char *text;

	(void)state;
	say(fd, "verbose status\r\n");
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	text = hear_all(fd);
	assert_non_null(strstr(text, "Job summary\n"));
	assert_non_null(strstr(text, "Group     Comms     Nodes     Ranks"));
	assert_non_null(strstr(text, "   RUNNING  "));
	free(text);
}

/* A stopped rank is missing and does not answer; when it goes on, it is there again. */
static void tells_of_a_stopped_rank(void **state)
{
	int monitor = dial();
	json_t *root, *rank;

	(void)state;
	say(monitor, "monitor all\n");
	assert_string_equal(hear_line(monitor), "OK\n");
	kill((pid_t)fixture.pids[1], SIGSTOP);
	root = await_missing(1);
	rank = json_array_get(json_object_get(comm_of(root), "missing_ranks"), 0);
	assert_int_equal(number_at(rank, "rank"), 1);
	assert_int_equal(number_at(rank, "pid"), fixture.pids[1]);
	assert_true(json_is_true(json_object_get(json_object_get(rank, "status"), "unresponsive")));
	assert_true(
		json_is_false(json_object_get(json_object_get(rank, "status"), "considered_dead")));
	json_decref(root);
	assert_non_null(strstr(hear_line(monitor), "] PEER_UNRESPONSIVE: rank 1, process "));
	kill((pid_t)fixture.pids[1], SIGCONT);
	json_decref(await_missing(0));
	assert_non_null(strstr(hear_line(monitor), "] PEER_RECOVERED: rank 1, process "));
	close(monitor);
}

/* --- hostile clients --- */

static void answers_errors(void **state)
{
	static const char *const wrong[] = { "",           "hello",           "set format xml",
					     "timeout -3", "monitor nothing", "\x1b]0;title\x07" };
	int fd = dial();

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const char *reply;

		say(fd, wrong[i]);
		say(fd, "\n");
		reply = hear_line(fd);
		assert_int_equal(strncmp(reply, "ERROR: ", 7), 0);
		assert_null(strchr(reply, '\x1b'));
	}
	say(fd, "CLIENT PROTOCOL 2\n"); /* it is served all the same */
	assert_string_equal(hear_line(fd), "SERVER PROTOCOL 2\n");
	close(fd);
}

/* A line without an end is hung up on; so is who has no place. The next one is served. */
static void bounds_clients(void **state)
{
	int silent[CLIENTS], fd = dial();
	char *line = malloc(1 << 16), *text;

	(void)state;
	assert_non_null(line);
	memset(line, 'x', 1 << 16);
	while (send(fd, line, 1 << 16, MSG_NOSIGNAL) > 0)
		continue;
	text = hear_all(fd);
	assert_string_equal(text, "");
	free(text);
	free(line);
	for (int i = 0; i < CLIENTS; i++) {
		silent[i] = dial();
		say(silent[i], "CLIENT PROTOCOL 2\n"); /* so that all of them have a place */
		assert_string_equal(hear_line(silent[i]), "SERVER PROTOCOL 2\n");
	}
	text = hear_all(dial());
	assert_string_equal(text, "");
	free(text);
	for (int i = 0; i < CLIENTS; i++)
		close(silent[i]);
	json_decref(await_missing(0));
}

/* What is asked for is not read: others are served meanwhile. */
static void waits_for_nobody(void **state)
{
	int deaf[4];

	(void)state;
	for (int i = 0; i < 4; i++) {
		deaf[i] = dial();
		say(deaf[i], i % 2 == 0 ? "verbose status\n" : "statu");
	}
	json_decref(await_missing(0));
	for (int i = 0; i < 4; i++)
		close(deaf[i]);
}

/* --- the end --- */

/* All are killed: who monitors hears of it, and towstat has nobody left to speak for. */
static void ends_with_the_job(void **state)
{
	int monitor = dial(), status = -1;

	(void)state;
	say(monitor, "set format json\nmonitor\n");
	assert_string_equal(hear_line(monitor), "OK\n");
	assert_string_equal(hear_line(monitor), "OK\n");
	for (size_t i = 0; i < RANKS; i++)
		kill((pid_t)fixture.pids[i], SIGKILL);
	assert_string_equal(hear_line(monitor), "{\n");
	assert_non_null(strstr(hear_line(monitor), "\"timestamp\": \"20"));
	assert_string_equal(hear_line(monitor), "  \"group\": \"LIFECYCLE\",\n");
	assert_string_equal(hear_line(monitor), "  \"event\": \"PEER_DEAD\",\n");
	close(monitor);
	for (int turn = 0; turn < 10 * PATIENCE; turn++) {
		if (waitpid(fixture.ras, &status, WNOHANG) == fixture.ras)
			break;
		usleep(100000);
	}
	fixture.ras = 0;
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void misuse(void **state)
{
	static const char *const wrong[] = { "--port 65536", "--port x",  "--timeout 31",
					     "--host 'a b'", "--nothing", "ras other" };
	char line[256];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(line, sizeof(line), "@/tools/towstat/towstat ras %s", wrong[i]);
		twt_command(line, &command);
		assert_int_equal(command.status, 2);
	}
	twt_command("@/tools/towstat/towstat ras nobody", &command);
	assert_int_equal(command.status, 1);
	twt_command("@/tools/towstat/towstat ras --listen nowhere ras", &command);
	twt_command_expect(&command, 1, "this is not a numeric address", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(misuse),
		cmocka_unit_test(speaks_with_ncclras),
		cmocka_unit_test(counts_collectives),
		cmocka_unit_test(speaks_with_netcat),
		cmocka_unit_test(answers_errors),
		cmocka_unit_test(bounds_clients),
		cmocka_unit_test(waits_for_nobody),
		cmocka_unit_test(tells_of_a_stopped_rank),
		cmocka_unit_test(ends_with_the_job),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
