/* test_towstat.c - towstat against live, dead and silent sockets: what it prints, how it ends. */
#include "twt.h"

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/serve/socket.h"

static char dir[64];

struct fixture {
	struct twi_diag *diag;
	struct twi_socket *socket;
};

static int setup(void **state)
{
	static struct fixture fixture;

	snprintf(dir, sizeof(dir), "/tmp/twt-towstat-XXXXXX");
	if (mkdtemp(dir) == NULL || twi_diag_create(&fixture.diag) < 0)
		return -1;
	setenv("TOW_STATS_DIR", dir, 1);
	*state = &fixture;
	return twi_socket_open(fixture.diag, dir, "job", 7, &fixture.socket);
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	twi_socket_close(fixture->socket);
	twi_diag_destroy(fixture->diag);
	return rmdir(dir);
}

/* Runs towstat with `arguments`; its output, both streams, is the caller's to free. */
static char *towstat(const char *arguments, int *status_out)
{
	const char *build = getenv("TOW_TEST_BUILD");
	size_t room = 1 << 20, bytes;
	char command[1024], *text = malloc(room);
	FILE *pipe;

	assert_non_null(text);
	snprintf(command, sizeof(command), "%s/tools/towstat/towstat %s 2>&1",
		 build != NULL ? build : ".", arguments);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	bytes = fread(text, 1, room - 1, pipe);
	text[bytes] = '\0';
	*status_out = pclose(pipe);
	*status_out = WIFEXITED(*status_out) ? WEXITSTATUS(*status_out) : -1;
	return text;
}

static void expect(const char *arguments, int status, const char *words)
{
	int got;
	char *text = towstat(arguments, &got);

	if (got != status || strstr(text, words) == NULL)
		fail_msg("towstat %s: status %d, wanted %d with \"%s\":\n%s", arguments, got,
			 status, words, text);
	free(text);
}

static int listen_at(const char *name, int backlog, struct sockaddr_un *out)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(out->sun_path, sizeof(out->sun_path), "%s/%s.sock", dir, name);
	assert_int_equal(bind(fd, (struct sockaddr *)out, sizeof(*out)), 0);
	if (backlog >= 0)
		assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

static void lists(void **state)
{
	struct sockaddr_un dead;
	int status;
	char *text, *line;

	(void)state;
	close(listen_at("dead.0", -1, &dead));
	text = towstat("list --all", &status);
	assert_int_equal(status, 0);
	line = strstr(text, "job.7 ");
	assert_non_null(line);
	assert_non_null(strstr(line, "live"));
	assert_non_null(strstr(line, dir));
	line = strstr(text, "dead.0 ");
	assert_non_null(line);
	assert_non_null(strstr(line, "stale"));
	free(text);
	assert_int_equal(unlink(dead.sun_path), 0);
}

/*
 * The process that served a socket has ended, and a child that it forked lives on with all its
 * descriptors: the runtime is dead all the same, and its name free.
 */
static void knows_orphans(void **state)
{
	struct twi_diag *diag;
	struct twi_socket *sock;
	int hold[2], ready[2], status;
	pid_t served, child = 0;
	char *text, *line;

	(void)state;
	assert_int_equal(pipe(hold), 0);
	assert_int_equal(pipe(ready), 0);
	fflush(stdout);
	served = fork();
	if (served == 0) {
		if (twi_diag_create(&diag) < 0 ||
		    twi_socket_open(diag, dir, "orphan", 1, &sock) < 0)
			_exit(1);
		child = fork();
		if (child == 0) {
			close(hold[1]);
			_exit(read(hold[0], &status, 1) == 0 ? 0 : 1);
		}
		_exit(write(ready[1], &child, sizeof(child)) == sizeof(child) ? 0 : 1);
	}
	assert_int_equal(waitpid(served, &status, 0), served);
	assert_int_equal(status, 0);
	assert_int_equal(read(ready[0], &child, sizeof(child)), sizeof(child));
	assert_int_equal(kill(child, 0), 0);
	text = towstat("list --all", &status);
	line = strstr(text, "orphan.1 ");
	assert_non_null(line);
	assert_non_null(strstr(line, "stale"));
	free(text);
	/* The next one has the name, not orphan.1-2. */
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	assert_int_equal(twi_socket_open(diag, dir, "orphan", 1, &sock), TOW_OK);
	assert_non_null(strstr(twi_socket_path(sock), "/orphan.1.sock"));
	twi_socket_close(sock);
	twi_diag_destroy(diag);
	for (int i = 0; i < 2; i++) {
		close(hold[1 - i]);
		close(ready[i]);
	}
}

static void gets(void **state)
{
	int status;
	char *text = towstat("get /v1/counters job.7", &status);
	json_t *root = json_loads(text, 0, NULL);

	(void)state;
	assert_int_equal(status, 0);
	assert_true(json_is_object(json_object_get(root, "counters")));
	json_decref(root);
	free(text);
	expect("get /metrics job.7", 0, "# EOF");
	expect("get /v1/none job.7", 1, "404");
	expect("get /v1 nobody.1", 1, "nobody.1");
	expect("get '/v1 x' job.7", 1, "not a path");
	expect("get /v1 --socket /nowhere/x.sock", 1, "no such socket");
}

static atomic_bool stop;

static void *load(void *arg)
{
	while (!atomic_load(&stop)) {
		twi_count(arg, TWI_C_sends, 1);
		twi_count(arg, TWI_C_send_bytes, 1000000);
		twi_latency_record(arg, TWI_LANE_TCP, 100, 20000);
		usleep(1000);
	}
	return NULL;
}

