/*
 * test_hung_stacks.c - a rank hangs in a function of its own: the verdict on its job has its stack
 * beside it, towstat has those of all its threads, and without the knob both say how to have them.
 *
 * The rank that hangs asks itself, from within that function, while the others wait for it.
 */
#include "beside.h"
#include "coll_team.h"
#include "command.h"

#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include <towline/stats.h>

#define RANKS  3
#define SIGNAL 40

static char folder[64], job_name[64];
static int64_t number; /* of the signal; 0: none */
static uint64_t seed;

static void with_signal(struct tow_options *options)
{
	options->stats = 1;
	options->stacks_signal = number;
	options->stats_dir = folder;
	options->job = job_name;
}

static struct twt_command *ask(const char *what)
{
	struct twt_command *command = malloc(sizeof(*command));
	char line[256];

	TWT_TRUE(command != NULL);
	snprintf(line, sizeof(line), "TOW_STATS_DIR=%s @/tools/towstat/towstat %s", folder, what);
	twt_command(line, command);
	return command;
}

/* Says which words are not there. */
static void check_words(const struct twt_command *command, const char *const *words)
{
	for (; *words != NULL; words++) {
		if (strstr(command->text, *words) == NULL)
			fprintf(stderr, "'%s' is not in:\n%s\n", *words, command->text);
		TWT_TRUE(strstr(command->text, *words) != NULL);
	}
}

static void check_document(struct tow_runtime *runtime)
{
	json_t *root, *first;
	char *text;

	TWT_OK(tow_stats_get(runtime, "/v1/stacks", &text));
	root = json_loads(text, 0, NULL);
	first = json_array_get(json_object_get(root, "threads"), 0);
	TWT_TRUE(json_integer_value(json_object_get(first, "tid")) == getpid());
	TWT_TRUE(json_integer_value(json_object_get(root, "signal")) == number);
	TWT_TRUE((json_array_size(json_object_get(first, "frames")) > 0) == (number != 0));
	TWT_TRUE(json_is_null(json_object_get(first, "why_none")) == (number != 0));
	json_decref(root);
	tow_stats_release(text);
}

static __attribute__((noinline)) int hang_here(const struct twt_rank *rank)
{
	const char *all[] = { "stuck", "never_entered", "hang_here", "where rank", NULL };
	const char *none[] = { "stuck", "never_entered", "with TOW_STACKS_SIGNAL", NULL };
	const char *waits[] = { "tow_op_wait", "hang_here", "# ", NULL };
	const char *off[] = { "no stack: the knob stacks_signal is 0", NULL };
	struct twt_command *verdict, *stacks;
	char line[128];

	usleep(2500000); /* before that nobody is missed */
	snprintf(line, sizeof(line), "verdict %s", job_name);
	verdict = ask(line);
	if (verdict->status != 3)
		fprintf(stderr, "verdict: %d, %s\n", verdict->status, verdict->text);
	TWT_TRUE(verdict->status == 3);
	check_words(verdict, number != 0 ? all : none);
	snprintf(line, sizeof(line), "stacks %s", job_name);
	stacks = ask(line);
	TWT_TRUE(stacks->status == 0);
	check_words(stacks, number != 0 ? waits : off);
	check_document(rank->runtime);
	free(verdict);
	free(stacks);
	return 0;
}

static void play(struct twt_rank *rank)
{
	uint32_t victim = *(const uint32_t *)rank->arg;

	for (int i = 0; i < 3; i++)
		TWT_OK(tow_group_barrier(rank->group, TOW_FOREVER));
	if (rank->rank == victim)
		TWT_TRUE(hang_here(rank) == 0);
	TWT_OK(tow_group_barrier(rank->group, TOW_FOREVER));
}

static void play_on(const char *lane, int64_t signal_number, void (*run)(struct twt_rank *rank))
{
	uint64_t state = seed;
	uint32_t victim = (uint32_t)twt_random_below(&state, RANKS);
	struct twt_job job = { .ranks = RANKS, .lane = lane, .run = run, .arg = &victim };

	snprintf(job_name, sizeof(job_name), "stacks%d", (int)getpid());
	number = signal_number;
	job.options = with_signal;
	twt_ranks(&job);
}

