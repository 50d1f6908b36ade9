/*
 * test_log.c - the log that people see: a terminal, a file, stderr, a callback; what waits and what
 * is worse than it could be says so there.
 */
#include "pair.h"
#include "store_port.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "twt.h"

#define MISSPELT "TOW_JOBKEY"
#define WARNING  "the environment has TOW_JOBKEY, which is not a knob and does nothing"

static char folder[64], path[96];

static void plain_options(struct tow_options *options)
{
	tow_options_init(options, sizeof(*options));
	options->premap_memory_bytes = 4 << 20;
	options->stats = 0;
}

/* Opens and closes a runtime, which warns of a misspelt variable. */
static int open_once(void)
{
	struct tow_options options;
	struct tow_runtime *runtime;
	int status;

	plain_options(&options);
	status = tow_runtime_open(&options, &runtime);
	return status < 0 ? status : tow_runtime_close(runtime);
}

/* Everything that comes from `fd` until its other end is closed. */
static size_t read_all(int fd, char *out, size_t room)
{
	size_t used = 0;
	ssize_t got;

	while (used + 1 < room && (got = read(fd, out + used, room - used - 1)) > 0)
		used += (size_t)got;
	out[used] = '\0';
	return used;
}

static void read_file(const char *name, char *out, size_t room)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	read_all(fd, out, room);
	close(fd);
}

/* Runs `body` in a child whose stderr is `err`, and whose stdout is `out`. */
static pid_t in_child(int (*body)(void), int out, int err)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
			_exit(3);
		setenv(MISSPELT, "secret", 1);
		_exit(body());
	}
	return pid;
}

/* What `body` writes to stderr, a pipe; nothing may come to stdout. */
static void written(int (*body)(void), char *text, size_t room)
{
	int err[2], out[2], how;
	char nothing[16];
	pid_t pid;

	assert_int_equal(pipe(err), 0);
	assert_int_equal(pipe(out), 0);
	pid = in_child(body, out[1], err[1]);
	close(err[1]);
	close(out[1]);
	read_all(err[0], text, room);
	assert_int_equal(read_all(out[0], nothing, sizeof(nothing)), 0);
	close(err[0]);
	close(out[0]);
	assert_int_equal(waitpid(pid, &how, 0), pid);
	assert_int_equal(how, 0);
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
		n++;
	return n;
}

static void test_stderr(void **state)
{
	char text[4096];

	(void)state;
	unsetenv("TOW_LOG");
	written(open_once, text, sizeof(text)); /* no terminal: nothing */
	assert_string_equal(text, "");
	setenv("TOW_LOG", "none", 1);
	written(open_once, text, sizeof(text));
	assert_string_equal(text, "");
	setenv("TOW_LOG", "stderr", 1);
	written(open_once, text, sizeof(text));
	assert_int_equal(count(text, "towline: warning: " WARNING), 1);
	assert_null(strstr(text, "secret"));
	setenv("TOW_LOG_LEVEL", "1", 1);
	written(open_once, text, sizeof(text));
	assert_string_equal(text, "");
	unsetenv("TOW_LOG_LEVEL");
	unsetenv("TOW_LOG");
}

/* towrun hands the stderr of its ranks on: that it ends at a terminal is told them. */
static int hello_by_towrun(void)
{
	const char *build = getenv("TOW_TEST_BUILD");
	char towrun[512], program[512];

	snprintf(towrun, sizeof(towrun), "%s/tools/towrun/towrun", build != NULL ? build : "build");
	snprintf(program, sizeof(program), "%s/examples/example_01_hello",
		 build != NULL ? build : "build");
	execl(towrun, "towrun", "-n", "1", program, NULL);
	return 3;
}

/* By default warnings come where somebody sits. */
static void warns_terminal(int (*body)(void), unsigned runtimes)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), line, out, how;
	char text[4096];
	pid_t pid;

	assert_true(terminal >= 0);
	assert_int_equal(grantpt(terminal), 0);
	assert_int_equal(unlockpt(terminal), 0);
	line = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
	out = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_true(line >= 0 && out >= 0);
	pid = in_child(body, out, line);
	close(line);
	read_all(terminal, text, sizeof(text));
	assert_int_equal(waitpid(pid, &how, 0), pid);
	assert_int_equal(how, 0);
	assert_int_equal(count(text, "warning: " WARNING), runtimes);
	close(out);
	close(terminal);
}

