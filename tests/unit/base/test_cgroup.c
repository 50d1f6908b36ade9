/*
 * test_cgroup.c - control groups as files say them: version 1 and 2, groups within groups, what a
 * container sees, and files that are not as they should be.
 */
#include "twt.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diag/base/cgroup.h"

struct tree_file {
	const char *path, *text;
};

static char root[64];

/* All folders above the file are made. */
static void put(const char *path, const char *text)
{
	char full[700];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		mkdir(full, 0700);
		*at = '/';
	}
	file = fopen(full, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void plant(const struct tree_file *files)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	if (root[0] != '\0')
		assert_int_equal(system(command), 0);
	snprintf(root, sizeof(root), "/tmp/tow-cgroup-XXXXXX");
	assert_non_null(mkdtemp(root));
	for (; files->path != NULL; files++)
		put(files->path, files->text);
}

static void expect(const struct tree_file *files, bool known, uint64_t ns)
{
	uint64_t got = 17;

	plant(files);
	assert_int_equal(twi_cgroup_throttled(root, &got), known);
	assert_int_equal(got, ns);
}

#define SELF "/proc/self/cgroup"
#define TOP  "/sys/fs/cgroup/"

static void test_throttled(void **state)
{
	const struct tree_file two[] = {
		{ SELF, "0::/job/rank0\n" },
		{ TOP "job/rank0/cpu.stat",
		  "usage_usec 5\nnr_throttled 7\nthrottled_usec 2000000\nburst_usec 3\n" },
		{ TOP "job/cpu.stat", "usage_usec 9\nthrottled_usec 40\n" },
		{ TOP "cpu.stat", "usage_usec 11\n" }, /* the root has no quota */
		{ NULL, NULL },
	};
	const struct tree_file one[] = {
		{ SELF, "5:memory:/m\n3:cpu,cpuacct:/a/b\n1:name=systemd:/\n" },
		{ TOP "cpu/a/b/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 123456\n" },
		{ TOP "cpu/a/cpu.stat", "throttled_time 1000\n" },
		{ TOP "memory/m/cpu.stat", "throttled_time 9\n" },
		{ NULL, NULL },
	};
	const struct tree_file both_names[] = {
		{ SELF, "3:cpu,cpuacct:/a\n" },
		{ TOP "cpu,cpuacct/a/cpu.stat", "throttled_time 77\n" },
		{ NULL, NULL },
	};
	/* A container sees its own group at the top, and may read the host's path of it. */
	const struct tree_file container[] = {
		{ SELF, "0::/docker/0123\n" },
		{ TOP "cpu.stat", "throttled_usec 6\n" },
		{ NULL, NULL },
	};
	/* Both are mounted, and version 1 has the CPUs. */
	const struct tree_file hybrid[] = {
		{ SELF, "1:cpu:/x\n0::/x\n" },
		{ TOP "unified/x/cpu.stat", "usage_usec 5\n" },
		{ TOP "cpu/x/cpu.stat", "throttled_time 8\n" },
		{ NULL, NULL },
	};

	(void)state;
	expect(two, true, 2000040000);
	expect(one, true, 124456);
	expect(both_names, true, 77);
	expect(container, true, 6000);
	expect(hybrid, true, 8);
}