static void test_tcp(void **state)
{
	(void)state;
	play_on("tcp://127.0.0.1:0", SIGNAL, play);
}

static void test_shm(void **state)
{
	(void)state;
	play_on(NULL, SIGNAL, play);
}

static void test_without(void **state)
{
	(void)state;
	play_on(NULL, 0, play);
}

static void on_signal(int taken)
{
	(void)taken;
}

/* --- a rank that is stopped, of which the one behind it asks before it joins the others --- */

static _Atomic pid_t *stopped; /* shared by all ranks */

static void ask_of_stopped(void)
{
	char line[128];
	struct twt_command *verdict;

	while (atomic_load(stopped) == 0)
		usleep(1000);
	usleep(2500000);
	snprintf(line, sizeof(line), "verdict %s 2>&1", job_name);
	verdict = ask(line);
	kill(atomic_load(stopped), SIGCONT);
	check_words(verdict, (const char *const[]){ "stopped, is stopped", NULL });
	/* It was asked for the verdict, perhaps, and not for its stack as well. */
	TWT_TRUE(twt_command_count(verdict, "its process does not answer") <= 1);
	TWT_TRUE(twt_command_count(verdict, "where rank") <= 1);
	free(verdict);
}

static void play_stopped(struct twt_rank *rank)
{
	uint32_t victim = *(const uint32_t *)rank->arg;

	TWT_OK(tow_group_barrier(rank->group, TOW_FOREVER));
	if (rank->rank == victim) {
		atomic_store(stopped, getpid());
		raise(SIGSTOP);
	}
	if (rank->rank == (victim + 1) % RANKS)
		ask_of_stopped();
	TWT_OK(tow_group_barrier(rank->group, TOW_FOREVER));
}

static void test_stopped(void **state)
{
	(void)state;
	stopped = mmap(NULL, sizeof(*stopped), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	assert_true(stopped != MAP_FAILED);
	play_on("tcp://127.0.0.1:0", SIGNAL, play_stopped);
}

static void test_knob(void **state)
{
	static const struct {
		int64_t number;
		int status;
		const char *says;
		int64_t trace_signal; /* 0: none */
	} rows[] = {
		{ 65, TOW_EINVAL, "stacks_signal", 0 },
		{ SIGSEGV, TOW_EINVAL, "SIGSEGV is the signal of a fault", 0 },
		{ SIGKILL, TOW_EINVAL, "stacks_signal = 9", 0 },
		{ SIGUSR1, TOW_EBUSY, "the program handles that signal itself", 0 },
		{ SIGUSR2, TOW_EINVAL, "is trace_signal as well", SIGUSR2 },
		{ SIGQUIT, TOW_EINVAL, "which asks for the verdict", 0 },
	};

	(void)state;
	signal(SIGUSR1, on_signal);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tow_options options = TOW_OPTIONS_INIT;
		struct tow_runtime *runtime;

		number = rows[i].number;
		with_signal(&options);
		options.premap_memory_bytes = 1 << 20;
		options.verdict_on_sigquit = 1;
		if (rows[i].trace_signal != 0)
			options.trace_signal = rows[i].trace_signal;
		assert_int_equal(tow_runtime_open(&options, &runtime), rows[i].status);
		if (strstr(tow_error_message(), rows[i].says) == NULL)
			fail_msg("%s", tow_error_message());
	}
	signal(SIGUSR1, SIG_DFL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tcp),     cmocka_unit_test(test_shm),
		cmocka_unit_test(test_without), cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_knob),
	};
	int failed;

	seed = twt_seed();
	snprintf(folder, sizeof(folder), "/tmp/tow-stacks-XXXXXX");
	if (mkdtemp(folder) == NULL)
		return 1;
	failed = twt_beside_tests(tests, sizeof(tests) / sizeof(tests[0]), 1, 4);
	rmdir(folder);
	return failed;
}
