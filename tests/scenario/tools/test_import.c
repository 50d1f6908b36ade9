/*
 * test_import.c - tow-import: what runtimes write about memory becomes logs for tow-size.
 * import_program.py has the artefacts and says what each part holds it to; those of real runtimes
 * are in tests/runtimes/test_import.py.
 */
#include "twt.h"

#include "command.h"

static struct twt_command ran;

static void run_part(const char *part)
{
	char line[1024];

	snprintf(line, sizeof(line),
		 "PYTHONDONTWRITEBYTECODE=1 python3 %s/tests/scenario/import_program.py %s "
		 "@/tools/import/tow-import @/bench/tow-size %llu",
		 getenv("TOW_TEST_SOURCE"), part, (unsigned long long)twt_seed());
	twt_command(line, &ran);
	if (ran.status != 0)
		fail_msg("%s: status %d: %s", part, ran.status, ran.text);
}

static void becomes_logs(void **state)
{
	(void)state;
	run_part("logs");
}

static void refuses_nonsense(void **state)
{
	(void)state;
	run_part("refusals");
}

static void logs_are_replayed(void **state)
{
	(void)state;
	run_part("replays");
}

static void survives_anything(void **state)
{
	(void)state;
	run_part("random");
	print_message("%s", ran.text);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(becomes_logs),
		cmocka_unit_test(refuses_nonsense),
		cmocka_unit_test(logs_are_replayed),
		cmocka_unit_test(survives_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
