/*
 * test_ofi_names.c - endpoints of libfabric's shm, whose files in /dev/shm have the number of the
 * process in their names, where a process of the same number has left such files.
 */
#include "pair.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#define POOL  (16 << 20)
#define FILES 3
#define TAKEN 16 /* numbers that a process may have passed over */

static const char *name_of(pid_t pid, int number)
{
	static char name[64];

	snprintf(name, sizeof(name), "/%d:%d:%d", (int)pid, (int)getuid(), number);
	return name;
}

/* Opens an endpoint, and lives until it is killed. */
static pid_t neighbour(void)
{
	struct tow_endpoint *endpoint;
	int fds[2], status = TOW_ESYSTEM;
	pid_t child;

	assert_int_equal(pipe(fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(60);
		status = tow_endpoint_open(twt_runtime(POOL), "ofi://shm", &endpoint);
		if (status != TOW_OK)
			fprintf(stderr, "%s\n", tow_error_message());
		if (write(fds[1], &status, sizeof(status)) != (ssize_t)sizeof(status))
			_exit(1);
		pause();
		_exit(1);
	}
	assert_int_equal(read(fds[0], &status, sizeof(status)), sizeof(status));
	close(fds[0]);
	close(fds[1]);
	if (status == TOW_OK)
		return child;
	assert_int_equal(status, TOW_ENOTSUP); /* no libfabric here, or no shm in it */
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return -1;
}

/*
 * The neighbour's file. It has another number than 0 where a process of its own number has left a
 * file as well, and numbers of processes come again.
 */
static int open_file(pid_t of, int *number_out)
{
	int file = -1;

	for (*number_out = 0; file < 0 && *number_out < TAKEN; ++*number_out)
		file = shm_open(name_of(of, *number_out), O_RDONLY, 0);
	--*number_out;
	return file;
}

/* A copy of the neighbour's file under the names that this process would take. */
static bool leave_files(pid_t from, int *number_out)
{
	int in = open_file(from, number_out);
	struct stat about;
	void *map;

	if (in < 0)
		return false;
	assert_int_equal(fstat(in, &about), 0);
	map = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, in, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	for (int i = 0; i < FILES; i++) {
		int out = shm_open(name_of(getpid(), i), O_RDWR | O_CREAT, 0600);

		assert_true(out >= 0);
		assert_int_equal(ftruncate(out, about.st_size), 0);
		assert_int_equal(pwrite(out, map, 4096, 0), 4096);
		close(out);
	}
	munmap(map, (size_t)about.st_size);
	close(in);
	return true;
}

static void test_names_taken(void **state)
{
	struct tow_endpoint *endpoint;
	struct tow_runtime *runtime;
	pid_t other = neighbour();
	int status, number;
	bool left;

	(void)state;
	if (other < 0)
		skip();
	left = leave_files(other, &number);
	runtime = twt_runtime(POOL);
	status = tow_endpoint_open(runtime, "ofi://shm", &endpoint);
	if (status != TOW_OK)
		fprintf(stderr, "%s\n", tow_error_message());
	TWT_OK(tow_runtime_close(runtime));
	for (int i = 0; i < FILES; i++)
		shm_unlink(name_of(getpid(), i));
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	shm_unlink(name_of(other, number));
	assert_int_equal(status, TOW_OK);
	assert_true(left);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_names_taken) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