static void test_terminal(void **state)
{
	(void)state;
	warns_terminal(open_once, 1);
}

static void test_towrun(void **state)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC), err[2], how;
	char text[4096];
	pid_t pid;

	(void)state;
	warns_terminal(hello_by_towrun, 2);
	assert_int_equal(pipe(err), 0);
	pid = in_child(hello_by_towrun, null, err[1]);
	close(err[1]);
	read_all(err[0], text, sizeof(text));
	close(err[0]);
	close(null);
	assert_int_equal(waitpid(pid, &how, 0), pid);
	assert_int_equal(how, 0);
	assert_null(strstr(text, WARNING));
}

static void test_file(void **state)
{
	char text[8192];
	struct stat info;

	(void)state;
	setenv("TOW_LOG", path, 1);
	setenv("TOW_RANK", "3", 1);
	setenv("TOW_WORLD_SIZE", "4", 1);
	setenv("TOW_STORE", "127.0.0.1:1", 1);
	for (int i = 0; i < 2; i++) {
		written(open_once, text, sizeof(text));
		assert_string_equal(text, "");
	}
	read_file(path, text, sizeof(text));
	assert_int_equal(count(text, "rank 3: warning: " WARNING), 2); /* appended */
	assert_int_equal(text[4], '-');
	assert_non_null(strstr(text, "Z towline["));
	assert_int_equal(stat(path, &info), 0);
	assert_int_equal(info.st_mode & 07777, 0600);
	unsetenv("TOW_RANK");
	unsetenv("TOW_WORLD_SIZE");
	unsetenv("TOW_STORE");
	unsetenv("TOW_LOG");
}

static void refuses(const char *where, int status, const char *why)
{
	setenv("TOW_LOG", where, 1);
	assert_int_equal(open_once(), status);
	assert_non_null(strstr(tow_error_message(), why));
	assert_non_null(strstr(tow_error_message(), where));
	unsetenv("TOW_LOG");
}

static void test_bad_files(void **state)
{
	char other[128];

	(void)state;
	refuses("/nonexistent/towline.log", TOW_ESYSTEM, "ENOENT");
	refuses(folder, TOW_ESYSTEM, "EISDIR");
	snprintf(other, sizeof(other), "%s/link", folder);
	assert_int_equal(symlink(path, other), 0);
	refuses(other, TOW_EINVAL, "symbolic link");
	unlink(other);
	assert_int_equal(mkfifo(other, 0600), 0);
	refuses(other, TOW_EINVAL, "no process reads"); /* at once, not when somebody does */
	unlink(other);
}

/* --- the callback --- */

struct seen {
	_Atomic unsigned lines;
	unsigned levels;
	bool is_mine, clean;
	int close_status;
	pthread_t opener;
	_Atomic(struct tow_runtime *) runtime;
	char text[512];
};

static void see(void *user, int level, const char *text)
{
	struct seen *seen = user;
	size_t bytes = strlen(text);

	seen->is_mine |= pthread_equal(pthread_self(), seen->opener) != 0;
	seen->levels |= 1u << level;
	for (size_t i = 0; i < bytes; i++)
		seen->clean &= text[i] >= ' ' && text[i] < 0x7f;
	if (strstr(text, WARNING) == NULL)
		return;
	snprintf(seen->text, sizeof(seen->text), "%s", text);
	usleep(20000); /* the close waits for it */
	atomic_fetch_add(&seen->lines, 1);
}

static int with_callback(void)
{
	struct seen seen = { .opener = pthread_self(), .clean = true };
	struct tow_options options;
	struct tow_runtime *runtime;

	plain_options(&options);
	options.log_callback = see;
	options.log_user = &seen;
	TWT_OK(tow_runtime_open(&options, &runtime));
	TWT_OK(tow_runtime_close(runtime));
	if (atomic_load(&seen.lines) != 1 || seen.is_mine || !seen.clean ||
	    strncmp(seen.text, WARNING, strlen(WARNING)) != 0)
		return 1;
	/* an open that fails has told what it had to tell, and tells no more */
	options.strict_premap = 0;
	options.lanes = "pigeon";
	seen.lines = 0;
	return tow_runtime_open(&options, &runtime) == TOW_EINVAL && atomic_load(&seen.lines) == 1
		       ? 0
		       : 2;
}

