/*
 * test_pool_faults.c - the Nth system call, heap allocation, thread or registration fails.
 *
 * For each kind N grows until it is no longer reached. Each time the pool either works all the same
 * (huge pages, mlock, threads can be done without) or gives a clean status with a message; and no
 * descriptor and no mapping of the pool stays behind.
 */
#include "twt.h"

#include "fault.h"

#include <string.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"

#define POOL_BYTES ((uint64_t)40 << 20)

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

struct fake {
	int calls, fail_at, known;
};

static int fake_add(void *ctx, const struct twi_region *region)
{
	struct fake *fake = ctx;

	(void)region;
	if (++fake->calls == fake->fail_at)
		return twi_error(TOW_ESYSTEM, "fake fails");
	fake->known++;
	return TOW_OK;
}

static void fake_remove(void *ctx, const struct twi_region *region)
{
	struct fake *fake = ctx;

	(void)region;
	fake->known--;
}

static const struct twi_registrar fake_registrar = { "fake", fake_add, fake_remove };

/* Makes a pool, uses it, ends it; the first failure. */
static int use_pool(struct twi_diag *diag, bool huge_pages, bool strict, struct fake *fake)
{
	struct twi_pool_options options = { .bytes = POOL_BYTES,
					    .huge_pages = huge_pages,
					    .strict = strict,
					    .numa = "0",
					    .diag = diag };
	struct twi_pool *pool = NULL;
	void *small = NULL, *large = NULL;
	int status = twi_pool_create(&options, &pool);

	if (status == TOW_OK)
		status = twi_pool_registrar_add(pool, &fake_registrar, fake);
	if (status == TOW_OK)
		status = twi_pool_alloc(pool, 100, 0, &small);
	if (status == TOW_OK)
		status = twi_pool_alloc(pool, 1 << 20, 0, &large);
	if (status == TOW_OK) {
		memset(small, 1, 100);
		memset(large, 1, 1 << 20);
		status = twi_pool_free(pool, small);
	}
	twi_pool_destroy(pool);
	return status;
}

static void fail_each(enum twt_fault call, bool huge_pages, bool strict, int failures_min)
{
	struct twi_diag *diag;
	int failures = 0, fds, maps;
	bool reached = true;

	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	fds = twt_fd_count();
	maps = twt_map_count("towline-pool");
	for (int nth = 1; reached; nth++) {
		struct fake fake = { 0 };
		int status;

		assert_true(nth < 100);
		twt_fault_arm(call, nth);
		status = use_pool(diag, huge_pages, strict, &fake);
		reached = twt_fault_off();
		if (status != TOW_OK) {
			failures++;
			assert_true(reached);
			assert_true(status == TOW_ENOMEM || status == TOW_ESYSTEM ||
				    status == TOW_EPERM);
			assert_true(*tow_error_message());
		}
		assert_int_equal(fake.known, 0);
		assert_int_equal(twt_fd_count(), fds);
		assert_int_equal(twt_map_count("towline-pool"), maps);
	}
	assert_true(failures >= failures_min);
	twi_diag_destroy(diag);
}

static void mmap_fails(void **state)
{
	(void)state;
	fail_each(TWT_MMAP, false, false, 3);
	fail_each(TWT_MMAP, true, false, 0);
}

static void memfd_create_fails(void **state)
{
	(void)state;
	fail_each(TWT_MEMFD_CREATE, false, false, 1);
	fail_each(TWT_MEMFD_CREATE, true, false, 0);
}

static void ftruncate_fails(void **state)
{
	(void)state;
	fail_each(TWT_FTRUNCATE, false, false, 1);
	fail_each(TWT_FTRUNCATE, true, false, 0);
}

/* The pool works, lies where the kernel likes, and says so. */
static void mbind_fails(void **state)
{
	struct twi_extent_options options = { .bytes = 4 << 20, .numa = "0" };
	struct twi_extent extent;

	(void)state;
	fail_each(TWT_MBIND, false, false, 0);
	twt_fault_arm(TWT_MBIND, 1);
	assert_int_equal(twi_extent_open(&options, &extent), TOW_OK);
	assert_true(twt_fault_off());
	assert_string_equal(extent.numa_reason, "numa: not bound (mbind: EPERM)");
	assert_non_null(strstr(extent.numa_mend, "SYS_NICE"));
	twi_extent_unmap(&extent);
}