static void watches(void **state)
{
	struct fixture *fixture = *state;
	double sent, received, sends, recvs, copied, late, p50, p99;
	pthread_t thread;
	char *text, *line;
	int status;

	/* What was before the first reading is in no line. */
	for (int i = 0; i < 1000; i++)
		twi_latency_record(fixture->diag, TWI_LANE_TCP, 100, 900000000);
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&thread, NULL, load, fixture->diag), 0);
	text = towstat("watch 0.3 job.7 --count 2", &status);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(status, 0);
	line = strchr(text, '\n');
	assert_non_null(line);
	if (sscanf(line, "%*s %lf %lf %lf %lf %lf %lf %lf %lf", &sent, &received, &sends, &recvs,
		   &copied, &late, &p50, &p99) != 8)
		fail_msg("%s", text);
	assert_true(sent > 0 && sends > 0 && received == 0 && recvs == 0 && copied == 0);
	assert_true(p50 >= 20 && p50 < 22 && p99 >= 20 && p99 < 22);
	free(text);
	expect("watch 0.1 --count 1 job.7", 0, " - ");
}

/* What does not speak HTTP, or not at all, costs seconds and says why. */
static void bad_servers(void **state)
{
	struct sockaddr_un address;
	char command[256];
	int fd = listen_at("mute.0", 4, &address);

	(void)state;
	snprintf(command, sizeof(command), "get /v1 -s %s", address.sun_path);
	expect(command, 1, "does not answer");
	close(fd);
	expect(command, 1, "has ended");
	assert_int_equal(unlink(address.sun_path), 0);
}

static void misuse(void **state)
{
	(void)state;
	expect("", 2, "command");
	expect("dance", 2, "dance");
	expect("get", 2, "path");
	expect("watch 0 job.7", 2, "SECONDS");
	expect("watch -n 0", 2, "count");
	expect("list x y", 2, "list takes a job");
	expect("counters --man", 2, "markdown");
	expect("--what", 2, "help");
	expect("--help", 0, "towstat watch");
	expect("--version", 0, "towstat ");
}

/* What the copy of towstat in `dir` answers to `bpf` and `arguments`. */
static void expect_of_copy(const char *arguments, int wanted, const char *words)
{
	char command[768], text[2048] = "";
	FILE *pipe;

	snprintf(command, sizeof(command),
		 "LD_LIBRARY_PATH=%s PATH=/nowhere %s/towstat bpf %s 2>&1",
		 getenv("TOW_TEST_BUILD"), dir, arguments);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_true(fread(text, 1, sizeof(text) - 1, pipe) > 0);
	assert_int_equal(WEXITSTATUS(pclose(pipe)), wanted);
	if (strstr(text, words) == NULL)
		fail_msg("%s: no \"%s\" in:\n%s", command, words, text);
}

/* Copies a tool of the build folder into `dir`; 0 where this build has none of that name. */
static int copy_tool(const char *name)
{
	const char *build = getenv("TOW_TEST_BUILD");
	char path[256], command[768];

	snprintf(path, sizeof(path), "%s/tools/%s/%s", build != NULL ? build : ".", name, name);
	if (access(path, X_OK) != 0)
		return 0;
	snprintf(command, sizeof(command), "cp %s %s/%s", path, dir, name);
	assert_int_equal(system(command), 0);
	return 1;
}

static void remove_copy(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(unlink(path), 0);
}

/* The towbpf beside it, as both are installed; a towstat that is alone says what to do. */
static void becomes_towbpf(void **state)
{
	char words[256];

	(void)state;
	assert_true(copy_tool("towstat"));
	snprintf(words, sizeof(words), "there is no towbpf in %s, nor in PATH: ", dir);
	expect_of_copy("--help", 1, words);
	if (copy_tool("towbpf")) {
		expect_of_copy("--help", 0, "towbpf - lets the kernel count");
		expect_of_copy("x", 2, "not 'x'");
		remove_copy("towbpf");
	}
	remove_copy("towstat");
}

static void expect_not(const char *arguments, const char *words)
{
	int status;
	char *text = towstat(arguments, &status);

	if (strstr(text, words) != NULL)
		fail_msg("towstat %s: '%s' is in %s", arguments, words, text);
	free(text);
}

static void prints_lists(void **state)
{
	(void)state;
	expect("knobs", 0, "premap_memory_bytes");
	expect("knobs --markdown", 0, "| `premap_memory_bytes` |");
	expect("knobs --man", 0, ".B premap_memory_bytes");
	expect("knobs premap", 0, "premap_memory_bytes (TOW_PREMAP_MEMORY_BYTES)\n");
	expect("knobs tow_premap_l", 0, "premap_limit_bytes (");
	expect_not("knobs premap", "eager_max_bytes");
	expect_not("knobs tow_premap_l", "premap_memory_bytes (");
	expect("knobs nothing", 1, "no knob has 'nothing' in its name");
	expect("knobs premap eager", 2, "knobs takes a part of a name: eager");
	expect("knobs premap --man", 2, "are of all knobs");
	expect("counters", 0, "late_registrations");
	expect("counters --markdown", 0, "| `TOW_EINVAL` | -1 |");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lists),       TEST(knows_orphans), TEST(gets),           TEST(watches),
		TEST(bad_servers), TEST(misuse),        TEST(becomes_towbpf), TEST(prints_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
