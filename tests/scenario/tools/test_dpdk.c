/*
 * test_dpdk.c - towstat dpdk as clients of DPDK's telemetry see it, good ones and bad ones, before
 * runtimes that answer, do not, and end.
 */
#include "twt.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <towline/status.h>

#include "client.h"
#include "command.h"
#include "diag/record/diag.h"
#include "diag/record/latency.h"
#include "diag/serve/socket.h"
#include "tools/towstat/dpdk_bridge.h"

static char dir[64];            /* of the stats sockets, and below it of the bridge's */
static char bridge_path[160];   /* of the runtime test.2 */
static struct twt_command said; /* by towstat, when it has ended */

struct fixture {
	struct twi_diag *diag;
	struct twi_socket *socket;
	pid_t pid;
	FILE *output;
};

/* Reads the line that says where a runtime is served. */
static void served(struct fixture *fixture, char path_out[160])
{
	char line[256], *at;

	if (fgets(line, sizeof(line), fixture->output) == NULL)
		line[0] = '\0';
	at = strstr(line, " is served at ");
	if (at == NULL)
		fail_msg("%s", line);
	at += strlen(" is served at ");
	at[strcspn(at, "\n")] = '\0';
	snprintf(path_out, 160, "%s", at);
}

static const char *towstat(void)
{
	static char program[256];
	const char *build = getenv("TOW_TEST_BUILD");

	snprintf(program, sizeof(program), "%s/tools/towstat/towstat", build != NULL ? build : ".");
	return program;
}

/* towstat dpdk with up to two arguments more; its output goes to the fixture. */
static void start(struct fixture *fixture, const char *first, const char *second)
{
	int pipes[2];

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	fflush(stdout);
	fixture->pid = fork();
	if (fixture->pid == 0) {
		alarm(120);
		dup2(pipes[1], 1);
		dup2(pipes[1], 2);
		execl(towstat(), towstat(), "dpdk", "--dir", dir, "--timeout", "1", first, second,
		      NULL);
		_exit(127);
	}
	close(pipes[1]);
	fixture->output = fdopen(pipes[0], "r");
	assert_non_null(fixture->output);
}

