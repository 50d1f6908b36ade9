/*
 * test_socket_faults.c - the Nth allocation, thread or descriptor of the stats socket fails.
 *
 * N grows until nothing fails any more. Each time twi_socket_open gives a clean status with a
 * message; no descriptor stays open and no file stays behind.
 */
#include "twt.h"

#include "fault.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/serve/socket.h"

static char dir[64];

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/twt-faults-XXXXXX");
	return mkdtemp(dir) == NULL || twi_diag_create((struct twi_diag **)state) < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	twi_diag_destroy(*state);
	return rmdir(dir); /* fails when a file is left in it */
}

/* Opens and closes once; true when it opened. */
static bool attempt(struct twi_diag *diag)
{
	struct twi_socket *sock;
	int status = twi_socket_open(diag, dir, "x", 0, &sock);

	if (status == TOW_OK) {
		twi_socket_close(sock);
		return true;
	}
	assert_null(sock);
	assert_true(strlen(tow_error_message()) > 0);
	if (status == TOW_EBUSY) /* the open of the folder alone says so */
		assert_non_null(strstr(tow_error_message(), "descriptor"));
	else
		assert_true(status == TOW_ENOMEM || status == TOW_ESYSTEM);
	return false;
}

static void nth_call(struct twi_diag *diag, enum twt_fault call)
{
	int fds = twt_fd_count();
	bool reached = true;

	for (int n = 1; n < 50 && reached; n++) {
		bool opened;

		twt_fault_arm(call, n);
		opened = attempt(diag);
		reached = twt_fault_off();
		assert_true(opened || reached);
		assert_int_equal(twt_fd_count(), fds);
	}
	assert_false(reached);
	assert_true(attempt(diag));
}

static void allocations(void **state)
{
	nth_call(*state, TWT_CALLOC);
}

static void threads(void **state)
{
	nth_call(*state, TWT_PTHREAD_CREATE);
}

static void descriptors(void **state)
{
	struct rlimit limit, low;
	int fds, next = dup(0);
	bool opened = false;

	close(next);
	assert_true(attempt(*state));
	fds = twt_fd_count();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	for (int n = 0; n < 20 && !opened; n++) {
		low.rlim_cur = (rlim_t)(next + n);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
		opened = attempt(*state);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		assert_int_equal(twt_fd_count(), fds);
	}
	assert_true(opened);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { TEST(allocations), TEST(threads), TEST(descriptors) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