static void close_inside(void *user, int level, const char *text)
{
	struct seen *seen = user;

	(void)level, (void)text;
	while (atomic_load(&seen->runtime) == NULL)
		usleep(1000); /* until the open has returned */
	seen->close_status = tow_runtime_close(atomic_load(&seen->runtime));
	atomic_fetch_add(&seen->lines, 1);
}

/* It may not end the runtime that would have to wait for it. */
static int closes_inside(void)
{
	struct seen seen = { 0 };
	struct tow_options options;
	struct tow_runtime *runtime;

	plain_options(&options);
	options.log_callback = close_inside;
	options.log_user = &seen;
	TWT_OK(tow_runtime_open(&options, &runtime));
	atomic_store(&seen.runtime, runtime);
	for (int i = 0; i < 20000 && atomic_load(&seen.lines) == 0; i++)
		usleep(1000);
	TWT_OK(tow_runtime_close(runtime));
	return seen.close_status == TOW_EINVAL ? 0 : 1;
}

static void test_callback(void **state)
{
	char text[4096];

	(void)state;
	written(with_callback, text, sizeof(text));
	assert_string_equal(text, ""); /* the callback has the lines, and nobody else */
	written(closes_inside, text, sizeof(text));
	assert_string_equal(text, "");
	setenv("TOW_LOG", "stderr", 1);
	written(with_callback, text, sizeof(text));
	assert_int_equal(count(text, WARNING), 2); /* who asks for both gets both */
	unsetenv("TOW_LOG");
}

/* --- what exits without closing, and what does not read --- */

static int exits(void)
{
	struct tow_options options;
	struct tow_runtime *runtime;

	plain_options(&options);
	TWT_OK(tow_runtime_open(&options, &runtime));
	exit(0);
}

static void test_exit(void **state)
{
	char text[4096];

	(void)state;
	setenv("TOW_LOG", "stderr", 1);
	written(exits, text, sizeof(text));
	assert_int_equal(count(text, WARNING), 1);
	unsetenv("TOW_LOG");
}

/* A pipe that is full, or that nobody reads any more, holds up nobody, and ends nobody. */
static int into_full_pipe(void)
{
	static char filler[65536];
	int ends[2];

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return 3;
	while (write(ends[1], filler, sizeof(filler)) > 0)
		;
	fcntl(ends[1], F_SETFL, 0); /* as a program's stderr is */
	if (dup2(ends[1], STDERR_FILENO) < 0)
		return 3;
	TWT_OK(open_once());
	close(ends[0]);
	TWT_OK(open_once());
	return 0;
}

static void test_full_pipe(void **state)
{
	char text[64];

	(void)state;
	setenv("TOW_LOG", "stderr", 1);
	written(into_full_pipe, text, sizeof(text));
	unsetenv("TOW_LOG");
}

/* --- what is worse than it could be --- */

static int without_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = code };

	unsetenv("TOW_POLLER");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		return 77;
	return open_once();
}

static void test_degraded(void **state)
{
	char text[8192];

	(void)state;
	setenv("TOW_LOG", "stderr", 1);
	written(without_uring, text, sizeof(text));
	assert_int_equal(count(text, "warning: epoll is used in place of io_uring: "), 1);
	unsetenv("TOW_LOG");
}

/* --- what waits for others --- */

#define LATE_US 1300000

static void be_rank(const char *rank, const char *store)
{
	unsetenv(MISSPELT);
	setenv("TOW_RANK", rank, 1);
	setenv("TOW_WORLD_SIZE", "2", 1);
	setenv("TOW_STORE", store, 1);
	setenv("TOW_LOG_WAIT_NS", "200ms", 1);
}

static char store[64];

