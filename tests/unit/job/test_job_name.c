/*
 * test_job_name.c - what a job is called that nobody has given a name: the same at all of its
 * ranks, another one than that of another job, and legal in the name of a socket.
 */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "transport/job/bootstrap.h"

#define VARS 8

static bool name_of(const char *const env[VARS], char out[TWI_JOB_NAME])
{
	const struct twi_bootstrap_input in = {
		.env = env, .hostname = "h", .fqdn = "h.x", .rank = -1, .job = "towline"
	};
	struct twi_bootstrap found;

	assert_int_equal(twi_bootstrap_detect(&in, &found), TOW_OK);
	return twi_job_name(&found, out);
}

#define RANKS "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=m"

static void by_launcher(void **state)
{
	static const struct {
		const char *env[VARS];
		const char *name; /* NULL: none */
	} rows[] = {
		{ { RANKS, "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=ab-12" }, "torchrun-ab-12" },
		{ { RANKS, "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=my job/3" },
		  "torchrun-my-job-3" },
		/* torchrun calls a job so that has no id, and there may be several */
		{ { RANKS, "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=none" }, "torchrun-29500" },
		{ { RANKS, "MASTER_PORT=29501", "TORCHELASTIC_RUN_ID=none" }, "torchrun-29501" },
		{ { RANKS, "MASTER_PORT=29500" }, "torchrun-29500" },
		{ { RANKS, "MASTER_PORT=29500", "TOW_STORE=s:9" }, "torchrun-29500" },
		{ { "RANK=0", "WORLD_SIZE=1" }, NULL },
		{ { "RANK=0", "WORLD_SIZE=1", "MASTER_PORT=7" }, "torchrun-7" },
		{ { "TOW_RANK=0", "TOW_WORLD_SIZE=2", "TOW_STORE=s:9" }, NULL },
		{ { "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=4", "SLURM_JOB_ID=77",
		    "SLURM_STEP_ID=2", "SLURM_STEP_NODELIST=n[1-2]" },
		  "slurm-77.2" },
		{ { NULL }, NULL },
	};
	char out[TWI_JOB_NAME];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool named = name_of(rows[i].env, out);

		if (named != (rows[i].name != NULL) || (named && strcmp(out, rows[i].name) != 0))
			fail_msg("row %zu: '%s', not '%s'", i, named ? out : "none",
				 rows[i].name != NULL ? rows[i].name : "none");
	}
}

/* Two long ones that differ at their ends are two. */
static void long_ones(void **state)
{
	char one[160] = "TORCHELASTIC_RUN_ID=", two[160], a[TWI_JOB_NAME], b[TWI_JOB_NAME];
	const char *env[VARS] = { RANKS, "MASTER_PORT=29500", one };

	(void)state;
	for (size_t bytes = 1; bytes < 120; bytes++) {
		memset(one + 20, 'x', bytes);
		one[20 + bytes] = '\0';
		snprintf(two, sizeof(two), "%s", one);
		two[19 + bytes] = 'y';
		env[4] = one;
		assert_true(name_of(env, a));
		env[4] = two;
		assert_true(name_of(env, b));
		assert_string_not_equal(a, b);
		assert_true(strlen(a) < TWI_JOB_NAME &&
			    strspn(a, "abcdefghijklmnopqrstuvwxyz0123456789-.") == strlen(a));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(by_launcher),
					    cmocka_unit_test(long_ones) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
