/*
 * test_towstat_trust.c - what towstat believes, and what it lets a terminal see: sockets that
 * another user laid where towstat looks, files with names that a terminal would obey, and a runtime
 * of our own user that says such things.
 *
 * Another user is a forked child that has become one; where only root could, that part is skipped.
 */
#include "twt.h"

#include <grp.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "screen.h"

#include "tools/common/trust.h"

#define OTHER 65534

/* A terminal's title, a line of its own, and the one byte and two byte forms of a control code. */
#define HOSTILE_JSON "x\\u001b]0;t\\u0007\\nfake\\u009b2J"

static char dir[64];
static struct twt_command command;

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-trust-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	setenv("TOW_STATS_DIR", dir, 1);
	return 0;
}

static int teardown(void **state)
{
	char line[128];

	(void)state;
	snprintf(line, sizeof(line), "rm -rf %s", dir);
	twt_command(line, &command);
	return command.status;
}

static void towstat(const char *arguments)
{
	char line[512];

	snprintf(line, sizeof(line), "@/tools/towstat/towstat %s", arguments);
	twt_command(line, &command);
}

/* --- a server of one answer for each path, in this process or a child --- */

static int listen_at(const char *folder, const char *name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s.sock", folder, name);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 64) != 0)
		return -1;
	chmod(at.sun_path, 0666);
	return fd;
}

static const struct {
	const char *path, *body;
} answers[] = {
	{ "/v1/info", "{\"job\":\"job\",\"rank\":7,\"pid\":1,\"version\":\"" HOSTILE_JSON "\"}" },
	{ "/v1/verdict",
	  "{\"state\":\"" HOSTILE_JSON "\",\"ranks_in_job\":2,\"ranks_answered\":2,\"findings\":"
	  "[{\"cause\":\"" HOSTILE_JSON "\",\"says\":\"forged\",\"cure\":\"" HOSTILE_JSON
	  "\",\"evidence\":[\"" HOSTILE_JSON "\"],\"confidence\":1}]}" },
	{ "/v1/coll", "{\"groups\":[{\"state\":\"" HOSTILE_JSON "\"}],\"last\":[]}" },
	{ "/v1/copies",
	  "{\"total\":{\"count\":1},\"sites_known\":1,\"sites\":[{\"text\":\"" HOSTILE_JSON
	  "\"}]}" },
	{ "/v1/stacks", "{\"threads\":[{\"tid\":1,\"state\":\"" HOSTILE_JSON
			"\",\"why_none\":\"" HOSTILE_JSON "\"}]}" },
	{ "/v1/registrations", "{}" },
	{ "/v1/pool", "{}" },
	{ "/metrics", "# \x1b]0;t\x07 \x9b"
		      "2J forged\n# EOF\n" },
	{ "/v1/broken", "\x1b]0;t\x07 no JSON" },
};

static void answer(int fd)
{
	char request[512], head[128];
	ssize_t got = recv(fd, request, sizeof(request) - 1, 0);

	request[got > 0 ? got : 0] = '\0';
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		size_t bytes = strlen(answers[i].path);
		int used;

		if (strncmp(request + 4, answers[i].path, bytes) != 0 || request[4 + bytes] != ' ')
			continue;
		used = snprintf(head, sizeof(head),
				"HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
				strlen(answers[i].body));
		send(fd, head, (size_t)used, MSG_NOSIGNAL);
		send(fd, answers[i].body, strlen(answers[i].body), MSG_NOSIGNAL);
		return;
	}
	send(fd, "HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\n\x1b[2J", 42, MSG_NOSIGNAL);
}

static void *serve(void *arg)
{
	int fd;

	while ((fd = accept(*(int *)arg, NULL, NULL)) >= 0) {
		answer(fd);
		close(fd);
	}
	return NULL;
}

/* --- another user's socket --- */

static bool is_skipped(void)
{
	if (geteuid() == 0)
		return false;
	print_message("skip: only root can become another user\n");
	return true;
}

