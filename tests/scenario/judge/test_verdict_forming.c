/*
 * test_verdict_forming.c - a rank of three is not started, and then late: each that waits for it
 * names it, and nobody else, until it has come; then the job is healthy. The jobs run beside each
 * other: all of them mostly wait.
 */
#include "beside.h"
#include "command.h"
#include "store_port.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#define RANKS   3u
#define LIMIT_S 90
#define ASKS    40 /* each takes a second and more */
#define TIMEOUT 60000000000ull
#define HALT_NS 20000000ull

static char folder[64], store[64], job_name[32];
static pid_t pids[RANKS];
static int port;
static struct twt_command command;

/* It opens the group, and meets the others again and again until it is killed. */
static void rank_main(uint32_t number)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct timespec pause = { .tv_nsec = (long)HALT_NS };
	struct tow_runtime *runtime;
	struct tow_group *group;

	alarm(LIMIT_S);
	options.premap_memory_bytes = 8 << 20;
	options.stats_dir = folder;
	options.rank = number;
	options.world_size = RANKS;
	options.store = store;
	options.job = job_name;
	if (tow_runtime_open(&options, &runtime) < 0 || tow_group_open(runtime, NULL, &group) < 0) {
		fprintf(stderr, "rank %u: %s\n", number, tow_error_message());
		_exit(1);
	}
	while (tow_group_barrier(group, TIMEOUT) == TOW_OK)
		nanosleep(&pause, NULL);
	_exit(1);
}

static void start_rank(uint32_t number)
{
	fflush(NULL);
	pids[number] = fork();
	assert_true(pids[number] >= 0);
	if (pids[number] == 0)
		rank_main(number);
}

/* Asks a rank until it says that, with that exit status. False: it never does. */
static bool is_told(uint32_t number, int status, const char *words)
{
	char line[192];

	snprintf(line, sizeof(line), "TOW_STATS_DIR=%s @/tools/towstat/towstat verdict %s.%u 2>&1",
		 folder, job_name, number);
	for (int i = 0; i < ASKS; i++) {
		twt_command(line, &command);
		if (command.status == status && strstr(command.text, words) != NULL)
			return true;
		usleep(200000);
	}
	return false;
}

static void must_tell(uint32_t number, int status, const char *words)
{
	if (!is_told(number, status, words))
		fail_msg("rank %u does not say '%s' (status %d): %d, %s", number, words, status,
			 command.status, command.text);
}

static void begin_job(const char *name)
{
	snprintf(job_name, sizeof(job_name), "%s", name);
	port = twt_store_port(store, sizeof(store));
}

static void end_job(void)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		if (pids[i] <= 0)
			continue;
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
		pids[i] = 0;
	}
	close(port);
}

/* All that wait name the one that is missing; when it has come, nobody does. */
static void play_late(uint32_t late, const char *counted)
{
	char words[64];

	snprintf(words, sizeof(words), "\nrank %u: not_come, has not come (", late);
	for (uint32_t i = 0; i < RANKS; i++)
		if (i != late)
			start_rank(i);
	for (uint32_t i = 0; i < RANKS; i++) {
		if (i == late)
			continue;
		must_tell(i, 3, words);
		twt_command_expect(&command, 3, "forming: 1 of 1 ranks answered", 1);
		twt_command_expect(&command, 3, counted, 1);
		twt_command_expect(&command, 3, store, 1);
		twt_command_expect(&command, 3, "mend: ", 1);
	}
	start_rank(late);
	for (uint32_t i = 0; i < RANKS; i++) {
		must_tell(i, 0, "healthy: 3 of 3 ranks answered");
		twt_command_expect(&command, 0, "not_come", 0);
	}
}

static void rank_two(void **state)
{
	(void)state;
	begin_job("formtwo");
	play_late(2, "1 of the job have not come");
	twt_command_expect(&command, 0, "2 of 3 ranks", 0);
	end_job();
}

/* Nobody knows more than that its store is not there, nor who else has come. */
static void rank_zero(void **state)
{
	(void)state;
	begin_job("formzero");
	play_late(0, "2 of the job have not come");
	end_job();
}

/* A process of another job is none of those that are missed, but the store has refused it. */
static void stranger(void **state)
{
	(void)state;
	begin_job("formother");
	start_rank(0);
	must_tell(0, 3, "\nranks 1, 2: not_come");
	start_rank(1);
	must_tell(0, 3, "\nrank 2: not_come");
	snprintf(job_name, sizeof(job_name), "formstray");
	start_rank(2);
	snprintf(job_name, sizeof(job_name), "formother");
	must_tell(0, 3, "rank 0's store says: ");
	twt_command_expect(&command, 3, "rank 2 says job 'formstray'", 1);
	end_job();
}

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/twt-forming-XXXXXX");
	return mkdtemp(folder) != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	char line[96];

	(void)state;
	end_job();
	snprintf(line, sizeof(line), "rm -rf %s", folder);
	twt_command(line, &command);
	return command.status;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rank_two, setup, teardown),
		cmocka_unit_test_setup_teardown(rank_zero, setup, teardown),
		cmocka_unit_test_setup_teardown(stranger, setup, teardown),
	};

	return twt_beside_tests(tests, sizeof(tests) / sizeof(tests[0]), 1, 3);
}
