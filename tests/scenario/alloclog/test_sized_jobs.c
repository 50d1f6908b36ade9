/*
 * test_sized_jobs.c - a program that links the library as users do is recorded, its pool is sized
 * by the log, and it runs again: at the size named nothing is late and nothing without room, at
 * 90 % of it something is. With collectives, whose own memory counts, over shared memory and over
 * TCP; and where the recording begins in the middle.
 */
#include "twt.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

static const struct job {
	const char *kind, *lanes;
	unsigned ranks;
	bool from_open; /* recorded from the open of the runtime; else for a second of it */
} jobs[] = {
	{ "reduces", "shm,tcp", 2, true },
	{ "reduces", "tcp", 2, true },
	{ "holds", "shm,tcp", 1, false },
	{ "waves", "shm,tcp", 1, false },
};

struct ran {
	unsigned long long late, refused, peak;
};

static char dir[64];

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-sized-XXXXXX");
	return mkdtemp(dir) == NULL ? -1 : setenv("TOW_STATS_DIR", dir, 1);
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

/* The worst of all ranks. */
static struct ran worst_of(const char *text)
{
	struct ran worst = { 0, 0, 0 }, one;
	int ranks = 0;

	for (const char *at = text; (at = strstr(at, "late ")) != NULL; at++) {
		if (sscanf(at, "late %llu refused %llu peak %llu", &one.late, &one.refused,
			   &one.peak) != 3)
			continue;
		worst.late = one.late > worst.late ? one.late : worst.late;
		worst.refused = one.refused > worst.refused ? one.refused : worst.refused;
		worst.peak = one.peak > worst.peak ? one.peak : worst.peak;
		ranks++;
	}
	if (ranks == 0)
		fail_msg("no rank has told its counts:\n%s", text);
	return worst;
}

/*
 * One run with so large a pool. With `record`, a shell command, in the middle of it, when all ranks
 * are ready.
 */
static struct ran run_job(const struct job *job, uint64_t premap, const char *record)
{
	static struct twt_command ran;
	char line[2048];

	snprintf(line, sizeof(line),
		 "rm -f %s/ready.* %s/leave; "
		 "TOW_JOB=sized TOW_LANES=%s TOW_ALLOCLOG=%d TOW_PREMAP_MEMORY_BYTES=%llu "
		 "@/tools/towrun/towrun -n %u --timeout 60 @/tests/sized_program %s %s & pid=$!; "
		 "for i in $(seq 600); do [ -e %s/ready.0 ] && [ -e %s/ready.%u ] && break; "
		 "sleep 0.05; done; sleep 0.3; %s; touch %s/leave; wait $pid",
		 dir, dir, job->lanes, job->from_open && record[0] != '\0',
		 (unsigned long long)premap, job->ranks, job->kind, dir, dir, dir, job->ranks - 1,
		 record, dir);
	twt_command(line, &ran);
	if (ran.status != 0)
		fail_msg("%s, %s: status %d:\n%s", job->kind, job->lanes, ran.status, ran.text);
	return worst_of(ran.text);
}

/* What tow-size names for the log of rank 0, verified. */
static uint64_t name_size(const struct job *job)
{
	static struct twt_command ran;
	unsigned long long named = 0;
	char line[256];

	snprintf(line, sizeof(line), "@/bench/tow-size --quick --replay %s/log", dir);
	twt_command(line, &ran);
	if (ran.status != 0 || sscanf(ran.text, "premap_memory_bytes=%llu", &named) != 1 ||
	    strstr(ran.text, "MiB), verified") == NULL ||
	    strstr(ran.text, "arena pagerun (as the log says)") == NULL)
		fail_msg("%s, %s: status %d:\n%s", job->kind, job->lanes, ran.status, ran.text);
	return named;
}

static void sizes_hold(void **state)
{
	char record[256];

	(void)state;
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		const struct job *job = &jobs[i];
		struct ran with, at, below;
		uint64_t named;

		snprintf(record, sizeof(record),
			 "@/tools/towstat/towstat alloclog sized.0 %s -o %s/log",
			 job->from_open ? "" : "--seconds 1", dir);
		with = run_job(job, (uint64_t)128 << 20, record);
		named = name_size(job);
		at = run_job(job, named, ":");
		below = run_job(job, named / 10 * 9, ":");
		printf("%s, %s: peak %llu, named %llu; late and refused at it %llu, %llu, at 90 %% "
		       "%llu, %llu\n",
		       job->kind, job->lanes, with.peak, (unsigned long long)named, at.late,
		       at.refused, below.late, below.refused);
		assert_int_equal(at.late + at.refused, 0);
		assert_true(below.refused > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(sizes_hold) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
