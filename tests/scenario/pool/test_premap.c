/*
 * test_premap.c - a runtime's pool as its user sees it: the progress callback, the knob numa, and
 * sums that agree with the kernel while two threads drive and other code has a ring of its own.
 */
#include "twt.h"

#include <jansson.h>
#include <liburing.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <towline/towline.h>
#include <unistd.h>

#define MIB  (1ull << 20)
#define POOL (64 * MIB)

struct progress {
	pthread_t thread;
	uint64_t last, total;
	int ends;
};

static void note_progress(void *user, uint64_t done_bytes, uint64_t total_bytes)
{
	struct progress *progress = user;

	assert_true(pthread_equal(pthread_self(), progress->thread));
	assert_true(done_bytes >= progress->last);
	progress->last = done_bytes;
	progress->total = total_bytes;
	progress->ends += done_bytes == total_bytes;
}

/* Skips where a runtime cannot be opened for want of io_uring. */
static struct tow_runtime *open_it(const char *numa, struct progress *progress)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	int status;

	options.premap_memory_bytes = POOL;
	options.stats = 0;
	options.numa = numa;
	options.premap_progress = progress != NULL ? note_progress : NULL;
	options.premap_progress_user = progress;
	status = tow_runtime_open(&options, &runtime);
	if (status == TOW_ENOTSUP || status == TOW_EPERM) {
		print_message("%s\n", tow_error_message());
		skip();
	}
	assert_int_equal(status, TOW_OK);
	return runtime;
}

static uint64_t at(json_t *object, const char *key)
{
	assert_true(json_is_integer(json_object_get(object, key)));
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* /v1/pool. A look at the kernel's files that was dear is kept for a while: waits for a new one. */
static json_t *pool_of(struct tow_runtime *runtime)
{
	uint64_t start = now_ns();

	for (;;) {
		json_t *root;
		char *text;

		assert_int_equal(tow_stats_get(runtime, "/v1/pool", &text), TOW_OK);
		root = json_loads(text, 0, NULL);
		assert_non_null(root);
		tow_stats_release(text);
		if (at(root, "view_age_ns") <= now_ns() - start)
			return root;
		json_decref(root);
		usleep(1000);
	}
}

static void progress_is_told(void **state)
{
	struct progress progress = { .thread = pthread_self() };
	struct tow_runtime *runtime = open_it(NULL, &progress);

	(void)state;
	assert_int_equal(progress.ends, 1);
	assert_int_equal(progress.last, progress.total);
	assert_true(progress.total >= POOL);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

static void numa_knob(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	char knob[8] = "local";
	json_t *root, *numa;

	(void)state;
	options.numa = "127";
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_EINVAL);
	assert_null(runtime);
	assert_non_null(strstr(tow_error_message(), "numa = 127"));
	options.numa = "nearby";
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "numa = \"nearby\""));
	runtime = open_it(knob, NULL);
	memset(knob, 'x', sizeof(knob) - 1); /* the caller's string may go away */
	root = pool_of(runtime);
	numa = json_object_get(root, "numa");
	assert_string_equal(json_string_value(json_object_get(numa, "mode")), "local");
	/* Bound, or the reason and what mends it. */
	assert_true(json_is_true(json_object_get(numa, "bound")) ==
		    !*json_string_value(json_object_get(numa, "reason")));
	assert_true(json_is_true(json_object_get(numa, "bound")) ==
		    !*json_string_value(json_object_get(numa, "mend")));
	json_decref(root);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

struct driver {
	struct tow_runtime *runtime;
	pthread_barrier_t met;
};

/* A second thread drives: it gets a ring of its own, which knows the pool as well. */
static void *drive(void *arg)
{
	struct driver *driver = arg;

	tow_progress(driver->runtime);
	pthread_barrier_wait(&driver->met);
	pthread_barrier_wait(&driver->met);
	return NULL;
}

static void sums_agree(void **state)
{
	struct driver driver = { .runtime = open_it(NULL, NULL) };
	void *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec iov = { memory, MIB };
	json_t *root = pool_of(driver.runtime), *process = json_object_get(root, "process");
	uint64_t others = at(process, "pinned_by_others_bytes");
	struct io_uring foreign;
	pthread_t thread;

	(void)state;
	assert_int_equal(at(root, "resident_bytes"), at(root, "mapped_bytes"));
	if (at(root, "registered_bytes") == 0) {
		print_message("no right to pin\n");
		skip();
	}
	assert_int_equal(at(root, "pinned_bytes"), at(root, "mapped_bytes"));
	assert_int_equal(at(process, "pinned_by_towline_bytes"), at(root, "mapped_bytes"));
	json_decref(root);
	pthread_barrier_init(&driver.met, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, drive, &driver), 0);
	pthread_barrier_wait(&driver.met);
	/* Other code in the process registers 1 MiB. */
	madvise(memory, MIB, MADV_NOHUGEPAGE);
	assert_int_equal(io_uring_queue_init(4, &foreign, 0), 0);
	assert_int_equal(io_uring_register_buffers(&foreign, &iov, 1), 0);
	root = pool_of(driver.runtime);
	process = json_object_get(root, "process");
	assert_int_equal(json_array_size(json_object_get(process, "rings")), 3);
	assert_int_equal(at(process, "pinned_by_others_bytes"), others + MIB);
	assert_int_equal(at(process, "pinned_by_towline_bytes") +
				 at(process, "pinned_by_others_bytes"),
			 at(process, "pinned_total_bytes"));
	json_decref(root);
	io_uring_unregister_buffers(&foreign);
	io_uring_queue_exit(&foreign);
	pthread_barrier_wait(&driver.met);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&driver.met);
	munmap(memory, MIB);
	assert_int_equal(tow_runtime_close(driver.runtime), TOW_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_agree),
		cmocka_unit_test(progress_is_told),
		cmocka_unit_test(numa_knob),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
