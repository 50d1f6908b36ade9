/*
 * test_deep_library.c - a library that was opened with RTLD_DEEPBIND, as MPItrampoline opens ours,
 * reads the launcher's variables also in a program that has a copy of environ, as Debian's python3
 * is one: the C library's environ is NULL there.
 */
#include "twt.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include <towline/group.h>
#include <towline/towline.h>

#if defined(__SANITIZE_ADDRESS__)
#define DEEP 0 /* which ASan does not allow; then nothing is to be seen */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DEEP 0
#endif
#elif defined(__SANITIZE_THREAD__)
#define DEEP 0
#endif
#ifndef DEEP
#define DEEP RTLD_DEEPBIND
#endif

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (found == NULL)
		fail_msg("%s: %s", name, dlerror());
	return found;
}

static void reads_launcher(void **state)
{
	const char *build = getenv("TOW_TEST_BUILD");
	struct tow_job_info info = TOW_JOB_INFO_INIT;
	int (*open_runtime)(const struct tow_options *options, struct tow_runtime **out);
	int (*close_runtime)(struct tow_runtime * runtime);
	int (*job_info)(struct tow_runtime * runtime, struct tow_job_info * out);
	struct tow_runtime *runtime;
	char path[512];
	void *library;

	(void)state;
	/* The program names it, so that it has the copy. */
	assert_non_null(environ);
	assert_int_equal(setenv("TOW_RANK", "0", 1), 0);
	assert_int_equal(setenv("TOW_WORLD_SIZE", "1", 1), 0);
	assert_int_equal(setenv("TOW_STORE", "127.0.0.1:1", 1), 0);
	snprintf(path, sizeof(path), "%s/libtowline.so", build != NULL ? build : ".");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL | DEEP);
	if (library == NULL)
		fail_msg("%s", dlerror());
	*(void **)&open_runtime = symbol(library, "tow_runtime_open");
	*(void **)&close_runtime = symbol(library, "tow_runtime_close");
	*(void **)&job_info = symbol(library, "tow_job_info");
	assert_int_equal(open_runtime(NULL, &runtime), TOW_OK);
	assert_int_equal(job_info(runtime, &info), TOW_OK);
	assert_string_equal(info.launcher, "tow");
	assert_int_equal(close_runtime(runtime), TOW_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_launcher),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