/* Its exit status, or 128 and the signal; what it printed is in `said`. number 0: it ends alone. */
static int stop(struct fixture *fixture, int number)
{
	size_t bytes;
	int status = 0;

	if (number != 0)
		kill(fixture->pid, number);
	bytes = fread(said.text, 1, sizeof(said.text) - 1, fixture->output);
	said.text[bytes] = '\0';
	fclose(fixture->output);
	assert_int_equal(waitpid(fixture->pid, &status, 0), fixture->pid);
	fixture->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* What it counted, of its last line. */
static void counted(unsigned refused, unsigned dropped)
{
	char words[128];

	snprintf(words, sizeof(words), "clients refused %u, hung up on for not reading %u\n",
		 refused, dropped);
	if (strstr(said.text, words) == NULL)
		fail_msg("no '%s' in %s", words, said.text);
}

static int setup(void **state)
{
	static struct fixture fixture;

	snprintf(dir, sizeof(dir), "/tmp/twt-dpdk-XXXXXX");
	if (mkdtemp(dir) == NULL || setenv("TOW_STATS_DIR", dir, 1) != 0 ||
	    twi_diag_create(&fixture.diag) < 0 ||
	    twi_socket_open(fixture.diag, dir, "test", 2, &fixture.socket) < 0)
		return -1;
	*state = &fixture;
	start(&fixture, "test.2", NULL);
	served(&fixture, bridge_path);
	return 0;
}

/* Whatever a test has done, nothing is left but the folder that clients look in. */
static int teardown(void **state)
{
	struct fixture *fixture = *state;
	char folder[128];

	if (fixture->pid != 0 && stop(fixture, SIGTERM) != 0)
		return -1;
	twi_socket_close(fixture->socket);
	twi_diag_destroy(fixture->diag);
	snprintf(folder, sizeof(folder), "%s/dpdk", dir);
	return rmdir(folder) == 0 ? rmdir(dir) : -1;
}

static json_t *reply_of(int fd)
{
	char text[DPDK_OUTPUT_MAX + 1];
	ssize_t bytes = recv(fd, text, sizeof(text), 0);
	json_t *root;

	assert_in_range(bytes, 1, DPDK_OUTPUT_MAX);
	root = json_loadb(text, (size_t)bytes, 0, NULL);
	assert_non_null(root);
	return root;
}

/* A client that has been greeted; -1: it was refused. */
static int greeted(void)
{
	char text[1024];
	int fd = twt_dial(bridge_path, SOCK_SEQPACKET);

	assert_true(fd >= 0);
	if (recv(fd, text, sizeof(text), 0) > 0)
		return fd;
	close(fd);
	return -1;
}

static void ask(int fd, const char *request)
{
	json_t *root;

	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
	root = reply_of(fd);
	assert_int_equal(json_object_size(root), 1);
	json_decref(root);
}

static void fill_latencies(struct twi_diag *diag)
{
	struct twi_latency_row *row = NULL;
	char name[32];

	for (unsigned i = 0; i < 100; i++) {
		const struct twi_latency_reading reading = { .lane = TWI_LANE_TCP,
							     .id = i,
							     .bytes = 1ull << i % 25,
							     .parts_ns = {
								     [TWI_LATENCY_TOTAL] = 1000 + i,
								     [TWI_LATENCY_WIRE] = 1000 + i,
							     } };

		snprintf(name, sizeof(name), "tcp://\"%u\"", i);
		twi_latency_note(diag, &row, name, &reading);
		twi_latency_leave(diag, &row);
	}
}

/* DPDK's own client, or what behaves as it does. */
static void its_client_is_content(void **state)
{
	const struct fixture *fixture = *state;
	int status;

	fill_latencies(fixture->diag); /* so that there are many pages */
	status = twt_python("dpdk_client.py", bridge_path, NULL);
	if (status == 77) {
		print_message("skip: no python3, or TOW_TEST_SOURCE is not set\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void bad_command(const char *arguments, int status, const char *words)
{
	char line[512];

	snprintf(line, sizeof(line), "timeout 30 '%s' dpdk %s", towstat(), arguments);
	twt_command(line, &said);
	twt_command_expect(&said, status, words, 1);
}

static void names(void **state)
{
	struct fixture other = { 0 }, third = { 0 };
	char path[160], expected[160], line[256];
	struct stat st;

	(void)state;
	snprintf(expected, sizeof(expected), "%s/dpdk/test.2/dpdk_telemetry.v2", dir);
	assert_string_equal(bridge_path, expected);
	assert_int_equal(stat(bridge_path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	start(&other, "-f", "rte");
	served(&other, path);
	snprintf(expected, sizeof(expected), "%s/dpdk/rte/dpdk_telemetry.v2", dir);
	assert_string_equal(path, expected);
	start(&third, "--file-prefix=rte", "test");
	served(&third, path);
	strcat(expected, ":1");
	assert_string_equal(path, expected);
	assert_int_equal(stop(&third, SIGINT), 0);
	assert_int_equal(access(expected, F_OK), -1);
	/* who is killed leaves the file, and the next one takes its place */
	assert_int_equal(stop(&other, SIGKILL), 128 + SIGKILL);
	start(&other, "-f", "rte");
	served(&other, path);
	expected[strlen(expected) - 2] = '\0';
	assert_string_equal(path, expected);
	assert_int_equal(stop(&other, SIGHUP), 0);
	snprintf(line, sizeof(line), "%s/dpdk/rte", dir);
	assert_int_equal(rmdir(line), 0); /* it was there when the second one came */
}

static void bad_commands(void **state)
{
	char line[256], folder[128];
	int lock;

	(void)state;
	snprintf(line, sizeof(line), "--dir %s -f ../x", dir);
	bad_command(line, 1, "'../x' is not a file prefix");
	snprintf(line, sizeof(line), "--dir %s/none", dir);
	bad_command(line, 1, "cannot make the folder");
	bad_command("--dir relative", 2, "--dir is an absolute path: relative");
	bad_command("--timeout 99", 2, "--timeout is from 0.1 to 30 seconds: 99");
	bad_command("a b", 2, "dpdk takes one name: b");
	bad_command("nobody", 1, "no live runtime or job is called nobody");
	snprintf(folder, sizeof(folder), "%s/dpdk/rte", dir);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(chmod(folder, 0777), 0); /* anybody could put a socket there */
	snprintf(line, sizeof(line), "--dir %s -f rte", dir);
	bad_command(line, 1, "is no folder of this user alone");
	assert_int_equal(chmod(folder, 0700), 0);
	lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(lock, LOCK_EX), 0); /* for longer than taking a name takes */
	bad_command(line, 1, "another process has the lock");
	close(lock);
	assert_int_equal(rmdir(folder), 0);
}

/* Several runtimes: a socket each, or one behind the other. */
static void several(void **state)
{
	struct fixture *fixture = *state, both = { 0 };
	struct twi_socket *second;
	char path[160];
	json_t *root;
	int fd;

	assert_int_equal(twi_socket_open(fixture->diag, dir, "test", 3, &second), TOW_OK);
	start(&both, "-f", "all");
	served(&both, path);
	assert_non_null(strstr(path, "/all/dpdk_telemetry.v2"));
	served(&both, path);
	assert_non_null(strstr(path, "/all/dpdk_telemetry.v2:1"));
	fd = twt_dial(path, SOCK_SEQPACKET);
	assert_true(fd >= 0);
	root = reply_of(fd);
	assert_int_equal(json_integer_value(json_object_get(root, "pid")), getpid());
	json_decref(root);
	ask(fd, "/towline/info");
	/* one ends: its socket goes, the other one's stays */
	twi_socket_close(second);
	for (unsigned i = 0; i < 1000 && access(path, F_OK) == 0; i++)
		usleep(10000);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(recv(fd, path, sizeof(path), 0), 0);
	close(fd);
	assert_int_equal(stop(&both, SIGTERM), 0);
	assert_non_null(strstr(said.text, "towstat: test.3 has ended\n"));
}

/* The last runtime ends: so does towstat, and nothing is left of it. */
static void runtime_ends(void **state)
{
	struct fixture *fixture = *state;
	int fd = greeted();

	ask(fd, "/info");
	twi_socket_close(fixture->socket);
	fixture->socket = NULL;
	assert_int_equal(stop(fixture, 0), 0);
	assert_non_null(strstr(said.text, "towstat: test.2 has ended\n"));
	assert_non_null(strstr(said.text, "towstat: test.2: 1 replies;"));
	assert_int_equal(access(bridge_path, F_OK), -1);
	close(fd);
}

/* A runtime that accepts nothing: its clients wait for the timeout and no longer, others not. */
static void silent_runtime(void **state)
{
	struct fixture silent = { 0 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char path[160], text[64];
	int deaf = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, good = greeted();

	(void)state;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/deaf.0.sock", dir);
	assert_int_equal(bind(deaf, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(deaf, 4), 0);
	start(&silent, "--socket", address.sun_path);
	served(&silent, path);
	fd = twt_dial(path, SOCK_SEQPACKET);
	assert_true(fd >= 0);
	for (unsigned i = 0; i < 20; i++)
		ask(good, "/towline/counters");
	assert_int_equal(recv(fd, text, sizeof(text), 0), 0); /* nobody to greet for */
	close(fd);
	close(good);
	assert_int_equal(stop(&silent, SIGTERM), 0);
	close(deaf);
	unlink(address.sun_path);
}

static void clients_have_a_bound(void **state)
{
	struct fixture *fixture = *state;
	int fds[DPDK_CLIENTS];

	for (unsigned i = 0; i < DPDK_CLIENTS; i++) {
		fds[i] = greeted();
		assert_true(fds[i] >= 0);
	}
	assert_int_equal(greeted(), -1);
	for (unsigned i = 0; i < DPDK_CLIENTS; i++)
		ask(fds[i], "/info");
	close(fds[4]);
	for (unsigned i = 0; i < 1000; i++) { /* it takes the bridge a moment to notice */
		fds[4] = greeted();
		if (fds[4] >= 0)
			break;
		usleep(1000);
	}
	ask(fds[4], "/");
	for (unsigned i = 0; i < DPDK_CLIENTS; i++)
		close(fds[i]);
	assert_int_equal(stop(fixture, SIGTERM), 0);
	assert_non_null(strstr(said.text, "clients refused "));
	assert_null(strstr(said.text, "clients refused 0"));
}

static void hostile_packets(void **state)
{
	uint64_t random = twt_seed();
	char packet[3000];
	json_t *root;
	int fd = greeted();

	(void)state;
	for (unsigned i = 0; i < 500; i++) {
		size_t bytes = 1 + twt_random_below(&random, sizeof(packet));

		for (size_t j = 0; j < bytes; j++)
			packet[j] = (char)twt_random(&random);
		if (i % 2 == 0)
			memcpy(packet, "/towline/x,", twi_min(bytes, (size_t)11));
		assert_int_equal(send(fd, packet, bytes, MSG_NOSIGNAL), bytes);
		root = reply_of(fd);
		json_decref(root);
	}
	assert_int_equal(send(fd, packet, 0, MSG_NOSIGNAL), 0); /* empty: goodbye */
	assert_int_equal(recv(fd, packet, sizeof(packet), 0), 0);
	close(fd);
	fd = greeted();
	ask(fd, "/info");
	close(fd);
}

/* Who does not read is given a little time, served when he does, hung up on when he does not. */
static void stuck_readers(void **state)
{
	struct fixture *fixture = *state;
	int slow = greeted(), stuck = greeted(), good = greeted();
	unsigned asked = 0;
	char text[64];

	while (asked < 5000 && send(slow, "/towline/counters", 17, MSG_DONTWAIT) == 17)
		asked++;
	for (unsigned i = 0; i < 5000; i++)
		send(stuck, "/towline/counters", 17, MSG_DONTWAIT | MSG_NOSIGNAL);
	for (unsigned i = 0; i < 10; i++)
		ask(good, "/towline/counters");
	for (unsigned i = 0; i < asked; i++)
		json_decref(reply_of(slow));
	ask(slow, "/info");
	/* What had been sent when it was hung up on can still be read, then comes the end. */
	for (unsigned i = 0; i < 1000; i++) {
		if (send(stuck, "/", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EPIPE)
			break;
		usleep(10000);
	}
	ask(good, "/info");
	while (recv(stuck, text, sizeof(text), 0) > 0)
		continue;
	close(slow);
	close(stuck);
	close(good);
	assert_int_equal(stop(fixture, SIGTERM), 0);
	counted(0, 1);
}

/* Clients that vanish with their replies on the way. */
static void vanishing_readers(void **state)
{
	int fd;

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		fd = twt_dial(bridge_path, SOCK_SEQPACKET);
		assert_true(fd >= 0);
		send(fd, "/towline/latency", 16, MSG_NOSIGNAL);
		close(fd);
	}
	for (unsigned i = 0; i < 1000; i++) {
		fd = greeted();
		if (fd >= 0)
			break;
		usleep(1000);
	}
	ask(fd, "/towline/counters");
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(its_client_is_content), TEST(names),
		TEST(bad_commands),          TEST(several),
		TEST(runtime_ends),          TEST(silent_runtime),
		TEST(clients_have_a_bound),  TEST(hostile_packets),
		TEST(stuck_readers),         TEST(vanishing_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
