/*
 * test_folder.c - a folder of the library's can be used under any umask, and one that is there
 * stays as it is.
 */
#include "twt.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towline/status.h>

#include "diag/base/folder.h"
#include "diag/serve/stats_dir.h"
#include "transport/inquiry/flight_home.h"

static char above[64], path[96];

static mode_t mode_of(void)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & 0777;
}

static void makes_it(void **state)
{
	static const mode_t masks[] = { 0, 022, 077, 0177, 0277, 0700, 0777 };

	(void)state;
	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		mode_t before = umask(masks[i]);
		int fd, status;

		assert_int_equal(twi_folder_make(path), 0);
		assert_int_equal(mode_of(), 0700);
		assert_int_equal(rmdir(path), 0);
		status = twi_stats_dir_open(path, &fd);
		assert_int_equal(status, TOW_OK);
		assert_int_equal(mode_of(), 0700);
		close(fd);
		assert_int_equal(rmdir(path), 0);
		assert_int_equal(twi_flight_home_open(path), TOW_OK);
		assert_int_equal(mode_of(), 0700);
		assert_int_equal(rmdir(path), 0);
		umask(before);
	}
}

static void leaves_others(void **state)
{
	(void)state;
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(chmod(path, 0511), 0);
	assert_int_equal(twi_folder_make(path), 0);
	assert_int_equal(mode_of(), 0511);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(symlink(above, path), 0);
	assert_int_equal(twi_folder_make(path), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(twi_folder_make("/nowhere/at/all"), ENOENT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(makes_it),
		cmocka_unit_test(leaves_others),
	};
	int failed;

	snprintf(above, sizeof(above), "/tmp/towline-folder-XXXXXX");
	if (mkdtemp(above) == NULL)
		return 1;
	snprintf(path, sizeof(path), "%s/home", above);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return rmdir(above) != 0 ? 1 : failed;
}