static void madvise_fails(void **state)
{
	(void)state;
	fail_each(TWT_MADVISE, false, false, 2);
	fail_each(TWT_MADVISE, true, false, 1); /* without reserved huge pages one step down less */
}

static void mlock_fails(void **state)
{
	(void)state;
	fail_each(TWT_MLOCK, false, false, 0);
	fail_each(TWT_MLOCK, false, true, 1);
}

/* A kernel that has no mlock2 locks all the same. */
static void mlock2_is_missing(void **state)
{
	struct twi_extent_options options = { .bytes = 4 << 20, .numa = "" };
	struct twi_extent extent;

	(void)state;
	twt_fault_arm_errno(TWT_MLOCK, 1, ENOSYS);
	assert_int_equal(twi_extent_open(&options, &extent), TOW_OK);
	assert_true(twt_fault_off());
	assert_true(extent.mlocked);
	assert_int_equal(extent.pin_status, TOW_OK);
	twi_extent_unmap(&extent);
}

static void threads_fail(void **state)
{
	(void)state;
	fail_each(TWT_PTHREAD_CREATE, false, false, 0);
}

#ifndef TWT_SANITIZED
static void calloc_fails(void **state)
{
	(void)state;
	/* The pool, the extent, the arena, its table and bitmap, the registration. */
	fail_each(TWT_CALLOC, false, false, 6);
}
#endif

/* A kernel before 5.14: MADV_POPULATE_WRITE is unknown, so pages are touched. */
static void populate_unknown(void **state)
{
	struct twi_extent extent;

	(void)state;
	assert_int_equal(map_base(1 << 20, &extent), TOW_OK);
	twt_fault_arm_errno(TWT_MADVISE, 1, EINVAL);
	assert_int_equal(twi_extent_populate(&extent, 1), TOW_OK);
	assert_true(twt_fault_off());
	assert_true(extent.touched);
	assert_int_equal(twi_extent_resident_bytes(&extent), 1 << 20);
	twt_fault_arm_errno(TWT_MADVISE, 1, EINTR);
	assert_int_equal(twi_extent_populate(&extent, 1), TOW_OK);
	assert_true(twt_fault_off());
	assert_false(extent.touched);
	twi_extent_unmap(&extent);
}

/* The node has none of the pages that are reserved: they map, and fault with EFAULT. */
static void reserved_but_not_there(void)
{
	struct twi_extent_options options = { .bytes = 4 << 20, .best = TWI_PAGES_HUGETLB_1G };
	struct twi_extent extent;

	twt_fault_arm_errno(TWT_MADVISE, 2, EFAULT); /* the first is MADV_DONTFORK */
	assert_int_equal(twi_extent_open(&options, &extent), TOW_OK);
	assert_true(twt_fault_off());
	assert_true(extent.kind < TWI_PAGES_HUGETLB_2M);
	assert_non_null(
		strstr(extent.step[TWI_PAGES_HUGETLB_2M].reason, "(MADV_POPULATE_WRITE: EFAULT)"));
	assert_non_null(strstr(extent.step[TWI_PAGES_HUGETLB_1G].reason, "smaller"));
	assert_non_null(strstr(extent.reason, "EFAULT"));
	assert_int_equal(twi_extent_resident_bytes(&extent), 4 << 20);
	twi_extent_unmap(&extent);
}

/* The path of reserved huge pages, in all but the pages themselves. */
static void hugetlb_path(void **state)
{
	int fds = twt_fd_count();
	struct twi_extent extent;

	(void)state;
	atomic_store(&twt_fault_pretend_hugetlb, true);
	assert_int_equal(map_huge((3 << 20) + 1, &extent), TOW_OK);
	assert_int_equal(extent.kind, TWI_PAGES_HUGETLB_2M);
	assert_int_equal(extent.bytes, 4 << 20);
	assert_int_equal(extent.page_bytes, TWI_HUGE_BYTES);
	assert_string_equal(extent.step[TWI_PAGES_HUGETLB_2M].reason, "");
	assert_int_equal(twi_extent_populate(&extent, 0), TOW_OK);
	assert_int_equal(twi_extent_resident_bytes(&extent), 4 << 20);
	twi_extent_unmap(&extent);
	reserved_but_not_there();
	/* Failures of mapping and of populating step down to base pages; DONTFORK's does not. */
	fail_each(TWT_MMAP, true, false, 0);
	fail_each(TWT_MADVISE, true, false, 1);
	atomic_store(&twt_fault_pretend_hugetlb, false);
	assert_int_equal(twt_fd_count(), fds);
}

