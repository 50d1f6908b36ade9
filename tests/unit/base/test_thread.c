/* test_thread.c - a thread of the library has the stack that is asked for, or a sound default. */
#include "twt.h"

#include <limits.h>
#include <pthread.h>

#include "diag/base/thread.h"

static void *read_stack(void *arg)
{
	pthread_attr_t attr;

	assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
	assert_int_equal(pthread_attr_getstacksize(&attr, arg), 0);
	pthread_attr_destroy(&attr);
	return NULL;
}

static size_t stack_of(size_t asked)
{
	size_t bytes = 0;
	pthread_t thread;

	assert_int_equal(twi_thread_start(&thread, "tow-test", asked, read_stack, &bytes), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return bytes;
}

static void set_default(size_t bytes)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstacksize(&attr, bytes), 0);
	assert_int_equal(pthread_setattr_default_np(&attr), 0);
	pthread_attr_destroy(&attr);
}

static void stacks(void **state)
{
	(void)state;
	/* libc keeps stacks of threads that have ended for others that want no more. */
	assert_in_range(stack_of(256u << 10), 256u << 10, TWI_THREAD_STACK_LEAST - 1);
	set_default((size_t)PTHREAD_STACK_MIN);
	assert_in_range(stack_of(0), TWI_THREAD_STACK_LEAST, 2 * TWI_THREAD_STACK_LEAST);
	set_default(4 * TWI_THREAD_STACK_LEAST);
	assert_in_range(stack_of(0), 4 * TWI_THREAD_STACK_LEAST, 5 * TWI_THREAD_STACK_LEAST);
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(stacks) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
