/*
 * test_towstat_top.c - towstat top over real ranks, in a terminal: what the screen shows as ranks
 * stop and die, what keys do, and that the terminal is as it was, however the program ends.
 */
#include "twt.h"

#include <dirent.h>
#include <fnmatch.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "screen.h"

static char dir[64];
static pid_t job;
static struct twt_command *command;
static struct twt_screen screen;

static int socket_count(void)
{
	DIR *entries = opendir(dir);
	struct dirent *entry;
	int count = 0;

	while (entries != NULL && (entry = readdir(entries)) != NULL)
		count += fnmatch("top.*.sock", entry->d_name, 0) == 0;
	if (entries != NULL)
		closedir(entries);
	return count;
}

/* Two ranks that reduce without end. */
static int start_job(void **state)
{
	const char *build = getenv("TOW_TEST_BUILD");
	char program[256], launcher[256];

	(void)state;
	snprintf(program, sizeof(program), "%s/tests/group_program", build != NULL ? build : ".");
	snprintf(launcher, sizeof(launcher), "%s/tools/towrun/towrun", build != NULL ? build : ".");
	setenv("TOW_JOB", "top", 1);
	fflush(stdout);
	job = fork();
	if (job == 0) {
		if (freopen("/dev/null", "w", stdout) == NULL ||
		    freopen("/dev/null", "w", stderr) == NULL)
			_exit(126);
		execl(launcher, launcher, "-n", "2", "--timeout", "230", program, "reduce", NULL);
		_exit(127);
	}
	for (int i = 0; i < 1000 && socket_count() < 2; i++)
		usleep(20000);
	return job > 0 && socket_count() == 2 ? 0 : -1;
}

static int end_job(void **state)
{
	int status;

	(void)state;
	kill(job, SIGTERM);
	for (int i = 0; i < 500; i++) {
		if (waitpid(job, &status, WNOHANG) == job)
			return 0;
		usleep(20000);
	}
	kill(job, SIGKILL);
	waitpid(job, &status, 0);
	return -1;
}

static pid_t pid_of(const char *name)
{
	char line[128];

	snprintf(line, sizeof(line), "@/tools/towstat/towstat get /v1/info %s --select pid", name);
	twt_command(line, command);
	assert_int_equal(command->status, 0);
	assert_true(atoi(command->text) > 1);
	return atoi(command->text);
}

static void open_top(const char *last)
{
	const char *build = getenv("TOW_TEST_BUILD");
	static char program[256];
	const char *arguments[] = { program, "top",   "--interval", "0.2", "--timeout",
				    "0.4",   "--job", "top",        last,  NULL };

	snprintf(program, sizeof(program), "%s/tools/towstat/towstat", build != NULL ? build : ".");
	twt_screen_open(&screen, arguments);
}

static void shows_ranks(void **state)
{
	(void)state;
	open_top("--reverse");
	twt_screen_await(&screen, "top.0", true);
	twt_screen_await(&screen, "2 of 2 ranks", true);
	twt_screen_await(&screen, "total of 2", true);
	twt_screen_await(&screen, "M/16M", true); /* the pool */
	assert_true(screen.alternate && screen.hidden);
	twt_screen_await(&screen, "sorted by name, reversed", true);
	twt_screen_type(&screen, "rss");
	twt_screen_await(&screen, "sorted by in ", true);
	twt_screen_type(&screen, "/rank=x\r");
	twt_screen_await(&screen, "rank=x is no number", true);
	twt_screen_type(&screen, "/job=nobodies\x7f\x7f\r");
	twt_screen_await(&screen, "no rank passes the filter", true);
	twt_screen_type(&screen, "/rank=1\r");
	twt_screen_await(&screen, "1 of 2 ranks", true);
	twt_screen_await(&screen, "top.0", false);
	twt_screen_type(&screen, "/\r?");
	twt_screen_await(&screen, "median of the collectives", true);
	twt_screen_type(&screen, " ");
	twt_screen_await(&screen, "top.0", true);
	twt_screen_await(&screen, "OUT/s", true);
	twt_screen_type(&screen, "\033[C\033[C");
	twt_screen_await(&screen, "OUT/s", false);
	twt_screen_type(&screen, "\033OD\033[D");
	twt_screen_await(&screen, "OUT/s", true);
	twt_screen_type(&screen, "q");
	assert_int_equal(twt_screen_end(&screen), 0);
}

static void follows_size(void **state)
{
	(void)state;
	open_top(NULL);
	twt_screen_await(&screen, "? help", true);
	assert_non_null(strstr(screen.cells[19], "? help"));
	twt_screen_clear(&screen, 0); /* as a terminal may */
	twt_screen_size(&screen, 10, 40);
	for (int i = 0; i < 1000 && strstr(screen.cells[9], "sorted by") == NULL; i++)
		twt_screen_read(&screen);
	assert_non_null(strstr(screen.cells[9], "sorted by"));
	assert_int_equal(screen.cells[9][40], ' '); /* cut at the edge */
	twt_screen_type(&screen, "\003");
	assert_int_equal(twt_screen_end(&screen), 0);
}