/* A child that is another user serves `folder`/forged.7.sock, until its pipe is closed. */
static pid_t start_forger(const char *folder, int *hold_out)
{
	int hold[2], ready[2];
	char byte = 0;
	pid_t pid;

	assert_int_equal(pipe(hold), 0);
	assert_int_equal(pipe(ready), 0);
	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		pthread_t thread;
		int fd;

		close(hold[1]);
		umask(0);
		if (setgroups(0, NULL) != 0 || setresgid(OTHER, OTHER, OTHER) != 0 ||
		    setresuid(OTHER, OTHER, OTHER) != 0 || mkdir(folder, 0755) != 0)
			_exit(2);
		fd = listen_at(folder, "forged.7");
		if (fd < 0 || pthread_create(&thread, NULL, serve, &fd) != 0 ||
		    write(ready[1], &byte, 1) != 1)
			_exit(3);
		_exit(read(hold[0], &byte, 1) == 0 ? 0 : 4);
	}
	close(hold[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	*hold_out = hold[1];
	return pid;
}

static void expect_absent(const char *arguments)
{
	towstat(arguments);
	if (strstr(command.text, "forged") != NULL &&
	    strstr(command.text, "is called forged") == NULL)
		fail_msg("towstat %s believes another user's socket: %s", arguments, command.text);
}

static void other_users(void **state)
{
	char folder[80], line[256], path[128];
	uid_t uid;
	pid_t pid;
	int hold, status;

	(void)state;
	if (is_skipped())
		skip();
	/* Where towstat looks by itself, whoever made it. */
	unsetenv("TOW_STATS_DIR");
	snprintf(folder, sizeof(folder), "/tmp/towline-twt-%ld", (long)getpid());
	pid = start_forger(folder, &hold);
	snprintf(path, sizeof(path), "%s/forged.7.sock", folder);
	expect_absent("list");
	expect_absent("verdict forged.7");
	assert_int_equal(command.status, 1);
	expect_absent("verdict forged");
	expect_absent("why --all");
	expect_absent("get /v1/verdict --all");
	expect_absent("top --once");
	assert_false(trust_socket(path, false, &uid));
	assert_true(trust_socket(path, true, &uid));
	assert_int_equal(uid, OTHER);
	/* Asked for, it is shown, and whose it is. */
	towstat("list --all-users");
	assert_non_null(strstr(command.text, "forged.7"));
	assert_non_null(strstr(command.text, " nobody "));
	towstat("get /v1/info --all --all-users");
	assert_non_null(strstr(command.text, "\"user\": \"nobody\""));
	towstat("verdict forged.7 --all-users");
	assert_int_equal(command.status, 3);
	/* Also where our own directory is theirs. */
	snprintf(line, sizeof(line), "TOW_STATS_DIR=%s @/tools/towstat/towstat list", folder);
	twt_command(line, &command);
	assert_null(strstr(command.text, "forged"));
	setenv("TOW_STATS_DIR", dir, 1);
	close(hold);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	snprintf(line, sizeof(line), "rm -r %s", folder);
	twt_command(line, &command);
	assert_int_equal(status, 0);
}

/* A folder that others may write to, a socket in a folder of somebody else's: neither is ours. */
static void folders(void **state)
{
	char path[128];
	uid_t uid;
	int fd = listen_at(dir, "job.1");

	(void)state;
	snprintf(path, sizeof(path), "%s/job.1.sock", dir);
	assert_true(trust_socket(path, false, &uid));
	assert_int_equal(uid, geteuid());
	assert_int_equal(chmod(dir, 0777), 0);
	assert_false(trust_socket(path, false, &uid));
	assert_int_equal(chmod(dir, 01777), 0);
	assert_true(trust_socket(path, false, &uid));
	if (geteuid() == 0) {
		assert_int_equal(chown(dir, OTHER, OTHER), 0);
		assert_false(trust_socket(path, true, &uid));
		assert_int_equal(chown(dir, 0, 0), 0);
		assert_int_equal(chown(path, OTHER, OTHER), 0);
		/* The file says one user, the kernel another. */
		towstat("get /v1/info job.1 --all-users");
		assert_int_equal(command.status, 1);
		assert_non_null(strstr(command.text, "belongs to another user than the file"));
	}
	assert_int_equal(chmod(dir, 0700), 0);
	close(fd);
	assert_int_equal(unlink(path), 0);
}

/* --- what a terminal would obey --- */

static void expect_clean(const char *arguments)
{
	towstat(arguments);
	for (const char *at = command.text; *at != '\0'; at++) {
		unsigned char byte = (unsigned char)*at;

		if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte >= 0x7f)
			fail_msg("towstat %s prints byte 0x%02x: %s", arguments, byte,
				 command.text);
	}
	assert_null(strstr(command.text, "\nfake"));
}

