/*
 * test_flight_home.c - where flight recorders' files go when nobody says: beside the stats socket,
 * in a folder that keeps its size, and is nobody else's; and that towstat tells of them.
 */
#include "twt.h"

#include "coll_team.h"
#include "command.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT  256u /* files */
#define OLD   300u
#define COUNT 64u

static char folder[64];

/* Rank 1 stays out of it until its deadline has passed. */
static void break_group(struct twt_rank *rank)
{
	float data[COUNT] = { 0 };
	struct tow_op *op;

	twt_coll_meet(rank);
	if (rank->rank == 1) {
		usleep(900000);
		return;
	}
	TWT_OK(tow_coll_all_reduce_start(rank->group, data, data, COUNT, TOW_F32, TOW_SUM, NULL,
					 &op));
	TWT_TRUE(tow_op_wait(op, TOW_FOREVER) == TOW_EDEADLINE);
	tow_op_release(op);
}

static void set_options(struct tow_options *options)
{
	options->stats = 1;
	options->stats_dir = folder;
	options->coll_timeout_ns = 300000000;
}

static void run_job(void)
{
	twt_ranks(&(struct twt_job){ .ranks = 2,
				     .lane = "tcp://127.0.0.1:0",
				     .run = break_group,
				     .options = set_options });
}

static bool is_there(const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/flight/%s", folder, name);
	return access(path, F_OK) == 0;
}

static unsigned count_files(void)
{
	const struct dirent *entry;
	unsigned count = 0;
	char path[80];
	DIR *dir;

	snprintf(path, sizeof(path), "%s/flight", folder);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL)
		count += strncmp(entry->d_name, "flight.", 7) == 0;
	closedir(dir);
	return count;
}

/* Files of jobs that have long ended, each a second younger than the one before. */
static void leave_old_files(void)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/flight", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	for (unsigned i = 0; i < OLD; i++) {
		const struct timespec times[2] = { { 1000 + i, 0 }, { 1000 + i, 0 } };
		int fd;

		snprintf(path, sizeof(path), "%s/flight/flight.old.%u.0.json", folder, i);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(futimens(fd, times), 0);
		close(fd);
	}
	snprintf(path, sizeof(path), "%s/flight/notes", folder);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/twt-home-XXXXXX");
	return mkdtemp(folder) == NULL;
}

static int drop_folder(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

static void test_bounded(void **state)
{
	(void)state;
	leave_old_files();
	run_job();
	assert_true(is_there("flight.coll-ranks.0.0.json"));
	assert_true(is_there("notes"));
	assert_false(is_there("flight.old.0.0.json"));
	assert_true(is_there("flight.old.299.0.json"));
	assert_in_range(count_files(), KEPT - 1, KEPT + 2);
}

/* Who asks for the job when it has ended is told where they are. */
static void test_told(void **state)
{
	static struct twt_command command;
	char line[256];

	(void)state;
	run_job();
	snprintf(line, sizeof(line), "TOW_STATS_DIR=%s @/tools/towstat/towstat verdict coll-ranks",
		 folder);
	twt_command(line, &command);
	snprintf(line, sizeof(line), "towstat verdict --from %s/flight coll-ranks", folder);
	twt_command_expect(&command, 1, line, 1);
	snprintf(line, sizeof(line), "@/tools/towstat/towstat verdict --from %s/flight coll-ranks",
		 folder);
	twt_command(line, &command);
	assert_int_equal(twt_command_count(&command, "rank 0: towline:all_reduce"), 1);
}

/* A link in its place leads elsewhere: nothing is written, and the job fails as it would. */
static void test_link(void **state)
{
	char path[96], other[96];

	(void)state;
	snprintf(other, sizeof(other), "%s/other", folder);
	snprintf(path, sizeof(path), "%s/flight", folder);
	assert_int_equal(mkdir(other, 0700), 0);
	assert_int_equal(symlink(other, path), 0);
	run_job();
	assert_int_equal(count_files(), 0);
}

static void test_none(void **state)
{
	char path[96];

	(void)state;
	setenv("TOW_FLIGHT_DIR", "none", 1);
	run_job();
	unsetenv("TOW_FLIGHT_DIR");
	snprintf(path, sizeof(path), "%s/flight", folder);
	assert_int_not_equal(access(path, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_bounded, make_folder, drop_folder),
		cmocka_unit_test_setup_teardown(test_told, make_folder, drop_folder),
		cmocka_unit_test_setup_teardown(test_link, make_folder, drop_folder),
		cmocka_unit_test_setup_teardown(test_none, make_folder, drop_folder),
	};

	unsetenv("TOW_FLIGHT_DIR"); /* as other programs are, and tests are not */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
