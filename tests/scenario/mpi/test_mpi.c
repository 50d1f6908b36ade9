/*
 * test_mpi.c - plugins/mpi as ranks of towrun: mpi_program.c says what each part holds it to. The
 * collectives and the messages run over every lane that joins processes.
 */
#include "twt.h"

#include <unistd.h>

#include <towline/towline.h>

#include "command.h"

#ifdef TWT_SANITIZED
#define CASES  96
#define ROUNDS 4
#define LEAST  2u
#else
#define CASES  320
#define ROUNDS 15
#define LEAST  6u
#endif
#define LARGE 120000 /* elements of 32 bytes: those of four ranks are more than POOL may grow to */

/* What its ranks have: to fault in 256 MiB for each was most of the test's time, 16 MiB a third. */
#define POOL "TOW_PREMAP_MEMORY_BYTES=4MiB"

static struct twt_command ran;

static void run_ranks(const char *before, unsigned ranks, const char *words)
{
	char line[512];

	snprintf(line, sizeof(line),
		 "%s " POOL " @/tools/towrun/towrun -n %u --timeout 120 -- "
		 "@/tests/mpi_program %s",
		 before, ranks, words);
	twt_command(line, &ran);
}

static void run_part(unsigned ranks, const char *part)
{
	run_ranks("", ranks, part);
	if (ran.status != 0)
		fail_msg("%s, %u ranks: status %d: %s", part, ranks, ran.status, ran.text);
}

static void comms(void **state)
{
	(void)state;
	for (unsigned ranks = 1; ranks <= 4; ranks++)
		run_part(ranks, "comms");
	run_part(4, "types");
	run_part(3, "memory");
}

static void errors(void **state)
{
	(void)state;
	run_part(1, "errors");
	run_part(3, "errors");
	run_part(2, "mismatch");
}

static void placed(void **state)
{
	(void)state;
#ifdef TWT_SANITIZED
	printf("skipped: a sanitizer and the preload cannot both be malloc\n");
	skip();
#else
	run_ranks("LD_PRELOAD=@/plugins/malloc/libtowline-malloc.so", 2, "placed");
	if (ran.status != 0)
		fail_msg("status %d: %s", ran.status, ran.text);
#endif
}

static void requests(void **state)
{
	(void)state;
	run_part(2, "requests");
	run_part(3, "requests");
	run_part(2, "threads");
	for (unsigned ranks = 1; ranks <= 3; ranks++)
		run_part(ranks, "probes");
}

/* A lane that cannot be had here says so when MPI is initialised. */
static bool lane_runs(const char *lane, unsigned ranks, const char *words)
{
	char before[64];

	snprintf(before, sizeof(before), "TOW_LANES=%s TOW_OFI_PROVIDER=tcp", lane);
	run_ranks(before, ranks, words);
	if (ran.status != 0 && strstr(ran.text, "no lane can open it") != NULL) {
		printf("%s is not here\n", lane);
		return false;
	}
	if (ran.status != 0)
		fail_msg("%s, %u ranks, %s: status %d: %s", lane, ranks, words, ran.status,
			 ran.text);
	return true;
}

/* A sanitized build plays each lane with one number of ranks, by the seed. */
static bool is_played(size_t lane, unsigned ranks, uint64_t seed)
{
#ifdef TWT_SANITIZED
	return (lane + ranks + seed) % 3 == 0;
#else
	(void)lane, (void)ranks, (void)seed;
	return true;
#endif
}

static void over_lanes(const char *part, unsigned cases)
{
	struct tow_lane_info lane = TOW_LANE_INFO_INIT;
	uint64_t seed = twt_seed();
	unsigned used = 0;
	char words[64];

	for (size_t at = 0; tow_lane_info(at, &lane) == TOW_OK; at++) {
		if (strcmp(lane.reach, "process") == 0)
			continue;
		for (unsigned ranks = 2; ranks <= 4; ranks++) {
			if (!is_played(at, ranks, seed))
				continue;
			snprintf(words, sizeof(words), "%s", part);
			if (cases > 0)
				snprintf(words, sizeof(words), "%s %llu %u", part,
					 (unsigned long long)seed + ranks, cases);
			used += lane_runs(lane.name, ranks, words);
		}
	}
	assert_true(used >= LEAST); /* tcp and shm are everywhere */
}

static void collectives(void **state)
{
	(void)state;
	over_lanes("collectives", CASES);
	over_lanes("large", LARGE);
}

static void messages(void **state)
{
	(void)state;
	run_part(1, "messages");
	over_lanes("random", ROUNDS);
	over_lanes("messages", 0);
}

