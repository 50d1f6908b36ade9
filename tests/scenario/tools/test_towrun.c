/* test_towrun.c - towrun's own behaviour: what ranks see, what is printed, how a job ends. */
#include "twt.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"

static struct twt_command command;

static void run(const char *line)
{
	twt_command(line, &command);
}

static void nap_ms(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

static void variables(void **state)
{
	(void)state;
	run("unset TOW_JOB TOW_JOB_KEY TOW_JOB_KEY_FILE; @/tools/towrun/towrun -n 3 sh -c 'echo "
	    "$TOW_RANK/$TOW_WORLD_SIZE $TOW_LOCAL_RANK/$TOW_LOCAL_SIZE ${TOW_STORE%:*} "
	    "${#TOW_JOB_KEY} ${TOW_JOB%-*}'");
	twt_command_expect(&command, 0, "[0] 0/3 0/3 127.0.0.1 64 towrun\n", 1);
	twt_command_expect(&command, 0, "[2] 2/3 2/3 127.0.0.1 64 towrun\n", 1);
	/* What is set stays. */
	run("TOW_JOB=mine TOW_JOB_KEY=secret @/tools/towrun/towrun -n 2 sh -c 'echo $TOW_JOB_KEY "
	    "$TOW_JOB'");
	twt_command_expect(&command, 0, "secret mine\n", 2);
	run("TOW_JOB_KEY_FILE=/there @/tools/towrun/towrun -n 1 sh -c 'echo [$TOW_JOB_KEY]'");
	twt_command_expect(&command, 0, "[]", 1);
}

static void lines(void **state)
{
	(void)state;
	run("@/tools/towrun/towrun -n 2 sh -c 'echo out; echo err >&2; printf last'");
	twt_command_expect(&command, 0, "[0] out\n", 1);
	twt_command_expect(&command, 0, "[1] err\n", 1);
	twt_command_expect(&command, 0, "[0] last\n", 1);
	run("@/tools/towrun/towrun -n 2 --tag-output off sh -c 'echo plain'");
	twt_command_expect(&command, 0, "plain\nplain\n", 1);
	/* Lines of two ranks never mix, however they are written; long ones are cut. */
	run("@/tools/towrun/towrun -n 4 sh -c 'for i in 1 2 3 4 5 6 7 8 9; do printf abc; printf "
	    "\"def\\n\"; "
	    "done'");
	twt_command_expect(&command, 0, "] abcdef\n", 36);
	run("head -c 20000 /dev/zero | tr '\\0' x | @/tools/towrun/towrun -n 1 cat");
	twt_command_expect(&command, 0, "[0] xxx", 3);
	twt_command_expect(&command, 0, "\n", 3);
	assert_int_equal(strlen(command.text), 20000 + 3 * 5);
}

static void much_output(void **state)
{
	(void)state;
	run("@/tools/towrun/towrun -n 3 sh -c 'yes 0123456789 | head -n 100000' | sort | uniq -c");
	twt_command_expect(&command, 0, "100000 [", 3);
	/* Who reads has gone: the job ends, and says so. */
	run("{ @/tools/towrun/towrun -n 2 --grace 1 yes; echo status $?; } 2>&1 >/dev/full");
	assert_true(command.status != 0);
	run("{ @/tools/towrun/towrun -n 2 --grace 1 yes 2>&3; echo status $? >&3; } 3>&2 | head -n "
	    "1");
	twt_command_expect(&command, 0, "towrun: the ranks' output cannot be written", 1);
}

static void input(void **state)
{
	(void)state;
	run("printf 'a\\nb\\n' | @/tools/towrun/towrun -n 3 sh -c 'cat; echo end'");
	twt_command_expect(&command, 0, "[0] a\n[0] b\n", 1);
	twt_command_expect(&command, 0, "end\n", 3);
	/* Rank 0 does not read, and that is its affair. */
	run("yes | @/tools/towrun/towrun -n 2 true");
	twt_command_expect(&command, 0, "towrun", 0);
	run("seq 1 200000 | @/tools/towrun/towrun -n 1 sh -c 'sleep 0.2; cat' | tail -n 1");
	twt_command_expect(&command, 0, "[0] 200000\n", 1);
}

static void failures(void **state)
{
	static const struct {
		const char *line;
		int status;
		const char *words;
	} rows[] = {
		{ "-n 3 sh -c '[ $TOW_RANK = 1 ] && exit 7; exec sleep 100'", 7,
		  "towrun: rank 1 exited with status 7; the 2 that still ran were ended" },
		{ "-n 2 sh -c 'kill -9 $$'", 137, "was killed by signal 9 (Killed)" },
		{ "-n 2 sh -c 'kill -SEGV $$'", 139, "(Segmentation fault)" },
		{ "-n 1 false", 1, "towrun: rank 0 exited with status 1\n" },
		{ "-n 2 ./no-such-program", 127, "cannot run ./no-such-program: No such file" },
		{ "-n 2 /etc/passwd", 126, "cannot run /etc/passwd: Permission denied" },
		{ "-n 2 --timeout 0.3 sleep 100", 124,
		  "0.3 s are over, and 2 of 2 ranks had not ended" },
		/* Ranks that do not hear TERM are killed after the grace. */
		{ "-n 2 --grace 0.2 sh -c '[ $TOW_RANK = 1 ] && exit 3; trap \"\" TERM; while :; "
		  "do "
		  "sleep 1; done'",
		  3, "rank 1 exited with status 3" },
		{ "-n 2 --grace 0.2 --timeout 0.2 sh -c 'kill -STOP $$'", 124, "2 of 2" },
		{ "-n 0 true", 2, "-n is a number from 1 to 1024 ('0')" },
		{ "-n 2000 true", 2, "('2000')" },
		{ "true", 2, "-n is missing" },
		{ "-n 2", 2, "a program is missing" },
		{ "-n 2 --cores x true", 2, "--cores is" },
		{ "-n 2 --grace -1 true", 2, "--grace is" },
		{ "-n 2 --timeout 0 true", 2, "--timeout is" },
		{ "-n 2 --tag-output maybe true", 2, "on or off" },
		{ "-n 2 --wrong true", 2, "usage: towrun" },
		{ "--help", 0, "usage: towrun" },
		{ "--version", 0, "towrun " },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char line[512];

		snprintf(line, sizeof(line), "@/tools/towrun/towrun %s", rows[i].line);
		run(line);
		twt_command_expect(&command, rows[i].status, rows[i].words, 1);
	}
}

/* Options behind the program are the program's. */
static void arguments(void **state)
{
	(void)state;
	run("@/tools/towrun/towrun -n 1 -- echo -n -x --help");
	twt_command_expect(&command, 0, "[0] -x --help", 1);
}

static void cores(void **state)
{
	(void)state;
	run("@/tools/towrun/towrun -n 3 --cores 1 sh -c 'grep Cpus_allowed_list "
	    "/proc/self/status'");
	/* One core each, whatever there are. */
	twt_command_expect(&command, 0, "Cpus_allowed_list:", 3);
	assert_null(strchr(strstr(command.text, "list:"), '-'));
}

/*
 * The line of the shell runs towrun in the background as $P, and waits for it. What a shell starts
 * there ignores INT, and what nohup starts HUP, which env undoes.
 */
static void signals(void **state)
{
	static const char *const names[] = { "USR1", "USR2", "HUP", "INT", "TERM" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char line[512], words[32];

		snprintf(line, sizeof(line),
			 "D=$(mktemp -d); env --default-signal=INT,HUP,QUIT @/tools/towrun/towrun "
			 "-n 2 sh "
			 "-c 'trap "
			 "\"echo got %s; exit 0\" "
			 "%s; : >'$D'/$TOW_RANK; while :; do sleep 0.05; done' & P=$!; "
			 "while [ ! -e $D/0 ] || [ ! -e $D/1 ]; do sleep 0.05; done; "
			 "kill -%s $P; wait $P; code=$?; rm -r $D; exit $code",
			 names[i], names[i], names[i]);
		snprintf(words, sizeof(words), "got %s\n", names[i]);
		run(line);
		twt_command_expect(&command, 0, words, 2);
	}
	/* A rank that dies of it: 128 and the signal. */
	run("@/tools/towrun/towrun -n 2 sleep 100 & P=$!; sleep 0.3; kill -TERM $P; wait $P");
	twt_command_expect(&command, 143, "killed by signal 15", 1);
	/* Whoever asks twice means it. */
	run("env --default-signal=INT,HUP,QUIT @/tools/towrun/towrun -n 2 --grace 0.2 sh -c 'trap "
	    "\"\" "
	    "INT TERM; "
	    "while :; do sleep 0.1; "
	    "done' "
	    "& P=$!; sleep 0.3; kill -INT $P; sleep 0.2; kill -INT $P; wait $P");
	twt_command_expect(&command, 137, "killed by signal 9", 1);
}

/* Processes whose command line has this word; those that look for it have brackets in theirs. */
static int processes_of(const char *word)
{
	struct twt_command found;
	char line[128];

	snprintf(line, sizeof(line), "grep -lsaz -- '[%c]%s' /proc/[0-9]*/cmdline | wc -l", word[0],
		 word + 1);
	twt_command(line, &found);
	return atoi(found.text);
}

static void expect_none_left(const char *word)
{
	for (int i = 0; i < 100 && processes_of(word) > 0; i++)
		nap_ms(50);
	assert_int_equal(processes_of(word), 0);
}

/* Nothing is left of a job: neither ranks nor what they started, whatever happens to towrun. */
static void orphans(void **state)
{
	char line[512], word[32];

	(void)state;
	snprintf(word, sizeof(word), "86%d.5", (int)getpid()); /* seconds that nobody else sleeps */
	snprintf(line, sizeof(line),
		 "@/tools/towrun/towrun -n 2 sh -c 'sleep %s & sleep %s' & P=$!; sleep 0.4; kill "
		 "-9 $P; "
		 "wait $P",
		 word, word);
	run(line);
	assert_int_equal(command.status, 137);
	expect_none_left(word);
	/* A rank that ends leaves nothing in the background either. */
	snprintf(line, sizeof(line), "@/tools/towrun/towrun -n 2 sh -c 'sleep %s & exit 0'", word);
	run(line);
	assert_int_equal(command.status, 0);
	expect_none_left(word);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables),   cmocka_unit_test(lines),
		cmocka_unit_test(much_output), cmocka_unit_test(input),
		cmocka_unit_test(failures),    cmocka_unit_test(arguments),
		cmocka_unit_test(cores),       cmocka_unit_test(signals),
		cmocka_unit_test(orphans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