static void test_periods(void **state)
{
	/* Periods of 100 ms, 5 ms of each its own: of 12 some are not added up yet, or all are. */
	const struct tree_file live[] = {
		{ SELF, "0::/q\n" },
		{ TOP "q/cpu.stat", "nr_periods 14\nnr_throttled 12\nthrottled_usec 800000\n" },
		{ TOP "q/cpu.max", "5000 100000\n" },
		{ NULL, NULL },
	};
	const struct tree_file added_up[] = {
		{ SELF, "3:cpu:/q\n" },
		{ TOP "cpu/q/cpu.stat", "nr_throttled 2\nthrottled_time 800000000\n" },
		{ TOP "cpu/q/cpu.cfs_quota_us", "5000\n" },
		{ TOP "cpu/q/cpu.cfs_period_us", "100000\n" },
		{ NULL, NULL },
	};
	const struct tree_file live_one[] = {
		{ SELF, "3:cpu:/q\n" },
		{ TOP "cpu/q/cpu.stat", "nr_throttled 20\nthrottled_time 800000000\n" },
		{ TOP "cpu/q/cpu.cfs_quota_us", "5000\n" },
		{ TOP "cpu/q/cpu.cfs_period_us", "100000\n" },
		{ NULL, NULL },
	};
	/* A quota of more than one CPU, none, and nonsense, say nothing of one CPU. */
	const char *const limits[] = { "250000 100000\n", "max 100000\n",          "-1 100000\n",
				       "5000\n",          "5000 99999999999999\n", "\n" };

	(void)state;
	expect(live, true, 1140000000);
	expect(added_up, true, 800000000);
	expect(live_one, true, 1900000000);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct tree_file other[] = {
			live[0], live[1], { TOP "q/cpu.max", limits[i] }, live[3]
		};

		expect(other, true, 800000000);
	}
}

static void test_not_known(void **state)
{
	const struct tree_file none[] = { { NULL, NULL } };
	const struct tree_file no_cpu[] = { { SELF, "5:memory:/\n2:cpuset,cpuacct:/\n" },
					    { TOP "cpu/cpu.stat", "throttled_time 1\n" },
					    { NULL, NULL } };
	const struct tree_file no_stat[] = { { SELF, "0::/a\n" }, { NULL, NULL } };
	const struct tree_file no_lines[] = { { SELF, "cpu\n\n::\n" }, { NULL, NULL } };
	const struct tree_file like[] = {
		{ SELF, "0::/\n" },
		{ TOP "cpu.stat", "throttled_usecs 4\nnr_throttled_usec 5\nthrottled_usec\n" },
		{ NULL, NULL }
	};

	(void)state;
	expect(none, false, 0);
	expect(no_cpu, false, 0);
	expect(no_stat, false, 0);
	expect(no_lines, false, 0);
	expect(like, false, 0);
}

/* A path as long as paths get, and one with more groups than anybody makes. */
static void test_long(void **state)
{
	char text[3000] = "0::", deep[400] = "0::";
	struct tree_file files[] = { { SELF, text },
				     { TOP "cpu.stat", "throttled_usec 6\n" },
				     { NULL, NULL } };

	(void)state;
	memset(text + 3, '/', sizeof(text) - 4);
	expect(files, false, 0);
	for (int i = 0; i < 150; i++)
		strcat(deep, "/a");
	files[0].text = deep;
	expect(files, false, 0);
}

static void test_path(void **state)
{
	char out[8] = "";

	(void)state;
	assert_true(twi_cgroup_path("4:cpu:/a\n0::/b\n", "", out, sizeof(out)));
	assert_string_equal(out, "/b");
	assert_true(twi_cgroup_path("4:cpuacct,cpu:/a\n0::/b\n", "cpu", out, sizeof(out)));
	assert_string_equal(out, "/a");
	assert_false(twi_cgroup_path("4:cpuacct:/a\n0::/b\n", "cpu", out, sizeof(out)));
	assert_false(twi_cgroup_path("4:cpu\n", "cpu", out, sizeof(out)));
	assert_false(twi_cgroup_path("", "cpu", out, sizeof(out)));
	assert_true(twi_cgroup_path("4:cpu:/234567", "cpu", out, sizeof(out)));
	assert_string_equal(out, "/234567");
	assert_false(twi_cgroup_path("4:cpu:/2345678", "cpu", out, sizeof(out)));
}

static int remove_tree(void **state)
{
	(void)state;
	plant((const struct tree_file[]){ { NULL, NULL } });
	return rmdir(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_throttled), cmocka_unit_test(test_periods),
		cmocka_unit_test(test_not_known), cmocka_unit_test(test_long),
		cmocka_unit_test(test_path),
	};

	return cmocka_run_group_tests(tests, NULL, remove_tree);
}
