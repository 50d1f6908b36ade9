/*
 * test_python.c - the package towline for Python, over the library of this build:
 * python_program.py says what each part holds it to. Also its wheel, where pip is to be had.
 */
#include "twt.h"

#include <unistd.h>

#include "command.h"
#include "job_lanes.h"

static struct twt_command ran;
static char python[32];

/* `before`: assignments and a launcher. */
static void run_part(const char *before, const char *part)
{
	char line[2048];

	snprintf(line, sizeof(line),
		 "PYTHONDONTWRITEBYTECODE=1 TOWLINE_LIBRARY=@/libtowline.so TOW_STATS=0 "
		 "TOW_PREMAP_MEMORY_BYTES=32MiB "
		 "PYTHONPATH=%s/plugins/torch %s %s %s/tests/scenario/python_program.py %s",
		 getenv("TOW_TEST_SOURCE"), before, python, getenv("TOW_TEST_SOURCE"), part);
	twt_command(line, &ran);
	if (ran.status != 0)
		fail_msg("%s: status %d: %s", part, ran.status, ran.text);
}

static void declarations(void **state)
{
	char part[1024];

	(void)state;
	snprintf(part, sizeof(part), "abi cc %s/include @/include", getenv("TOW_TEST_SOURCE"));
	run_part("", part);
}

static void alone(void **state)
{
	char part[1024];

	(void)state;
	run_part("", "memory");
	run_part("TOW_STATS=1", "tables");
	snprintf(part, sizeof(part), "wheel %s/plugins/torch", getenv("TOW_TEST_SOURCE"));
	run_part("", part);
}

static void run_ranks(unsigned lane, const char *parts, int ranks)
{
	const struct twt_lane *row = &twt_lanes[lane];
	char before[512], words[256];

	snprintf(before, sizeof(before),
		 "TOW_JOB_KEY=0123456789abcdef0123456789abcdef TOW_ENCRYPT=%d %s%s "
		 "@/tools/towrun/towrun -n %d",
		 row->encrypted, row->poller != NULL ? "TOW_POLLER=" : "",
		 row->poller != NULL ? row->poller : "", ranks);
	snprintf(words, sizeof(words), "ranks '%s' %llu %s", row->address[0],
		 (unsigned long long)twt_seed(), parts);
	run_part(before, words);
}

static void on_each_lane(void **state)
{
	(void)state;
	for (unsigned lane = 0; lane < TWT_LANES; lane++)
		if (twt_job_lane(lane))
			run_ranks(lane, "collectives drives failures messages", 2);
}

static void of_three_ranks(void **state)
{
	(void)state;
	run_part("@/tools/towrun/towrun -n 3", "ranks '' 7 collectives failures groups messages");
}

static void many_threads(void **state)
{
	(void)state;
	run_part("@/tools/towrun/towrun -n 2", "ranks '' 7 threads");
}

/* Whoever has come late is named, and the group and the operation by the program's words. */
static void asked_by_towstat(void **state)
{
	char folder[] = "/tmp/twt-python-XXXXXX", before[512];

	(void)state;
	assert_non_null(mkdtemp(folder));
	for (unsigned i = 0; i < 2; i++) {
		snprintf(before, sizeof(before),
			 "TOW_STATS=1 TOW_STATS_DIR=%s TOW_LANES=%s "
			 "TWT_TOWSTAT=@/tools/towstat/towstat @/tools/towrun/towrun -n 3",
			 folder, i == 0 ? "shm" : "tcp");
		run_part(before, "ranks '' 7 waits");
	}
	assert_int_equal(rmdir(folder), 0);
}

static void own_store(void **state)
{
	char folder[] = "/tmp/twt-python-XXXXXX", line[256];

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(line, sizeof(line), "exchange %s", folder);
	run_part("@/tools/towrun/towrun -n 3", line);
	snprintf(line, sizeof(line), "rm -r %s", folder);
	twt_command(line, &ran);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(declarations),     cmocka_unit_test(alone),
		cmocka_unit_test(on_each_lane),     cmocka_unit_test(of_three_ranks),
		cmocka_unit_test(many_threads),     cmocka_unit_test(own_store),
		cmocka_unit_test(asked_by_towstat),
	};
	static const char *const pythons[] = { "python3", "/usr/bin/python3" };

#ifdef TWT_SANITIZED
	printf("skipped: a sanitizer's library cannot be loaded into a Python without it\n");
	return 77;
#endif
	for (unsigned i = 0; i < 2 && python[0] == '\0'; i++) {
		char line[128];

		snprintf(line, sizeof(line), "%s -c 'import cffi, numpy'", pythons[i]);
		twt_command(line, &ran);
		if (ran.status == 0)
			snprintf(python, sizeof(python), "%s", pythons[i]);
	}
	if (python[0] == '\0') {
		printf("skipped: no Python here has cffi and numpy (Debian packages python3-cffi, "
		       "python3-numpy)\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
