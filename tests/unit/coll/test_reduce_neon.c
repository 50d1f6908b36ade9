/*
 * test_reduce_neon.c - the reductions of aarch64, built by a cross compiler and run by qemu-user.
 *
 * Skipped where one of them is missing (Debian: gcc-aarch64-linux-gnu, qemu-user).
 */
#include "command.h"
#include "twt.h"

static uint64_t seed;

static void test_neon(void **state)
{
	static struct twt_command done;
	char line[1024];

	(void)state;
	/* This file's path is as the compiler had it: from the build folder, or from the root. */
	snprintf(line, sizeof(line),
		 "program=$(mktemp) && trap 'rm -f \"$program\"' EXIT && cd @/ && "
		 "cd \"$(dirname '%s')/../../..\" && aarch64-linux-gnu-gcc -std=gnu17 -O2 -Wall "
		 "-Wextra -Werror -static -D_GNU_SOURCE -I. -Iinclude -Itests/support "
		 "tests/support/reduce_c*.c tests/support/reduce_model.c transport/coll/reduce/*.c "
		 "-lm -o \"$program\" && "
		 "timeout 150 qemu-aarch64 \"$program\" %llu 400",
		 __FILE__, (unsigned long long)seed);
	twt_command(line, &done);
	printf("%s", done.text);
	assert_int_equal(done.status, 0);
	assert_int_equal(twt_command_count(&done, "neon: compared"), 1);
	assert_int_equal(twt_command_count(&done, "400 cases, 0 wrong"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_neon) };
	static struct twt_command found;
	const char *needs[] = { "aarch64-linux-gnu-gcc", "qemu-aarch64" };
	char line[64];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(line, sizeof(line), "command -v %s", needs[i]);
		twt_command(line, &found);
		if (found.status != 0) {
			printf("skipped: %s is missing\n", needs[i]);
			return 77;
		}
	}
	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