/* Alone, with no launcher, a program is a job of one rank. */
static void alone(void **state)
{
	(void)state;
	twt_command("env -u TOW_RANK -u TOW_WORLD_SIZE -u TOW_STORE " POOL
		    " @/tests/mpi_program comms",
		    &ran);
	assert_int_equal(ran.status, 0);
}

/* XLA does not look at what MPI_Init gives: the process says why, and ends. */
static void no_job(void **state)
{
	(void)state;
	twt_command("TOW_RANK=1 TOW_WORLD_SIZE=x TOW_STORE=127.0.0.1:1 @/tests/mpi_program comms",
		    &ran);
	twt_command_expect(&ran, 1, "MPI_Init: TOW_EINVAL", 1);
	assert_non_null(strstr(ran.text, "TOW_WORLD_SIZE"));
}

/* That rank's line names the one that has gone, by itself or in what another told it. */
static void names_the_dead(const char *line)
{
	const char *at = strstr(ran.text, line);
	const char *words = at != NULL ? strstr(at, "rank 2 has gone") : NULL;

	if (words == NULL || memchr(at, '\n', (size_t)(words - at)) != NULL)
		fail_msg("no \"%s\" that names rank 2: %s", line, ran.text);
}

/* Behind a shell, so that towrun lets the others go on. */
static void killed(void **state)
{
	static const char *const lines[] = {
		"TOW_LANES=shm " POOL " @/tools/towrun/towrun -n 3 --timeout 60 -- "
		"sh -c '@/tests/mpi_program killed; echo status $?'",
		"TOW_LANES=tcp " POOL " @/tools/towrun/towrun -n 3 --timeout 60 -- "
		"sh -c '@/tests/mpi_program killed; echo status $?'",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		twt_command(lines[i], &ran);
		names_the_dead("[0] MPI_Allreduce, rank 0 of 3 of MPI_COMM_WORLD: TOW_EPEER");
		names_the_dead("[1] MPI_Allreduce, rank 1 of 3 of MPI_COMM_WORLD: TOW_EPEER");
		twt_command_expect(&ran, 0, "status 1\n", 2);
		twt_command_expect(&ran, 0, "that was no error", 0);
	}
}

/* Whoever waits, and for whom, in MPI's words, while the job hangs. */
static void late(void **state)
{
	static const char *const lines[] = {
		/* verdict and why, which the first rank asks of its job by no name */
		"rank 2 has not entered collective 2 of group 5 \"data?parallel\" (all-",
		/* why */
		"  all_reduce \"MPI_Allreduce\" number 2 in data?parallel: for ",
		"  recv of tag 0x11 with rank 2 in data?parallel: for ",
		/* get coll */
		"group 0 \"MPI_COMM_WORLD\": rank 0 of 3, ready",
		"group 4 \"split 1 of MPI_COMM_WORLD, color 5\": rank 0 of 3, ready",
		"group 5 \"data?parallel\": rank 2 of 3, ready",
		"verdict: status 3\n",
	};
	char line[1024], folder[] = "/tmp/twt-mpi-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(line, sizeof(line),
		 "TWT_TOWSTAT=@/tools/towstat/towstat TWT_ASKED=%s/asked TOW_STATS_DIR=%s " POOL " "
		 "@/tools/towrun/towrun -n 3 --timeout 120 -- @/tests/mpi_program late",
		 folder, folder);
	twt_command(line, &ran);
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		if (ran.status != 0 || strstr(ran.text, lines[i]) == NULL)
			fail_msg("status %d, no \"%s\": %s", ran.status, lines[i], ran.text);
	/* The first rank says so to verdict and why; the second knows it from the first. */
	twt_command_expect(&ran, 0, "(all-reduce \"MPI_Allreduce\"), in which rank 0", 3);
	snprintf(line, sizeof(line), "%s/asked", folder);
	assert_int_equal(unlink(line), 0);
	assert_int_equal(rmdir(folder), 0);
}

static void aborted(void **state)
{
	(void)state;
	twt_command(POOL " @/tools/towrun/towrun -n 3 --timeout 60 -- "
			 "sh -c '@/tests/mpi_program abort; echo status $?'",
		    &ran);
	twt_command_expect(&ran, 0, "rank 1 of 3 of MPI_COMM_WORLD ends the job with code 42", 3);
	twt_command_expect(&ran, 0, "status 42\n", 1);
	twt_command_expect(&ran, 0, "status 1\n", 2);
	twt_command_expect(&ran, 0, "that was no error", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comms),       cmocka_unit_test(errors),
		cmocka_unit_test(requests),    cmocka_unit_test(alone),
		cmocka_unit_test(collectives), cmocka_unit_test(no_job),
		cmocka_unit_test(messages),    cmocka_unit_test(placed),
		cmocka_unit_test(killed),      cmocka_unit_test(aborted),
		cmocka_unit_test(late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