static void names_of_files(void **state)
{
	int fds[3];

	(void)state;
	fds[0] = listen_at(dir, "a\x1b]0;PWN\x07"
				"b.0");
	fds[1] = listen_at(dir, "a\xc2\x9b"
				"2Jb.0");
	fds[2] = listen_at(dir, "job.3");
	expect_clean("list");
	assert_non_null(strstr(command.text, "job.3"));
	assert_null(strstr(command.text, "PWN"));
	expect_clean("verdict");
	for (int i = 0; i < 3; i++)
		close(fds[i]);
}

/* All that goes to a terminal of a program in one, within a few seconds. */
static size_t on_terminal(const char *arguments, char *out, size_t room)
{
	const char *build = getenv("TOW_TEST_BUILD");
	char line[512];
	size_t used = 0;
	ssize_t got;
	pid_t pid;
	int fd, status;

	snprintf(line, sizeof(line), "exec %s/tools/towstat/towstat %s",
		 build != NULL ? build : ".", arguments);
	fflush(stdout);
	pid = forkpty(&fd, NULL, NULL, NULL);
	assert_true(pid >= 0);
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", line, NULL);
		_exit(127);
	}
	while (used < room - 1 && (got = read(fd, out + used, room - 1 - used)) > 0)
		used += (size_t)got;
	out[used] = '\0';
	close(fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return used;
}

static void texts(void **state)
{
	static const char *const commands[] = { "list",
						"verdict job.7",
						"get coll job.7",
						"stacks job.7",
						"why job.7",
						"why job.7 --json",
						"verdict job.7 --json",
						"get /v1/broken job.7 --select a",
						"get /v1/info --all",
						"top --once" };
	static const char *const raw[] = { "get /metrics job.7", "get /v1/broken job.7",
					   "get /v1/none job.7", "get /v1/verdict job.7",
					   "get /v1/info job.7 --select version --raw" };
	int fd = listen_at(dir, "job.7");
	pthread_t thread;
	char text[8192];

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, serve, &fd), 0);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		expect_clean(commands[i]);
	/* Documents go into a pipe as they are, and to a terminal without what it would obey. */
	towstat("get /metrics job.7");
	assert_non_null(memchr(command.text, 0x1b, strlen(command.text)));
	for (size_t i = 0; i < sizeof(raw) / sizeof(raw[0]); i++) {
		size_t bytes = on_terminal(raw[i], text, sizeof(text));

		assert_true(bytes > 0);
		for (size_t at = 0; at < bytes; at++) {
			unsigned char byte = (unsigned char)text[at];

			if ((byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') ||
			    byte >= 0x7f)
				fail_msg("towstat %s sends byte 0x%02x to a terminal: %s", raw[i],
					 byte, text);
		}
	}
	shutdown(fd, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(other_users, setup, teardown),
		cmocka_unit_test_setup_teardown(folders, setup, teardown),
		cmocka_unit_test_setup_teardown(names_of_files, setup, teardown),
		cmocka_unit_test_setup_teardown(texts, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
