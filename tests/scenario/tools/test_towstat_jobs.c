/*
 * test_towstat_jobs.c - what docs/overview.md says of a running job, on a job of three ranks, alone
 * and with another job beside it: by no name, by the job's, and by that of one rank.
 */
#include "beside.h"

#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "tools/towstat/towstat.h"

#define RANKS 3

static char dir[64];
static struct twt_command command;

/* A job that reduces for half a minute, or until its towrun is told to end. */
static pid_t start_job(const char *name)
{
	const char *build = getenv("TOW_TEST_BUILD");
	char towrun[512], program[512];
	pid_t pid;

	snprintf(towrun, sizeof(towrun), "%s/tools/towrun/towrun", build != NULL ? build : ".");
	snprintf(program, sizeof(program), "%s/tests/group_program", build != NULL ? build : ".");
	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setenv("TOW_JOB", name, 1);
		if (freopen("/dev/null", "w", stdout) == NULL ||
		    dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
			_exit(126);
		execl(towrun, "towrun", "-n", "3", "--grace", "2", program, "reduce", NULL);
		_exit(127);
	}
	return pid;
}

static void end_job(pid_t pid)
{
	int status;

	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* Until each rank of the job has done its first collectives. */
static void await_job(const char *name)
{
	char line[256];

	snprintf(line, sizeof(line),
		 "@/tools/towstat/towstat get /v1/coll --job %s --select 'last[3].seq'", name);
	for (int turn = 0; turn < 300; turn++) {
		json_t *rows;

		twt_command(line, &command);
		rows = json_loads(command.text, 0, NULL);
		if (command.status == 0 && json_array_size(rows) == RANKS) {
			json_decref(rows);
			return;
		}
		json_decref(rows);
		usleep(100000);
	}
	fail_msg("the job %s did not come up: %s", name, command.text);
}

static int setup(void **state)
{
	static pid_t first;

	snprintf(dir, sizeof(dir), "/tmp/twt-jobs-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	setenv("TOW_STATS_DIR", dir, 1);
	first = start_job("one");
	*state = &first;
	await_job("one");
	return 0;
}

static int teardown(void **state)
{
	char line[128];

	end_job(*(pid_t *)*state);
	snprintf(line, sizeof(line), "rm -r %s", dir); /* ranks that are killed leave their files */
	twt_command(line, &command);
	return command.status;
}

static void towstat(const char *arguments)
{
	char line[512];

	snprintf(line, sizeof(line), "@/tools/towstat/towstat %s", arguments);
	twt_command(line, &command);
}

static void expect(const char *arguments, const char *words, int count)
{
	towstat(arguments);
	twt_command_expect(&command, 0, words, count);
}

/* The array of an answer that names each rank of the job once, with its document. */
static json_t *rows_of(const char *arguments, const char *job)
{
	json_t *rows, *row;
	size_t i;

	towstat(arguments);
	rows = json_loads(command.text, 0, NULL);
	if (command.status != 0 || json_array_size(rows) != RANKS)
		fail_msg("towstat %s: status %d: %s", arguments, command.status, command.text);
	json_array_foreach(rows, i, row)
	{
		assert_string_equal(json_string_value(json_object_get(row, "job")), job);
		assert_int_equal(json_integer_value(json_object_get(row, "rank")), i);
		assert_non_null(json_object_get(row, "document"));
	}
	return rows;
}

/* What a job that does nothing but exchange is called, and one that a busy machine holds up. */
static bool is_verdict(int status)
{
	return status == VERDICT_HEALTHY || status == VERDICT_NOBODY || status == VERDICT_FOUND;
}

/* The commands as docs/overview.md has them; `name` is "" or " JOB". */
static void all_commands(const char *name, const char *job)
{
	char line[256];
	json_t *root;

	snprintf(line, sizeof(line), "watch 0.2%s -n 2", name);
	expect(line, "3 ranks together", 1);
	twt_command_expect(&command, 0, "\n", 4);
	snprintf(line, sizeof(line), "get coll%s", name);
	expect(line, "group 0: rank ", RANKS);
	twt_command_expect(&command, 0, "# one.", strcmp(job, "one") == 0 ? RANKS : 0);
	snprintf(line, sizeof(line), "why%s", name);
	expect(line, ", process ", RANKS);
	snprintf(line, sizeof(line), "verdict%s --json", name);
	towstat(line);
	root = json_loads(command.text, 0, NULL);
	assert_true(is_verdict(command.status));
	assert_int_equal(json_integer_value(json_object_get(root, "ranks_in_job")), RANKS);
	assert_int_equal(json_integer_value(json_object_get(root, "ranks_answered")), RANKS);
	json_decref(root);
	snprintf(line, sizeof(line), "verdict%s", name);
	towstat(line);
	twt_command_expect(&command, is_verdict(command.status) ? command.status : 0,
			   "3 of 3 ranks answered", 1);
	snprintf(line, sizeof(line), "why%s --json", name);
	json_decref(rows_of(line, job));
	snprintf(line, sizeof(line), "get /v1/bpf%s", name);
	json_decref(rows_of(line, job));
	snprintf(line, sizeof(line), "get snapshot%s", name);
	json_decref(rows_of(line, job));
	snprintf(line, sizeof(line), "get /metrics%s | grep -e '# EOF' -e '^# %s'", name, job);
	expect(line, "# EOF", RANKS);
	twt_command_expect(&command, 0, ".2\n", 1);
	snprintf(line, sizeof(line), "get /v1/info%s --select rank", name);
	json_decref(rows_of(line, job));
}

static void alone(void **state)
{
	(void)state;
	all_commands("", "one");
	all_commands(" one", "one");
}

/* One rank is still one: its documents as they are. */
static void one_rank(void **state)
{
	json_t *root;

	(void)state;
	expect("watch 0.2 one.1 -n 1", "ranks together", 0);
	expect("get coll one.1", "group 0: rank 1 of 3", 1);
	expect("why one.1", "one.1, process ", 1);
	towstat("get /v1/info one.1");
	root = json_loads(command.text, 0, NULL);
	assert_int_equal(json_integer_value(json_object_get(root, "rank")), 1);
	json_decref(root);
	towstat("alloclog one -o /dev/null");
	twt_command_expect(&command, 1, "name one of one.0 one.1 one.2", 1);
}

/* The sum is of all: three ranks reduce as often as each of them does, three times over. */
static void sums(void **state)
{
	static double one[16], all[16];
	double *rates[2] = { one, all };

	(void)state;
	for (int i = 0; i < 2; i++) {
		char *line;
		double *out = rates[i];

		towstat(i == 0 ? "watch 1 one.0 -n 1" : "watch 1 one -n 1");
		assert_int_equal(command.status, 0);
		line = strstr(command.text, "p99 us\n");
		assert_non_null(line);
		assert_int_equal(
			sscanf(line + 7, "%*s %lf %lf %lf %lf", &out[0], &out[1], &out[2], &out[3]),
			4);
	}
	/* By messages there are sends; in shared memory there may be none at all. */
	if (one[2] < 10)
		return;
	assert_true(all[2] > 1.5 * one[2]);
}

/* With another job beside it a name is needed, and the one that is wanted is asked. */
static void beside(void **state)
{
	pid_t second = start_job("two");
	static const char *const commands[] = { "watch 0.2 -n 1", "get coll", "why", "verdict",
						"get /v1/info" };

	(void)state;
	await_job("two");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		towstat(commands[i]);
		twt_command_expect(&command, 1, "several jobs run here: one, two; name one", 1);
	}
	all_commands(" one", "one");
	all_commands(" two", "two");
	towstat("why three");
	twt_command_expect(&command, 1, "no live runtime or job is called three", 1);
	end_job(second);
}

/* TOW_STATS_DIR names the place: what lives in another one, a default one too, is not meant. */
static void elsewhere(void **state)
{
	char other[] = "/tmp/twt-jobs-XXXXXX", line[256];
	pid_t second;

	(void)state;
	assert_non_null(mkdtemp(other));
	setenv("XDG_RUNTIME_DIR", other, 1);
	unsetenv("TOW_STATS_DIR");
	second = start_job("two");
	await_job("two");
	setenv("TOW_STATS_DIR", dir, 1);
	all_commands("", "one");
	towstat("why two");
	twt_command_expect(&command, 1, "no live runtime or job is called two", 1);
	end_job(second);
	unsetenv("XDG_RUNTIME_DIR");
	snprintf(line, sizeof(line), "rm -r %s", other);
	twt_command(line, &command);
	assert_int_equal(command.status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(alone, setup, teardown),
		cmocka_unit_test_setup_teardown(one_rank, setup, teardown),
		cmocka_unit_test_setup_teardown(sums, setup, teardown),
		cmocka_unit_test_setup_teardown(beside, setup, teardown),
		cmocka_unit_test_setup_teardown(elsewhere, setup, teardown),
	};

	return twt_beside_tests(tests, sizeof(tests) / sizeof(tests[0]), 1, 3);
}