static void tells_who_stops_and_dies(void **state)
{
	pid_t pid = pid_of("top.1");

	(void)state;
	open_top(NULL);
	twt_screen_await(&screen, "2 of 2 ranks", true);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	twt_screen_await(&screen, "not answering for", true);
	twt_screen_await(&screen, " 1 up ", true);
	assert_int_equal(kill(pid, SIGCONT), 0);
	twt_screen_await(&screen, "not answering", false);
	assert_int_equal(kill(pid, SIGKILL), 0);
	twt_screen_await(&screen, "gone for", true);
	twt_screen_type(&screen, "q");
	assert_int_equal(twt_screen_end(&screen), 0);
}

static void restores_the_terminal(void **state)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV };

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		open_top(NULL);
		twt_screen_await(&screen, "? help", true);
		assert_true(screen.alternate && screen.hidden);
		assert_int_equal(kill(screen.pid, signals[i]), 0);
		assert_int_equal(twt_screen_end(&screen), 128 + signals[i]);
	}
	open_top(NULL);
	twt_screen_await(&screen, "? help", true);
	twt_screen_type(&screen, "\032"); /* ^Z: it stops, with the terminal given back */
	for (int i = 0; i < 1000 && screen.alternate; i++)
		twt_screen_read(&screen);
	assert_false(screen.alternate);
	assert_int_equal(kill(screen.pid, SIGCONT), 0);
	for (int i = 0; i < 1000 && !screen.alternate; i++) {
		twt_screen_read(&screen);
		kill(screen.pid, SIGCONT); /* it may not have stopped yet */
	}
	assert_true(screen.alternate);
	twt_screen_type(&screen, "q");
	assert_int_equal(twt_screen_end(&screen), 0);
}

static void prints_lines(void **state)
{
	(void)state;
	twt_command("@/tools/towstat/towstat top --once --interval 0.3 --job top", command);
	twt_command_expect(command, 0, "\ntop.", 2);
	twt_command_expect(command, 0, "\ntotal of 2", 1);
	twt_command_expect(command, 0, "\033", 0);
	twt_command(
		"@/tools/towstat/towstat top --plain -n 2 --interval 0.1 --filter rank=1 --job top",
		command);
	twt_command_expect(command, 0, "\ntop.1 ", 2);
	twt_command_expect(command, 0, "\ntop.0 ", 0);
	twt_command("@/tools/towstat/towstat top --once --interval 0.1 --job nobody", command);
	twt_command_expect(command, 1, "there is no live runtime here", 1);
	twt_command("@/tools/towstat/towstat top --sort size", command);
	twt_command_expect(command, 2, "no such column", 1);
}

static void gets_from_all(void **state)
{
	json_t *rows, *row;
	size_t i;

	(void)state;
	twt_command("@/tools/towstat/towstat get /v1/coll --job top --select 'groups[*].size'",
		    command);
	assert_int_equal(command->status, 0);
	rows = json_loads(command->text, 0, NULL);
	assert_int_equal(json_array_size(rows), 2);
	json_array_foreach(rows, i, row)
	{
		assert_int_equal(json_integer_value(json_object_get(row, "rank")), i);
		assert_int_equal(
			json_integer_value(json_array_get(json_object_get(row, "document"), 0)), 2);
	}
	json_decref(rows);
	twt_command("@/tools/towstat/towstat get /v1/info top.1 --select job --raw -i 0.05 -n 3",
		    command);
	assert_string_equal(command->text, "top\ntop\ntop\n");
	twt_command("@/tools/towstat/towstat get /v1/info top.1 --select knobs.none", command);
	twt_command_expect(command, 1, "no such member", 1);
	twt_command(
		"@/tools/towstat/towstat get snapshot top.0 >$TOW_STATS_DIR/a.json && "
		"@/tools/towstat/towstat diff $TOW_STATS_DIR/a.json $TOW_STATS_DIR/a.json; "
		"s=$?; @/tools/towstat/towstat diff $TOW_STATS_DIR/a.json top.0 -t 1000000 --json "
		">$TOW_STATS_DIR/b.json; echo $s $?; rm $TOW_STATS_DIR/?.json",
		command);
	twt_command_expect(command, 0, "0 worse by more than 10 %", 1);
	twt_command_expect(command, 0, "0 0\n", 1);
	twt_command("@/tools/towstat/towstat why --all", command);
	twt_command_expect(command, 0, "\ntop.1, process ", 1);
	twt_command("@/tools/towstat/towstat watch -i 0.05 -n 2 top.1", command);
	twt_command_expect(command, 0, "send MB/s", 1);
	twt_command("@/tools/towstat/towstat diff /etc/passwd top.0", command);
	twt_command_expect(command, 2, "no snapshot", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shows_ranks),
		cmocka_unit_test(follows_size),
		cmocka_unit_test(restores_the_terminal),
		cmocka_unit_test(prints_lines),
		cmocka_unit_test(gets_from_all),
		cmocka_unit_test(tells_who_stops_and_dies), /* the last: it kills one */
	};
	int failed;

	command = malloc(sizeof(*command));
	snprintf(dir, sizeof(dir), "/tmp/twt-top-XXXXXX");
	if (command == NULL || mkdtemp(dir) == NULL)
		return 1;
	setenv("TOW_STATS_DIR", dir, 1);
	setenv("TERM", "xterm", 1);
	failed = cmocka_run_group_tests(tests, start_job, end_job);
	free(command);
	if (fork() == 0)
		execlp("rm", "rm", "-rf", dir, NULL);
	wait(NULL);
	return failed;
}
