/*
 * test_malloc.c - plugins/malloc before an ordinary program: malloc_program.c says what each part
 * holds the preload to. Also with jemalloc behind it, and before programs that know nothing of
 * Towline.
 */
#include "twt.h"

#include <unistd.h>

#include "command.h"

#define JEMALLOC "libjemalloc.so.2"

static char stats_dir[] = "/tmp/twt-malloc-XXXXXX";
static struct twt_command ran;

/* `before`: assignments for its environment. `behind`: what is preloaded, too. */
static void run_loud(const char *before, const char *behind, const char *part)
{
	char line[1024];

	snprintf(line, sizeof(line),
		 "TOW_STATS_DIR=%s %s LD_PRELOAD=@/plugins/malloc/libtowline-malloc.so%s%s "
		 "@/tests/malloc_program %s",
		 stats_dir, before, *behind != '\0' ? ":" : "", behind, part);
	twt_command(line, &ran);
	if (ran.status != 0)
		fail_msg("%s: status %d: %s", part, ran.status, ran.text);
}

static void run_part(const char *before, const char *behind, const char *part)
{
	run_loud(before, behind, part);
	assert_null(strstr(ran.text, "towline-malloc"));
}

static void run_seeded(const char *behind, const char *part)
{
	uint64_t seed = twt_seed();
	char words[64];

	snprintf(words, sizeof(words), "%s %llu", part, (unsigned long long)seed);
	run_part("", behind, words);
}

static void family(void **state)
{
	(void)state;
	run_part("", "", "family");
	run_part("", "", "resizes");
}

static void threads(void **state)
{
	(void)state;
	run_seeded("", "threads");
}

static void runtimes(void **state)
{
	(void)state;
	run_part("", "", "outlives");
	run_part("", "", "shares");
	run_seeded("", "runtimes");
	run_part("", "", "swaps");
}

static void forks(void **state)
{
	(void)state;
	run_seeded("", "forks");
	run_loud("", "", "short_fork");
	assert_non_null(strstr(ran.text, "no memory to copy the allocations in the pool"));
}

static void how_much(void **state)
{
	(void)state;
	run_part("TOW_PLACE_SHARE=25", "", "share");
	run_part("TOW_PLACE_SHARE=100", "", "full");
}

static void what_it_is_for(void **state)
{
	(void)state;
	run_part("", "", "messages");
	run_part("TOW_PLACE_SHARE=0", "", "copies");
	run_part("TOW_PLACE_LEAST_BYTES=8MiB", "", "copies");
}

static void before_jemalloc(void **state)
{
	(void)state;
	twt_command("LD_PRELOAD=" JEMALLOC " true", &ran);
	if (*ran.text != '\0') {
		printf("skipped: there is no " JEMALLOC " on this machine\n");
		skip();
	}
	run_part("", JEMALLOC, "resizes");
	run_seeded(JEMALLOC, "threads");
	run_seeded(JEMALLOC, "forks");
}

/* Nothing of theirs changes: no runtime is opened, so nothing is placed, and no socket is made. */
static void others(void **state)
{
	(void)state;
	twt_command("export LD_PRELOAD=@/plugins/malloc/libtowline-malloc.so; seq 100000 | sort -r "
		    "| tail -n 1; sh -c 'ls / | wc -l' > /dev/null && echo fine",
		    &ran);
	twt_command_expect(&ran, 0, "fine", 1);
	assert_null(strstr(ran.text, "rror"));
}

static int setup(void **state)
{
	(void)state;
	return mkdtemp(stats_dir) == NULL;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(stats_dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(family),          cmocka_unit_test(threads),
		cmocka_unit_test(runtimes),        cmocka_unit_test(forks),
		cmocka_unit_test(how_much),        cmocka_unit_test(what_it_is_for),
		cmocka_unit_test(before_jemalloc), cmocka_unit_test(others),
	};

#ifdef TWT_SANITIZED
	printf("skipped: a sanitizer and the preload cannot both be malloc\n");
	return 77;
#endif
	return cmocka_run_group_tests(tests, setup, teardown);
}
