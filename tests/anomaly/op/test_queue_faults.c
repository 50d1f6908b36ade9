/*
 * test_queue_faults.c - no memory, or no descriptor, for a completion queue: the status says which,
 * and nothing is left behind.
 */
#include "twt.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "pair.h"

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

static int descriptors_fail; /* this call of it from now does; 0: none */

static bool is_due(int *left)
{
	return *left > 0 && --*left == 0;
}

#ifndef TWT_SANITIZED
static int memory_fails; /* likewise */

void *aligned_alloc(size_t align, size_t bytes)
{
	static union {
		void *found;
		void *(*call)(size_t, size_t);
	} real;

	if (real.found == NULL)
		real.found = dlsym(RTLD_NEXT, "aligned_alloc");
	if (is_due(&memory_fails)) {
		errno = ENOMEM;
		return NULL;
	}
	return real.call(align, bytes);
}
#endif

/* ISO C has no cast from what dlsym returns to a function. */
int eventfd(unsigned count, int flags)
{
	static union {
		void *found;
		int (*call)(unsigned, int);
	} real;

	if (real.found == NULL)
		real.found = dlsym(RTLD_NEXT, "eventfd");
	if (is_due(&descriptors_fail)) {
		errno = EMFILE;
		return -1;
	}
	return real.call(count, flags);
}

static void test_open(void **state)
{
	struct tow_runtime *runtime = twt_runtime(4 << 20);
	struct tow_queue *queue = (struct tow_queue *)&runtime;
	int before = twt_fd_count();

	(void)state;
#ifndef TWT_SANITIZED
	memory_fails = 1;
	assert_int_equal(tow_queue_open(runtime, 8, &queue), TOW_ENOMEM);
	assert_null(queue);
	assert_non_null(strstr(tow_error_message(), "8 results"));
#endif
	descriptors_fail = 1;
	assert_int_equal(tow_queue_open(runtime, 8, &queue), TOW_ESYSTEM);
	assert_null(queue);
	assert_non_null(strstr(tow_error_message(), "eventfd"));
	assert_true(twi_list_empty(&twi_runtime_engine(runtime)->queues));
	assert_int_equal(twt_fd_count(), before);
	TWT_OK(tow_queue_open(runtime, 8, &queue));
	assert_int_equal(twt_fd_count(), before + 1);
	TWT_OK(tow_queue_close(queue));
	assert_int_equal(twt_fd_count(), before);
	TWT_OK(tow_runtime_close(runtime));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_open) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
