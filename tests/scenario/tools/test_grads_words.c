/*
 * test_grads_words.c - what tow-grads prints is what somebody reads who has never seen it: no table
 * without what the run did, no overlap below nothing, a little overlap with its reason, no size
 * recommended above one that was enough, no bytes that are shown as none, no number that this
 * program does not use.
 */
#include "command.h"

#include <ctype.h>
#include <sched.h>
#include <unistd.h>

#define LITTLE 25 /* percent of overlap, below which there is a reason */

static char dir[64];

static int setup(void **state)
{
	char path[128];
	FILE *file;

	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-words-XXXXXX");
	if (mkdtemp(dir) == NULL || setenv("TOW_STATS_DIR", dir, 1) != 0)
		return -1;
	snprintf(path, sizeof(path), "%s/some.tsv", dir);
	file = fopen(path, "we");
	if (file == NULL)
		return -1;
	fprintf(file, "name\tshape\tdtype\tbytes\n");
	for (int i = 0; i < 8; i++)
		fprintf(file, "h.%d.weight\t1024x1024\tf32\t4194304\n", i);
	return fclose(file);
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

static struct twt_command command;

/* What it printed. */
static const char *run(const char *options)
{
	char line[512];

	snprintf(line, sizeof(line), "@/bench/tow-grads --workload %s/some.tsv --bucket 8MiB %s",
		 dir, options);
	twt_command(line, &command);
	if (command.status != 0)
		fail_msg("%s: status %d:\n%s", line, command.status, command.text);
	return command.text;
}

/* What stands behind a label. */
static const char *behind(const char *text, const char *label)
{
	const char *at = strstr(text, label);

	if (at == NULL)
		fail_msg("there is no '%s' in:\n%s", label, text);
	at += strlen(label);
	return at + strspn(at, " ");
}

static bool says(const char *text, const char *words)
{
	return strstr(text, words) != NULL;
}

/* Both ranks have one processor: nothing can be hidden, and the line says so. */
static void overlap_with_reason(void **state)
{
	cpu_set_t all, one;
	int first = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET(first, &all))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	for (int i = 0; i < 3; i++) {
		const char *overlap = behind(run("--steps 3"), "\n  overlap ");

		if (*overlap == '-')
			fail_msg("less than nothing is hidden: %.40s", overlap);
		if ((!isdigit((unsigned char)*overlap) || atoi(overlap) < LITTLE) &&
		    !says(overlap, "2 ranks have 1\n"))
			fail_msg("no reason for: %.200s", overlap);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* The collectives that the steps were, with times; not the barriers, which move nothing. */
static void tables_of_the_run(void **state)
{
	const char *text = run("--steps 2 --lane shm");
	double count = 0, p50 = 0;

	(void)state;
	assert_int_equal(sscanf(behind(text, "\n  all-reduce "), "shm %lf %lf", &count, &p50), 2);
	assert_true(count >= 5 * 8 && p50 > 0); /* 8 tensors: a first exchange, 2 in each step */
	assert_false(says(text, "\n  barrier "));
	assert_true(says(text, " were read and written in the memory of other ranks"));
	assert_false(says(text, "--intensity"));
	/* Small messages of a collective wait for a late rank, and are no unexpected arrivals. */
	if (atoi(behind(text, "\n  fallback copies ")) == 0)
		assert_true(says(text, "fallback copies                    0 (0 B)"));
	else
		assert_true(says(text, "collective_ahead: "));
	assert_false(says(text, "unexpected_arrival"));
	assert_false(says(text, "FAULT"));
}

/* What was enough is what is recommended at most; what is recommended of too little is enough. */
static void sizes_agree(void **state)
{
	const char *text = run("--steps 1 --premap 72MiB");
	unsigned long long cure;
	double size, named;
	char options[64];

	(void)state;
	size = atof(behind(text, "\n  size "));
	named = atof(behind(text, "\n  recommended premap_memory_bytes "));
	assert_false(says(text, "FAULT"));
	assert_true(size >= 72 && named > 64 && named <= size);
	text = run("--steps 1 --premap 16MiB");
	assert_true(says(text, "FAULT: the pool is too small"));
	cure = strtoull(behind(text, "CURE: a pool of "), NULL, 10);
	snprintf(options, sizeof(options), "--steps 1 --premap %lluMiB", cure);
	assert_true(says(behind(text, "export TOW_PREMAP_MEMORY_BYTES="), "MiB\n"));
	assert_false(says(run(options), "FAULT"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overlap_with_reason),
		cmocka_unit_test(tables_of_the_run),
		cmocka_unit_test(sizes_agree),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
