/*
 * test_error.c - the thread's message: each thread has its own until it ends, also where there is
 * no memory for one; and calls that succeed leave it alone, whatever failed within them.
 */
#include "twt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "diag/base/error.h"

#ifndef TWT_SANITIZED
static _Thread_local bool no_memory;
void *__libc_calloc(size_t count, size_t bytes);

void *calloc(size_t count, size_t bytes)
{
	return no_memory ? NULL : __libc_calloc(count, bytes);
}
#endif

static char wrong_mark;

static void *empty_at_first(void *arg)
{
	const char *first = tow_error_message();

	(void)arg;
	if (first[0] != '\0' || twi_error(TOW_EBUSY, "thread %s", "one") != TOW_EBUSY ||
	    strcmp(tow_error_message(), "thread one") != 0)
		return &wrong_mark;
	/* The old message may be among the arguments, and a long one is cut. */
	twi_error(TOW_EBUSY, "again: %s", tow_error_message());
	if (strcmp(tow_error_message(), "again: thread one") != 0)
		return &wrong_mark;
	twi_error(TOW_EBUSY, "%600s", "long");
	return strlen(tow_error_message()) == TWI_ERROR_BYTES - 1 ? NULL : &wrong_mark;
}

static void in_thread(void *(*run)(void *))
{
	pthread_t thread;
	void *wrong;

	assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
	assert_int_equal(pthread_join(thread, &wrong), 0);
	assert_null(wrong);
}

/* Each of many threads that come and go gives its memory back: LeakSanitizer looks. */
static void one_for_each_thread(void **state)
{
	(void)state;
	twi_error(TOW_EINVAL, "the main thread's");
	for (int i = 0; i < 100; i++)
		in_thread(empty_at_first);
	assert_string_equal(tow_error_message(), "the main thread's");
}

#ifndef TWT_SANITIZED
static void *without_memory(void *arg)
{
	(void)arg;
	no_memory = true;
	if (twi_error(TOW_ENOMEM, "no memory for anything") != TOW_ENOMEM ||
	    strcmp(tow_error_message(), tow_status_text(TOW_ENOMEM)) != 0)
		return &wrong_mark;
	twi_error_undo();
	if (tow_error_message()[0] != '\0')
		return &wrong_mark;
	twi_error(TOW_EBUSY, "still none");
	if (strcmp(tow_error_message(), tow_status_text(TOW_EBUSY)) != 0)
		return &wrong_mark;
	no_memory = false;
	twi_error(TOW_EBUSY, "some again");
	return strcmp(tow_error_message(), "some again") == 0 ? NULL : &wrong_mark;
}
#endif

static void memory_is_short(void **state)
{
	(void)state;
#ifdef TWT_SANITIZED
	skip();
#else
	in_thread(without_memory);
#endif
}

static void undo(void **state)
{
	struct twi_error_kept kept;

	(void)state;
	twi_error(TOW_EINVAL, "the call before");
	twi_error_thread.since_poll = false;
	twi_error(TOW_EPEER, "first");
	twi_error(TOW_EPEER, "second");
	twi_error_undo();
	assert_string_equal(tow_error_message(), "the call before");
	assert_int_equal(twi_error_thread.status, TOW_EINVAL);
	twi_error_keep(&kept);
	twi_error(TOW_EPEER, "within");
	assert_int_equal(twi_error_settle(&kept, TOW_EPEER), TOW_EPEER);
	assert_string_equal(tow_error_message(), "within");
	assert_int_equal(twi_error_settle(&kept, TOW_COPIED), TOW_COPIED);
	assert_string_equal(tow_error_message(), "the call before");
}

static int open_runtime(struct tow_runtime **out)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	/* Half of what a job needs: no launcher says of how many ranks this one is. */
	options.job = "alone";
	options.rank = 7;
	options.premap_memory_bytes = 4 << 20;
	options.exhaust = "wait";
	options.exhaust_wait_ns = 2000000000;
	options.stats = 0;
	return tow_runtime_open(&options, out);
}

static void *free_later(void *arg)
{
	void **what = arg;

	usleep(50000);
	return tow_free(what[0], what[1]) == TOW_OK ? NULL : arg;
}

/* Opening, and all that tow:// tries, what waits for room: good calls say nothing. */
static void good_calls(void **state)
{
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	pthread_t thread;
	void *what[2], *more, *wrong;

	(void)state;
	twi_error(TOW_EINVAL, "the call before");
	assert_int_equal(open_runtime(&runtime), TOW_OK);
	assert_string_equal(tow_error_message(), "the call before");
	setenv("TOW_LANES", "tcp", 1);
	assert_int_equal(tow_endpoint_open(runtime, "tow://127.0.0.1", &endpoint), TOW_OK);
	unsetenv("TOW_LANES");
	assert_string_equal(tow_error_message(), "the call before");
	what[0] = runtime;
	assert_int_equal(tow_alloc(runtime, 2 << 20, 0, &what[1]), TOW_OK);
	assert_int_equal(pthread_create(&thread, NULL, free_later, what), 0);
	assert_int_equal(tow_alloc(runtime, 2 << 20, 0, &more), TOW_OK);
	assert_int_equal(pthread_join(thread, &wrong), 0);
	assert_null(wrong);
	assert_string_equal(tow_error_message(), "the call before");
	assert_int_equal(tow_free(runtime, more), TOW_OK);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	assert_string_equal(tow_error_message(), "the call before");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_for_each_thread),
		cmocka_unit_test(memory_is_short),
		cmocka_unit_test(undo),
		cmocka_unit_test(good_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
