/* test_group.c - jobs of real processes under towrun: ranks that meet, and ranks that do not. */
#include "twt.h"

#include "beside.h"
#include "command.h"

#define AT_ONCE 6 /* jobs: most of them wait for a deadline */

static struct twt_command command;

static void run(const char *line)
{
	twt_command(line, &command);
}
#define PROGRAM "@/tests/group_program"

/* Barriers, every pair's messages, splits, values: alone, and with each pair dialling at once. */
static void well(void **state)
{
	static const int sizes[] = { 1, 2, 4, 8 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char line[256];

		snprintf(line, sizeof(line),
			 "@/tools/towrun/towrun -n %d --timeout 100 " PROGRAM " all", sizes[i]);
		run(line);
		twt_command_expect(&command, 0, "all well", sizes[i]);
	}
}

/* Without a copy through the connection's buffer, small words go by rendezvous, too. */
static void knobs(void **state)
{
	(void)state;
	run("TOW_EAGER_MAX_BYTES=0 @/tools/towrun/towrun -n 3 --timeout 100 " PROGRAM " all");
	twt_command_expect(&command, 0, "all well", 3);
	run("TOW_ENCRYPT=1 @/tools/towrun/towrun -n 3 --timeout 100 " PROGRAM " all");
	twt_command_expect(&command, 0, "all well", 3);
}

static void sizes(void **state)
{
	(void)state;
	run("@/tools/towrun/towrun -n 4 --timeout 60 " PROGRAM " sizes");
	twt_command_expect(&command, 0, "TOW_EMISMATCH: rank 3 says world_size 8, rank 0 says 4",
			   1);
	/* The others miss it, and hear why. */
	twt_command_expect(&command, 0, "the last because rank 3 says world_size 8, rank 0 says 4",
			   3);
}

static void twice(void **state)
{
	(void)state;
	run("@/tools/towrun/towrun -n 3 --timeout 60 " PROGRAM " twice");
	twt_command_expect(&command, 0, "TOW_EMISMATCH: two processes claim to be rank 1 of 3", 1);
	twt_command_expect(&command, 0, "the last because two processes claim to be rank 1 of 3",
			   2);
}

static void jobs(void **state)
{
	(void)state;
	run("@/tools/towrun/towrun -n 3 --timeout 60 sh -c '[ $TOW_RANK = 1 ] && export "
	    "TOW_JOB=other; "
	    "exec " PROGRAM " sizes'");
	twt_command_expect(&command, 0, "TOW_EMISMATCH: rank 1 says job 'other'", 1);
	twt_command_expect(&command, 0, "TOW_EMISMATCH: rank 2 says world_size 7", 1);
	twt_command_expect(&command, 0, "2 of 3 ranks have not come to 'open'", 1);
}

static void absent(void **state)
{
	(void)state;
	run("@/tools/towrun/towrun -n 4 --timeout 60 " PROGRAM " absent");
	twt_command_expect(&command, 0, "1 of 4 ranks have not come to 'open'", 3);
	twt_command_expect(&command, 0, "TOW_EDEADLINE", 3);
	twt_command_expect(&command, 0, " ms: 2\n", 3);
}

static void no_store(void **state)
{
	(void)state;
	run("@/tools/towrun/towrun -n 3 --timeout 60 " PROGRAM " no-store");
	twt_command_expect(&command, 0, "TOW_EDEADLINE: rank 0's store at 127.0.0.1:", 2);
	twt_command_expect(&command, 0, "ECONNREFUSED", 2);
}

static void wrong_key(void **state)
{
	(void)state;
	run("@/tools/towrun/towrun -n 3 --timeout 60 sh -c '[ $TOW_RANK = 1 ] && export "
	    "TOW_JOB_KEY=0123456789abcdef0123456789abcdef; exec " PROGRAM " absent'");
	twt_command_expect(&command, 0, "TOW_EAUTH", 1);
	twt_command_expect(&command, 0, "have not come to 'open'", 1);
	twt_command_expect(&command, 0, "connections were refused", 1);
}

/* Each is told, whether it has met rank 0 before or not. */
static void killed(void **state)
{
	(void)state;
	run("@/tools/towrun/towrun -n 3 --timeout 60 --grace 40 sh -c 'trap \"\" TERM; " PROGRAM
	    " killed-join; code=$?; [ $TOW_RANK = 0 ] && exit 0; exit $code'");
	twt_command_expect(&command, 0, "TOW_EPEER: rank 0's store", 1);
	run("@/tools/towrun/towrun -n 3 --timeout 60 --grace 40 sh -c 'trap \"\" TERM; " PROGRAM
	    " killed-barrier; code=$?; [ $TOW_RANK = 0 ] && exit 0; exit $code'");
	twt_command_expect(&command, 0, "TOW_EPEER", 2);
}

static void ends(void **state)
{
	static const char *const modes[] = { "barriers", "polled", "unclosed" };

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		char line[256];

		snprintf(line, sizeof(line),
			 "@/tools/towrun/towrun -n 3 --timeout 60 " PROGRAM " %s", modes[i]);
		run(line);
		twt_command_expect(&command, 0, "TOW_OK", 3);
	}
}

/* A hole in a launcher's variables is an error, and never a job of one rank. */
static void holes(void **state)
{
	(void)state;
	run("RANK=0 " PROGRAM " who");
	twt_command_expect(&command, 0, "TOW_EINVAL: torchrun: WORLD_SIZE is not set", 1);
	run(PROGRAM " who");
	twt_command_expect(&command, 0, "single 0/1 local 0/1 job towline", 1);
	run("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 " PROGRAM " all");
	twt_command_expect(&command, 0, "all well: 0 of 1", 1);
}

/* Two ranks as torchrun would start them, with names to look up. */
static void torchrun(void **state)
{
	(void)state;
	run("export MASTER_ADDR=localhost MASTER_PORT=$((21000 + $$ % 9000)) WORLD_SIZE=2 "
	    "TORCHELASTIC_RESTART_COUNT=1; RANK=1 " PROGRAM " all & RANK=0 " PROGRAM " all; "
	    "code=$?; wait; exit $code");
	twt_command_expect(&command, 0, "all well", 2);
	run("export MASTER_ADDR=localhost MASTER_PORT=$((21000 + $$ % 9000)) WORLD_SIZE=2; RANK=1 "
	    "TORCHELASTIC_RESTART_COUNT=1 " PROGRAM " open & RANK=0 " PROGRAM " open; wait");
	twt_command_expect(&command, 0, "rank 1 says restart 1 of the job, rank 0 says 0", 2);
	twt_command_expect(&command, 0, "TOW_EMISMATCH", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(well),     cmocka_unit_test(knobs),     cmocka_unit_test(sizes),
		cmocka_unit_test(twice),    cmocka_unit_test(jobs),      cmocka_unit_test(absent),
		cmocka_unit_test(no_store), cmocka_unit_test(wrong_key), cmocka_unit_test(killed),
		cmocka_unit_test(ends),     cmocka_unit_test(holes),     cmocka_unit_test(torchrun),
	};

	return twt_beside_tests(tests, sizeof(tests) / sizeof(tests[0]), 1, AT_ONCE);
}