/* What a progress callback was told. */
struct progress {
	pthread_t thread;
	uint64_t last;
	int calls, ends;
};

static void note_progress(void *user, uint64_t done_bytes, uint64_t total_bytes)
{
	struct progress *progress = user;

	assert_true(pthread_equal(pthread_self(), progress->thread));
	assert_int_equal(total_bytes, POOL_BYTES);
	assert_true(done_bytes >= progress->last && done_bytes <= total_bytes);
	progress->last = done_bytes;
	progress->calls++;
	progress->ends += done_bytes == total_bytes;
}

struct lines {
	int progress;
	char last[TWI_LOG_BYTES];
};

static void note_line(void *arg, uint64_t ns, int level, const char *text)
{
	struct lines *lines = arg;

	(void)ns;
	if (strstr(text, "MiB faulted in after") == NULL)
		return;
	assert_int_equal(level, 3);
	lines->progress++;
	snprintf(lines->last, sizeof(lines->last), "%s", text);
}

/* Memory that takes more than a second: three chunks of 600 ms on one thread. */
static void slow_memory_is_told(void **state)
{
	struct progress progress = { .thread = pthread_self() };
	struct twi_extent_options options = { .bytes = POOL_BYTES,
					      .progress = note_progress,
					      .progress_user = &progress };
	struct twi_extent extent;
	struct lines lines = { 0 };

	(void)state;
	assert_int_equal(twi_diag_create(&options.diag), TOW_OK);
	twi_diag_log_level(options.diag, 3);
	assert_int_equal(twi_extent_map(&options, &extent), TOW_OK);
	atomic_store(&twt_fault_madvise_ms, 600);
	assert_int_equal(twi_extent_populate(&extent, 1), TOW_OK);
	atomic_store(&twt_fault_madvise_ms, 0);
	assert_int_equal(progress.calls, 3);
	assert_int_equal(progress.ends, 1);
	assert_int_equal(progress.last, POOL_BYTES);
	twi_log_read(options.diag, note_line, &lines);
	assert_true(lines.progress >= 2);
	assert_non_null(strstr(lines.last, "pool: 40 of 40 MiB faulted in after"));
	assert_non_null(strstr(lines.last, "GiB/s, 1 threads"));
	twi_extent_unmap(&extent);
	/* One that fails is never told to be done. */
	progress = (struct progress){ .thread = pthread_self() };
	assert_int_equal(twi_extent_map(&options, &extent), TOW_OK);
	twt_fault_arm(TWT_MADVISE, 2);
	assert_int_equal(twi_extent_populate(&extent, 1), TOW_ENOMEM);
	assert_true(twt_fault_off());
	assert_int_equal(progress.ends, 0);
	twi_extent_unmap(&extent);
	twi_diag_destroy(options.diag);
}

static void registration_fails(void **state)
{
	struct twi_diag *diag;
	int fds = twt_fd_count();

	(void)state;
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	for (int at = 1; at <= 2; at++) {
		struct fake fake = { .fail_at = at };
		int status = use_pool(diag, false, false, &fake);

		assert_int_equal(status, at == 1 ? TOW_ESYSTEM : TOW_OK);
		assert_int_equal(fake.known, 0);
	}
	assert_int_equal(twt_fd_count(), fds);
	twi_diag_destroy(diag);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mmap_fails),          cmocka_unit_test(memfd_create_fails),
		cmocka_unit_test(ftruncate_fails),     cmocka_unit_test(mbind_fails),
		cmocka_unit_test(madvise_fails),       cmocka_unit_test(mlock_fails),
		cmocka_unit_test(mlock2_is_missing),   cmocka_unit_test(threads_fail),
#ifndef TWT_SANITIZED
		cmocka_unit_test(calloc_fails),
#endif
		cmocka_unit_test(populate_unknown),    cmocka_unit_test(hugetlb_path),
		cmocka_unit_test(slow_memory_is_told), cmocka_unit_test(registration_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
