/*
 * test_metrics_plain.c - of the exporter: its text in the older format, who gets it, and each line;
 * and the lock on its address.
 */
#include "twt.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/towstat/export_lock.h"
#include "tools/towstat/metrics_plain.h"

static int flock_error; /* what flock fails with; 0: it does not fail */

/* In the place of libc's. */
int flock(int fd, int operation)
{
	if (flock_error == 0)
		return (int)syscall(SYS_flock, fd, operation);
	errno = flock_error;
	return -1;
}

static void writes_the_text_format(void **state)
{
	size_t bytes;
	char *text = metrics_plain("# TYPE a counter\n# UNIT a x\n# HELP a \\\"q\\\" \\\\ \\n\n"
				   "a_total{j=\"#\\\" # {\"} 1 # {t=\"}\"} 1 2\n"
				   "# TYPE b info\nb_info{v=\"1\"} 1\n# TYPE c unknown\nc 1 5\n"
				   "# HELP d d\nd 2\n# TYPE s stateset\ns{s=\"x\"} 1\n# EOF\n",
				   &bytes);

	(void)state;
	assert_non_null(text);
	assert_int_equal(bytes, strlen(text));
	assert_string_equal(text, "# TYPE a_total counter\n# HELP a_total \"q\" \\\\ \\n\n"
				  "a_total{j=\"#\\\" # {\"} 1\n"
				  "# TYPE b_info gauge\nb_info{v=\"1\"} 1\n"
				  "# TYPE c untyped\nc 1 5\n"
				  "# HELP d d\nd 2\n# TYPE s gauge\ns{s=\"x\"} 1\n");
	free(text);
}

static void goes_by_accept(void **state)
{
	static const char *const plain[] = {
		"text/plain",
		"TEXT/PLAIN; version=0.0.4",
		"text/*;q=0.1",
		"text/plain;q=0.5, application/openmetrics-text;q=0.4",
		"application/openmetrics-text;q=0.401,text/plain;q=0.45,*/*;q=0.1",
		"text/plain;version=0.0.4;q=1,*/*;q=0.1",
	};
	static const char *const open[] = {
		"*/*",
		"",
		",,;q=,",
		"text/html",
		"text/plain;q=0",
		"text/plain;q=0,*/*",
		"application/openmetrics-text;version=1.0.0,"
		"application/openmetrics-text;version=0.0.1;q=0.75,"
		"text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
	};
	char long_range[600];

	(void)state;
	assert_false(metrics_plain_wanted(NULL));
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		if (!metrics_plain_wanted(plain[i]))
			fail_msg("%s", plain[i]);
	}
	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
		if (metrics_plain_wanted(open[i]))
			fail_msg("%s", open[i]);
	}
	memset(long_range, 'x', sizeof(long_range) - 1);
	long_range[599] = '\0';
	assert_false(metrics_plain_wanted(long_range));
}

/* Taken, held by another, and not to be had at all, which is no other exporter. */
static void locks_an_address(void **state)
{
	struct export_lock first, second;
	char dir[] = "/tmp/twt-lock-XXXXXX", error[256] = "", owner[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(export_lock_take(&first, dir, "1:2", error, sizeof(error)), 0);
	assert_int_equal(export_lock_take(&second, dir, "1:2", error, sizeof(error)), 1);
	snprintf(owner, sizeof(owner), "process %ld", (long)getpid());
	assert_string_equal(second.owner, owner);
	assert_int_equal(second.fd, -1);
	assert_string_equal(error, "");
	export_lock_drop(&first);
	flock_error = ENOLCK;
	assert_int_equal(export_lock_take(&second, dir, "1:2", error, sizeof(error)), -1);
	flock_error = 0;
	assert_non_null(strstr(error, strerror(ENOLCK)));
	assert_int_equal(second.fd, -1);
	assert_int_equal(unlink(second.path), 0);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_the_text_format),
		cmocka_unit_test(goes_by_accept),
		cmocka_unit_test(locks_an_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
