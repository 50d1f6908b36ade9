/*
 * test_towstat_list.c - who is listed, what ended processes leave and who takes it away, and jobs
 * of one name, which are told apart by the place where their ranks meet.
 */
#include "twt.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <towline/towline.h>

#include "command.h"
#include "told.h"

static char dir[64];
static struct twt_command command;

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-list-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	return setenv("TOW_STATS_DIR", dir, 1);
}

static int teardown(void **state)
{
	char line[128];

	(void)state;
	snprintf(line, sizeof(line), "rm -rf %s", dir);
	twt_command(line, &command);
	return command.status;
}

/* What a process that was killed leaves: a socket at which nobody listens. */
static void leave(const char *name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", dir, name);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	close(fd);
}

static bool is_there(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return access(path, F_OK) == 0;
}

static void towstat(const char *arguments)
{
	char line[256];

	snprintf(line, sizeof(line), "@/tools/towstat/towstat %s", arguments);
	twt_command(line, &command);
}

static void expect(const char *arguments, int status, const char *words, int count)
{
	towstat(arguments);
	twt_command_expect(&command, status, words, count);
}

static struct tow_runtime *open_runtime(const char *job)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;

	options.job = job;
	options.premap_memory_bytes = 2 << 20;
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	return runtime;
}

/* Who lives is shown, alone; the others are counted, and shown on demand. */
static void hides_who_has_ended(void **state)
{
	struct tow_runtime *runtime = open_runtime("here");

	(void)state;
	leave("gone.0.sock");
	leave("here.9.sock");
	expect("list", 0, " live ", 1);
	twt_command_expect(&command, 0, "stale", 0);
	twt_command_expect(&command, 0, "2 sockets of ended processes are not shown", 1);
	expect("list --all", 0, " stale ", 2);
	twt_command_expect(&command, 0, "are not shown", 0);
	expect("list gone", 0, "no runtimes found", 1);
	expect("list here -a", 0, "here.", 4); /* two names, two paths */
	twt_command_expect(&command, 0, "gone", 0);
	expect("list one two", 2, "list takes a job: two", 1);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

/* Only sockets, only of jobs of which nobody lives, and what lies beside them. */
static void sweeps_what_is_left(void **state)
{
	struct tow_runtime *runtime = open_runtime("here");
	char line[128];

	(void)state;
	leave("gone.0.sock"); /* those of before went when the runtime opened */
	leave("here.9.sock");
	leave("gone.1.sock");
	leave("gone.1.bpf");
	leave("gone.2-2.sock");
	snprintf(line, sizeof(line), "touch %s/file.0.sock", dir);
	twt_command(line, &command);
	expect("list --sweep gone", 0, "3 sockets of ended processes are taken away", 1);
	assert_false(is_there("gone.0.sock") || is_there("gone.1.sock") || is_there("gone.1.bpf") ||
		     is_there("gone.2-2.sock"));
	leave("gone.0.sock");
	expect("list --sweep", 0, "1 sockets of ended processes are taken away", 1);
	assert_false(is_there("gone.0.sock"));
	assert_true(is_there("file.0.sock") && is_there("here.9.sock"));
	expect("list", 0, "1 sockets of ended processes are not shown", 1);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	expect("list --sweep", 0, "1 sockets of ended processes are taken away", 1);
	assert_false(is_there("here.9.sock"));
}

/* A rank that is killed leaves its socket, and towrun takes it away: its own ranks' alone. */
static void towrun_leaves_nothing(void **state)
{
	char line[512];

	(void)state;
	/* They come back when the runtime has opened, which takes away what is left by then. */
	snprintf(line, sizeof(line), "mkdir %s/aside", dir);
	twt_command(line, &command);
	leave("aside/why.4.sock"); /* towrun has ranks 0 to 3 */
	leave("aside/whynot.3.sock");
	snprintf(line, sizeof(line),
		 "TOW_JOB=why @/tools/towrun/towrun -n 4 --timeout 100 sh -c '"
		 "[ $TOW_RANK = 3 ] || exit 0; (sleep 100 | @/tests/why_program %s clean) & "
		 "until [ -S %s/why.3.sock ]; do sleep 0.05; done; mv %s/aside/* %s; kill -9 0'",
		 dir, dir, dir, dir);
	twt_command(line, &command);
	twt_command_expect(&command, 128 + SIGKILL, "rank 3 was killed by signal 9", 1);
	assert_false(is_there("why.3.sock") || is_there("why.3.bpf"));
	assert_true(is_there("why.4.sock") && is_there("whynot.3.sock"));
	expect("list --sweep", 0, "2 sockets of ended processes are taken away", 1);
}

#define MEETS(store) "{\"status\":\"TOW_OK\",\"launcher\":\"tow\",\"store\":\"" store "\"}"
#define TWINS        4

/* Ranks that meet at two places are two jobs, whatever their sockets are called. */
static void tells_twins_apart(void **state)
{
	static const char *const names[TWINS] = { "twin.0", "twin.1", "twin.0-2", "twin.1-2" };
	static const char *const stores[TWINS] = { MEETS("a:1"), MEETS("b:2"), MEETS("b:2"),
						   MEETS("a:1") };
	static struct twt_told told[TWINS];

	(void)state;
	for (size_t i = 0; i < TWINS; i++) {
		twt_told_open(&told[i], dir, names[i]);
		twt_told_say(&told[i], "/v1/bootstrap", stores[i]);
	}
	expect("list twin", 0, " a:1 ", 2);
	expect("why twin", 1, "several jobs have this name: twin@", 1);
	twt_command_expect(&command, 1, "twin@a:1, which is twin.0 twin.1-2", 1);
	twt_command_expect(&command, 1, "twin@b:2, which is twin.0-2 twin.1", 1);
	expect("why", 1, "several jobs have this name", 1);
	expect("watch 0.01 twin@b:2 -n 1", 0, "2 ranks together", 1);
	expect("get /v1/bootstrap twin@b:2", 0, "twin.0-2", 1);
	twt_command_expect(&command, 0, "twin.1\"", 1);
	expect("get /v1/bootstrap twin.1", 0, "b:2", 1);
	expect("why twin@c:3", 1, "no live runtime or job is called twin@c:3", 1);
	expect("why @b:2", 1, "no live runtime or job is called @b:2", 1);
	/* Where nothing is known of a place they are one, as they are called. */
	for (size_t i = 0; i < TWINS; i++)
		twt_told_say(&told[i], "/v1/bootstrap", "{\"status\":\"TOW_EINVAL\"}");
	expect("watch 0.01 twin -n 1", 0, "4 ranks together", 1);
	for (size_t i = 0; i < TWINS; i++)
		twt_told_close(&told[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hides_who_has_ended),
		cmocka_unit_test(sweeps_what_is_left),
		cmocka_unit_test(towrun_leaves_nothing),
		cmocka_unit_test(tells_twins_apart),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