/* Opens the group of two and meets the other in a barrier, `barrier_us` later. */
static int join(useconds_t barrier_us)
{
	struct tow_group_options how = TOW_GROUP_OPTIONS_INIT;
	struct tow_options options;
	struct tow_runtime *runtime;
	struct tow_group *group;

	plain_options(&options);
	TWT_OK(tow_runtime_open(&options, &runtime));
	how.timeout_ns = 20 * TWT_SECOND;
	TWT_OK(tow_group_open(runtime, &how, &group));
	usleep(barrier_us);
	TWT_OK(tow_group_barrier(group, 20 * TWT_SECOND));
	TWT_OK(tow_group_close(group));
	return tow_runtime_close(runtime);
}

static int join_as_0(void)
{
	be_rank("0", store);
	return join(0);
}

static int join_as_1(void)
{
	be_rank("1", store);
	return join(0);
}

static int hesitate_as_1(void)
{
	be_rank("1", store);
	return join(4300000);
}

/* What has come until `words` are there, or ten seconds have passed; its length. */
static size_t read_until(int fd, char *text, size_t room, const char *words)
{
	struct pollfd more = { fd, POLLIN, 0 };
	size_t got = 0;

	text[0] = '\0';
	for (int turn = 0; turn < 100 && strstr(text, words) == NULL; turn++) {
		ssize_t n = poll(&more, 1, 100) > 0 ? read(fd, text + got, room - got - 1) : 0;

		got += n > 0 ? (size_t)n : 0;
		text[got] = '\0';
	}
	return got;
}

/*
 * The first comes late_us before the second, and has begun to wait for it by then; what the first
 * has said.
 */
static void job(int (*first)(void), int (*second)(void), useconds_t late_us, char *text,
		size_t room)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC), err[2], how, port;
	size_t got = 0;
	pid_t pids[2];

	port = twt_store_port(store, sizeof(store));
	assert_int_equal(pipe2(err, O_CLOEXEC), 0);
	setenv("TOW_LOG", "stderr", 1);
	pids[0] = in_child(first, null, err[1]);
	usleep(late_us);
	if (late_us > 0)
		got = read_until(err[0], text, room, ": warning: waiting for rank ");
	pids[1] = in_child(second, null, STDERR_FILENO);
	close(err[1]);
	read_all(err[0], text + got, room - got);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(waitpid(pids[i], &how, 0), pids[i]);
		assert_int_equal(how, 0);
	}
	close(err[0]);
	close(null);
	close(port);
	unsetenv("TOW_LOG");
}

static void test_late_open(void **state)
{
	char text[8192];

	(void)state;
	job(join_as_0, join_as_1, LATE_US, text, sizeof(text));
	assert_in_range(count(text, "towline: rank 0: warning: waiting for rank 1 for "), 1, 3);
	assert_in_range(count(text, " to open the group"), 1, 3);
	/* the other way round it is rank 0 that is waited for */
	job(join_as_1, join_as_0, LATE_US, text, sizeof(text));
	assert_in_range(count(text, "towline: rank 1: warning: waiting for rank 0 for "), 1, 3);
	assert_non_null(strstr(text, store));
}

static void test_late_barrier(void **state)
{
	char text[8192];

	(void)state;
	job(join_as_0, hesitate_as_1, 0, text, sizeof(text));
	assert_true(count(text, "towline: rank 0: warning: waiting in a barrier for ") >= 2);
	/* after three seconds the ranks agree on who is late (docs/verdict.md) */
	assert_non_null(strstr(text, ": rank 1 has not entered barrier 1"));
	assert_null(strstr(text, "closed the connection")); /* as every job ends */
}

/* Who comes soon is not talked about. */
static void test_nobody_late(void **state)
{
	char text[8192];

	(void)state;
	job(join_as_0, join_as_1, 0, text, sizeof(text));
	assert_null(strstr(text, "waiting in a barrier"));
}

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/towline-test-log-XXXXXX");
	if (mkdtemp(folder) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/log", folder);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stderr),      cmocka_unit_test(test_terminal),
		cmocka_unit_test(test_file),        cmocka_unit_test(test_bad_files),
		cmocka_unit_test(test_callback),    cmocka_unit_test(test_exit),
		cmocka_unit_test(test_late_open),   cmocka_unit_test(test_late_barrier),
		cmocka_unit_test(test_nobody_late), cmocka_unit_test(test_full_pipe),
		cmocka_unit_test(test_degraded),    cmocka_unit_test(test_towrun),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
