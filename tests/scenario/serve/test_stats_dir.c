/*
 * test_stats_dir.c - where the stats socket goes when its default directory is of no use: another
 * default one, or none, and never the end of the job; but what the user names is used or refused.
 */
#include "twt.h"

#include <grp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/towline.h>

#define OTHER 54321

static char base[64], dir[96];

static int setup(void **state)
{
	(void)state;
	snprintf(base, sizeof(base), "/tmp/twt-dirs-XXXXXX");
	if (mkdtemp(base) == NULL)
		return -1;
	snprintf(dir, sizeof(dir), "%s/towline", base);
	unsetenv("TOW_STATS_DIR");
	return setenv("XDG_RUNTIME_DIR", base, 1);
}

static int teardown(void **state)
{
	(void)state;
	if (rmdir(dir) != 0 && unlink(dir) != 0)
		return rmdir(base); /* the case made none */
	return rmdir(base);
}

static int open_runtime(struct tow_runtime **out)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 8 << 20;
	options.job = "dirs";
	return tow_runtime_open(&options, out);
}

/* It opens, its socket is not below `base`, and the log says why with these words. */
static void expect_another(const char *words)
{
	struct tow_runtime *runtime;
	const char *path;
	struct stat st;
	char *info;

	assert_int_equal(open_runtime(&runtime), TOW_OK);
	path = tow_stats_socket(runtime);
	assert_true(strncmp(path, base, strlen(base)) != 0);
	assert_true(path[0] == '/');
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(tow_stats_get(runtime, "/v1/info", &info), TOW_OK);
	if (strstr(info, words) == NULL || strstr(info, dir) == NULL)
		fail_msg("'%s' is not in: %s", words, info);
	tow_stats_release(info);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

static void usable(void **state)
{
	struct tow_runtime *runtime;

	(void)state;
	assert_int_equal(open_runtime(&runtime), TOW_OK);
	assert_int_equal(strncmp(tow_stats_socket(runtime), dir, strlen(dir)), 0);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

/* The base is not there, as after su; a file has the name; others may write; a link leads away. */
static void unusable(void **state)
{
	char elsewhere[96];
	FILE *file;

	(void)state;
	setenv("XDG_RUNTIME_DIR", "/nowhere/at/all", 1);
	snprintf(dir, sizeof(dir), "/nowhere/at/all/towline");
	expect_another("cannot make stats_dir");
	setenv("XDG_RUNTIME_DIR", base, 1);
	snprintf(dir, sizeof(dir), "%s/towline", base);
	file = fopen(dir, "w");
	assert_non_null(file);
	fclose(file);
	expect_another("cannot open stats_dir");
	assert_int_equal(unlink(dir), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(chmod(dir, 0770), 0);
	expect_another("not to this user alone");
	assert_int_equal(chmod(dir, 01777), 0);
	expect_another("not to this user alone");
	assert_int_equal(rmdir(dir), 0);
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", base);
	assert_int_equal(mkdir(elsewhere, 0700), 0);
	assert_int_equal(symlink(elsewhere, dir), 0);
	expect_another("is a symbolic link");
	assert_int_equal(rmdir(elsewhere), 0); /* nothing was put there */
	/* Ours, but anybody may put another in its place. */
	assert_int_equal(unlink(dir), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(chmod(base, 0777), 0);
	expect_another("can be written by others");
	assert_int_equal(chmod(base, 0700), 0);
}

/* What the user has named is used, or it is an error that says what is wrong. */
static void named(void **state)
{
	struct tow_runtime *runtime;
	char link[96];

	(void)state;
	setenv("TOW_STATS_DIR", "/nowhere/at/all", 1);
	assert_true(open_runtime(&runtime) < 0);
	assert_non_null(strstr(tow_error_message(), "/nowhere/at/all"));
	assert_int_equal(mkdir(dir, 0700), 0);
	snprintf(link, sizeof(link), "%s/link", base);
	assert_int_equal(symlink(dir, link), 0);
	setenv("TOW_STATS_DIR", link, 1);
	assert_int_equal(open_runtime(&runtime), TOW_EPERM);
	assert_non_null(strstr(tow_error_message(), "is a symbolic link"));
	assert_int_equal(chmod(dir, 0777), 0);
	setenv("TOW_STATS_DIR", dir, 1);
	assert_int_equal(open_runtime(&runtime), TOW_EPERM);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(chmod(dir, 0700), 0);
}

/* All names are taken by another user: no socket, and the job runs. */
static int run_without(void)
{
	struct tow_runtime *runtime;
	int wrong = 0;
	char *info;

	if (setgroups(0, NULL) != 0 || setresgid(OTHER, OTHER, OTHER) != 0 ||
	    setresuid(OTHER, OTHER, OTHER) != 0)
		return 10;
	unsetenv("XDG_RUNTIME_DIR");
	if (open_runtime(&runtime) != TOW_OK) {
		printf("it does not open: %s\n", tow_error_message());
		fflush(stdout);
		return 11;
	}
	wrong |= tow_stats_socket(runtime)[0] != '\0';
	wrong |= tow_stats_get(runtime, "/v1/info", &info) != TOW_OK;
	wrong |=
		strstr(info, "no stats socket: stats_dir '/dev/shm/towline-54321' belongs") == NULL;
	tow_stats_release(info);
	wrong |= tow_runtime_close(runtime) != TOW_OK;
	return wrong;
}

static void squatted(void **state)
{
	static const char *const names[] = { "/tmp/towline-54321", "/dev/shm/towline-54321" };
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0) {
		print_message("skip: only root can become another user\n");
		skip();
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(mkdir(names[i], 0777), 0);
	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(run_without());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	for (int i = 0; i < 2; i++)
		assert_int_equal(rmdir(names[i]), 0);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(usable, setup, teardown),
		cmocka_unit_test_setup_teardown(unusable, setup, teardown),
		cmocka_unit_test_setup_teardown(named, setup, teardown),
		cmocka_unit_test_setup_teardown(squatted, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
