/* test_extent.c - mapping, page kinds with their reasons, guards, fork, limits. */
#include "twt.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "memreg/pool/extent.h"

static int map_base(uint64_t bytes, struct twi_extent *extent)
{
	struct twi_extent_options options = { .bytes = bytes };

	return twi_extent_map(&options, extent);
}

static int map_huge(uint64_t bytes, struct twi_extent *extent)
{
	struct twi_extent_options options = { .bytes = bytes, .best = TWI_PAGES_HUGETLB_1G };

	return twi_extent_map(&options, extent);
}

static void base_pages(void **state)
{
	int fds = twt_fd_count(), maps = twt_map_count("");
	struct twi_extent extent;
	struct stat file;

	(void)state;
	assert_int_equal(map_base(5000, &extent), TOW_OK);
	assert_int_equal(extent.bytes, 8192);
	assert_int_equal(extent.page_bytes, 4096);
	assert_int_equal((uintptr_t)extent.base % TWI_HUGE_BYTES, 0);
	assert_int_equal(fstat(extent.fd, &file), 0);
	assert_int_equal(file.st_size, 8192);
	assert_int_equal(twi_extent_resident_bytes(&extent), 0);
	assert_int_equal(twi_extent_populate(&extent, 0), TOW_OK);
	assert_int_equal(twi_extent_resident_bytes(&extent), 8192);
	assert_int_not_equal(ftruncate(extent.fd, 0), 0); /* sealed */
	assert_string_equal(extent.reason, "");
	twi_extent_unmap(&extent);
	assert_int_equal(twt_fd_count(), fds);
#ifndef TWT_SANITIZED /* they map memory of their own meanwhile */
	assert_int_equal(twt_map_count(""), maps);
#endif
	(void)maps;
}

static void huge_pages_or_the_reason(void **state)
{
	struct twi_extent extent;

	(void)state;
	assert_int_equal(map_huge(16 << 20, &extent), TOW_OK);
	assert_int_equal(twi_extent_populate(&extent, 2), TOW_OK);
	print_message("pages: %s; reason: %s; mend: %s\n", twi_page_kind_name(extent.kind),
		      extent.reason, extent.mend);
	assert_non_null(strstr(extent.reason, "hugetlb 1 GiB: the pool, of 16777216 bytes, is "));
	assert_non_null(strstr(extent.mend, "premap_memory_bytes=1024MiB"));
	if (extent.kind != TWI_PAGES_HUGETLB_2M) {
		assert_non_null(strstr(extent.reason, "hugetlb 2 MiB: 8 pages of 2 MiB needed"));
		assert_non_null(strstr(extent.mend, "sysctl vm.nr_hugepages="));
	} else {
		assert_string_equal(extent.step[TWI_PAGES_HUGETLB_2M].reason, "");
		assert_string_equal(extent.step[TWI_PAGES_THP].reason, "");
		assert_int_equal(extent.huge_bytes, extent.bytes);
	}
	memset(extent.base, 1, extent.bytes);
	twi_extent_unmap(&extent);
	assert_int_equal(map_huge(100, &extent), TOW_OK);
	assert_non_null(strstr(extent.reason, "smaller than a huge page"));
	twi_extent_unmap(&extent);
}

static void bad_sizes_are_named(void **state)
{
	struct twi_extent extent;

	(void)state;
	assert_int_equal(map_base(0, &extent), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "premap_memory_bytes = 0"));
	assert_int_equal(map_base(UINT64_MAX, &extent), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "18446744073709551615"));
	assert_int_equal(map_huge((uint64_t)1 << 62, &extent), TOW_ENOMEM);
	assert_int_equal(map_base((uint64_t)1 << 42, &extent), TOW_ENOMEM);
	assert_non_null(strstr(tow_error_message(), "4398046511104"));
}

/* Runs `body` in a child; its exit status, or minus the signal that ended it. */
static int in_child(void (*body)(const struct twi_extent *), const struct twi_extent *extent)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		body(extent);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void touch_inside(const struct twi_extent *extent)
{
	_exit(((volatile char *)extent->base)[0]);
}

static void forked_child_has_no_extent(void **state)
{
	struct twi_extent extent;

	(void)state;
	assert_int_equal(map_base(8192, &extent), TOW_OK);
	assert_int_equal(in_child(touch_inside, &extent), -SIGSEGV);
	twi_extent_unmap(&extent);
}

static void map_and_run_over_end(const struct twi_extent *unused)
{
	struct twi_extent extent;

	(void)unused;
	if (map_base(8192, &extent) == TOW_OK)
		((volatile char *)extent.base)[extent.bytes] = 1;
}

static void map_and_run_under_base(const struct twi_extent *unused)
{
	struct twi_extent extent;

	(void)unused;
	if (map_base(8192, &extent) == TOW_OK)
		((volatile char *)extent.base)[-1] = 1;
}

static void guards_catch_overruns(void **state)
{
	(void)state;
	assert_int_equal(in_child(map_and_run_over_end, NULL), -SIGSEGV);
	assert_int_equal(in_child(map_and_run_under_base, NULL), -SIGSEGV);
}

static void pin_without_right(const struct twi_extent *unused)
{
	struct rlimit limit = { 65536, 65536 };
	struct twi_extent extent;
	int status;

	(void)unused;
	setrlimit(RLIMIT_MEMLOCK, &limit);
	if (setuid(65534) || map_base(1 << 20, &extent) != TOW_OK)
		_exit(2);
	status = twi_extent_pin(&extent);
	if (status != TOW_ENOMEM || extent.mlocked)
		_exit(3);
	if (strstr(extent.pin_reason, "RLIMIT_MEMLOCK is 64 KiB") == NULL ||
	    strstr(extent.pin_mend, "LimitMEMLOCK=infinity") == NULL)
		_exit(4);
}

static void unpinned_has_a_reason(void **state)
{
	(void)state;
#ifdef TWT_SANITIZED
	skip();
#endif
	if (geteuid() != 0)
		skip();
	assert_int_equal(in_child(pin_without_right, NULL), 0);
}

static void exceed_file_limit(const struct twi_extent *unused)
{
	struct rlimit limit = { 65536, 65536 };
	struct twi_extent extent;

	(void)unused;
	setrlimit(RLIMIT_FSIZE, &limit);
	if (map_base(1 << 20, &extent) != TOW_EPERM ||
	    strstr(tow_error_message(), "RLIMIT_FSIZE") == NULL)
		_exit(2);
}

static void file_limit_does_not_kill(void **state)
{
	(void)state;
	assert_int_equal(in_child(exceed_file_limit, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(base_pages),
		cmocka_unit_test(huge_pages_or_the_reason),
		cmocka_unit_test(bad_sizes_are_named),
		cmocka_unit_test(forked_child_has_no_extent),
		cmocka_unit_test(guards_catch_overruns),
		cmocka_unit_test(unpinned_has_a_reason),
		cmocka_unit_test(file_limit_does_not_kill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
