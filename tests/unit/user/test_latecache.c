/*
 * test_latecache.c - late registrations: kept while the memory is what it was, and not longer.
 *
 * After each change of the memory the cached region must not be found from the moment on that the
 * call has returned; that registrars forget it may take until the watching thread has told.
 */
#include "twt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "diag/serve/render.h"
#include "fake_registrar.h"
#include "memreg/os/maps.h"
#include "memreg/pool/pool.h"
#include "memreg/pool/pool_impl.h"
#include "memreg/pool/pool_regions.h"
#include "memreg/user/latecache.h"
#include <internal/base.h>

#define MIB   ((uint64_t)1 << 20)
#define PAGE  ((uint64_t)4096)
#define LIMIT (64 * PAGE)

static struct twi_diag *diag;
static struct twi_pool *pool;
static struct twt_fake fake;

static int setup(void **state)
{
	struct twi_pool_options options = { .bytes = MIB,
					    .late_cache_bytes = LIMIT,
					    .late_cache_entries = 4,
					    .late = &twi_latecache_ops };

	(void)state;
	memset(&fake, 0, sizeof(fake));
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	options.diag = diag;
	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
	assert_int_equal(twi_pool_registrar_add(pool, &twt_fake_registrar, &fake), TOW_OK);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	twi_pool_destroy(pool);
	assert_int_equal(fake.known, 0);
	assert_int_equal(fake.adds, fake.removes);
	twi_diag_destroy(diag);
	return 0;
}

static char *map(uint64_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	/* As a registrar that pins would do: the fake one leaves the pages alone. */
	memset(p, 1, bytes);
	return p;
}

static const struct twi_region *late(void *p, uint64_t bytes)
{
	const struct twi_region *region;

	assert_int_equal(twi_pool_region_late(pool, p, bytes, TWI_SITE_NONE, &region), TOW_OK);
	assert_non_null(region);
	assert_true(twt_fake_knows(&fake, region, p, bytes));
	return region;
}

static void use(void *p, uint64_t bytes)
{
	twi_pool_region_release(pool, late(p, bytes));
}

static void late_fails(void *p, uint64_t bytes, int status, const char *text)
{
	const struct twi_region *region;

	assert_int_equal(twi_pool_region_late(pool, p, bytes, TWI_SITE_NONE, &region), status);
	assert_null(region);
	if (strstr(tow_error_message(), text) == NULL)
		fail_msg("\"%s\" is not in: %s", text, tow_error_message());
}

static uint64_t count(enum twi_counter counter)
{
	return twi_counter_sum(diag, counter);
}

/* Lets the watching thread tell, until registrars know `known` cached regions. */
static void await_known(int known)
{
	for (int i = 0; fake.known != known + 1 && i < 5000; i++) {
		twi_pool_regions_settle(pool);
		usleep(1000);
	}
	assert_int_equal(fake.known, known + 1);
}

static void hit_and_miss(void **state)
{
	char *p = map(8 * PAGE);
	const struct twi_region *a, *b;
	struct twi_reason_sum sum;

	(void)state;
	assert_null(twi_pool_region_acquire(pool, p, PAGE));
	a = late(p + 100, PAGE);
	assert_ptr_equal(a->base, p);
	assert_int_equal(a->bytes, 2 * PAGE);
	assert_int_equal(a->kind, TWI_REGION_CACHED);
	b = twi_pool_region_acquire(pool, p, 2 * PAGE);
	assert_ptr_equal(a, b);
	assert_ptr_equal(late(p + PAGE, 1), a);
	assert_int_equal(a == b ? count(TWI_C_late_cache_hits) : 0, 2);
	assert_int_equal(count(TWI_C_late_cache_misses), 1);
	twi_reason_sum(diag, TWI_R_late_user_memory, &sum);
	assert_int_equal(sum.count, 1);
	assert_int_equal(sum.bytes, 2 * PAGE);
	assert_int_equal(fake.adds, 2);
	for (int i = 0; i < 3; i++)
		twi_pool_region_release(pool, a);
	/* A cached region is no handle of the user's. */
	assert_int_equal(twi_pool_deregister(pool, a->generation << 12 | a->slot), TOW_EFREED);
	/* A user region around it goes first, and costs no check. */
	{
		uint64_t handle;

		assert_int_equal(twi_pool_register(pool, p, 8 * PAGE, TWI_SITE_NONE, &handle),
				 TOW_OK);
		b = twi_pool_region_acquire(pool, p, PAGE);
		assert_int_equal(b->kind, TWI_REGION_USER);
		twi_pool_region_release(pool, b);
	}
	munmap(p, 8 * PAGE);
}

static void neighbours_join(void **state)
{
	char *p = map(16 * PAGE);
	const struct twi_region *a, *b;

	(void)state;
	a = late(p + 4 * PAGE, 4 * PAGE);
	b = late(p + 6 * PAGE, 4 * PAGE);
	assert_ptr_equal(b->base, p + 4 * PAGE);
	assert_int_equal(b->bytes, 6 * PAGE);
	/* The first is still held, and known, but what is found is the second. */
	assert_true(twt_fake_knows(&fake, a, p + 4 * PAGE, 4 * PAGE));
	assert_ptr_equal(late(p + 4 * PAGE, PAGE), b);
	twi_pool_region_release(pool, b);
	twi_pool_region_release(pool, a);
	assert_int_equal(fake.known, 2);
	twi_pool_region_release(pool, b);
	assert_int_equal(fake.known, 2);
	/* Its end did not end the watching of what the second has of the first. */
	munmap(p + 4 * PAGE, PAGE);
	assert_null(twi_pool_region_acquire(pool, p + 5 * PAGE, PAGE));
	munmap(p, 16 * PAGE);
	await_known(0);
}

static void oldest_goes_first(void **state)
{
	char *p = map(20 * PAGE);
	const struct twi_region *held;

	(void)state;
	for (int i = 0; i < 4; i++)
		use(p + 4 * i * PAGE, PAGE);
	use(p, PAGE);
	use(p + 16 * PAGE, PAGE);
	assert_int_equal(count(TWI_C_late_cache_evictions), 1);
	assert_int_equal(fake.known, 5);
	assert_null(twi_pool_region_acquire(pool, p + 4 * PAGE, 1));
	held = twi_pool_region_acquire(pool, p, PAGE);
	assert_non_null(held);
	/* Bytes: all but the one that is held must go, and then it is too much. */
	{
		char *q = map(LIMIT);

		use(q, LIMIT - PAGE);
		assert_int_equal(fake.known, 3);
		late_fails(q, LIMIT, TOW_EEXHAUSTED, "late_cache_bytes");
		assert_ptr_equal(twi_pool_region_acquire(pool, p, PAGE), held);
		twi_pool_region_release(pool, held);
		twi_pool_region_release(pool, held);
		use(q, LIMIT);
		assert_int_equal(fake.known, 2);
		late_fails(q, LIMIT + 1, TOW_EEXHAUSTED, "late_cache_bytes");
		munmap(q, LIMIT);
	}
	munmap(p, 20 * PAGE);
}

/* The ways in which memory can change; each gets 8 pages, of which 2 to 5 are cached. */
static void by_munmap(char *p)
{
	munmap(p + 3 * PAGE, PAGE);
}

static void by_munmap_around(char *p)
{
	munmap(p, 8 * PAGE);
}

static void by_map_fixed(char *p)
{
	mmap(p + 4 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memset(p + 4 * PAGE, 2, 4 * PAGE);
}

static void by_mremap_away(char *p)
{
	char *to = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_equal(mremap(p + 2 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	munmap(to, PAGE);
}

static void by_mremap_over(char *p)
{
	char *from = map(PAGE);

	assert_ptr_not_equal(mremap(from, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + 3 * PAGE),
			     MAP_FAILED);
}

static void by_mremap_shrink(char *p)
{
	assert_ptr_equal(mremap(p, 8 * PAGE, 4 * PAGE, 0), p);
}

static void by_dontneed(char *p)
{
	assert_int_equal(madvise(p + 5 * PAGE, PAGE, MADV_DONTNEED), 0);
	memset(p + 5 * PAGE, 3, PAGE);
}

static void by_shm_remap(char *p)
{
	int id = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600);

	/* No event at all: the check itself must see it. */
	assert_ptr_equal(shmat(id, p + 4 * PAGE, SHM_REMAP), p + 4 * PAGE);
	shmctl(id, IPC_RMID, NULL);
}

static void by_shm_remap_and_back(char *p)
{
	by_shm_remap(p);
	assert_int_equal(shmdt(p + 4 * PAGE), 0);
	mmap(p + 4 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
	     -1, 0);
	memset(p + 4 * PAGE, 4, PAGE);
}

static void changes_are_seen(void **state)
{
	void (*const ways[])(char *) = {
		by_munmap,      by_munmap_around,      by_map_fixed,
		by_mremap_away, by_mremap_over,        by_mremap_shrink,
		by_shm_remap,   by_shm_remap_and_back, by_dontneed,
	};

	(void)state;
	for (size_t i = 0; i < twi_array_count(ways); i++) {
		uint64_t before = count(TWI_C_late_cache_invalidations);
		char *p = map(8 * PAGE), *q = map(8 * PAGE);
		const struct twi_region *held;

		use(p + 2 * PAGE, 4 * PAGE);
		ways[i](p);
		if (twi_pool_region_acquire(pool, p + 2 * PAGE, 4 * PAGE) != NULL)
			fail_msg("way %zu was not seen", i);
		await_known(0);
		assert_int_equal(count(TWI_C_late_cache_invalidations), before + 1);

		/* Again while it is in use: found no more, but known until that use has ended. */
		held = late(q + 2 * PAGE, 4 * PAGE);
		ways[i](q);
		assert_null(twi_pool_region_acquire(pool, q + 2 * PAGE, 4 * PAGE));
		assert_true(twt_fake_knows(&fake, held, q + 2 * PAGE, 4 * PAGE));
		twi_pool_region_release(pool, held);
		await_known(0);
		munmap(p, 8 * PAGE);
		munmap(q, 8 * PAGE);
	}
}

static void what_does_not_change_it(void **state)
{
	char *p = map(8 * PAGE), *q = map(8 * PAGE);

	(void)state;
	use(p + 2 * PAGE, 2 * PAGE);
	munmap(p, PAGE);
	madvise(p + 6 * PAGE, PAGE, MADV_DONTNEED);
	mprotect(p + 2 * PAGE, PAGE, PROT_READ);
	munmap(q, 8 * PAGE);
	use(p + 2 * PAGE, 2 * PAGE);
	assert_int_equal(count(TWI_C_late_cache_hits), 1);
	assert_int_equal(count(TWI_C_late_cache_invalidations), 0);
	munmap(p, 8 * PAGE);
}

/* What free() and the heap's end do is seen like anything else. (ASan's free keeps the memory.) */
static void allocator(void **state)
{
	char *top;

	(void)state;
#ifndef TWT_SANITIZED
	{
		char *p = malloc(4 * MIB);

		assert_non_null(p);
		memset(p, 1, 4 * MIB);
		use(p + 5000, 20 * PAGE);
		free(p);
		assert_null(twi_pool_region_acquire(pool, p + 5000, PAGE));
		await_known(0);
	}
#endif
	top = sbrk(8 * (intptr_t)PAGE);
	memset(top, 1, 8 * PAGE);
	use(top, 8 * PAGE);
	sbrk(-8 * (intptr_t)PAGE);
	assert_null(twi_pool_region_acquire(pool, top, PAGE));
	await_known(0);
}

/* The discarded pages may go only after the event, so for a while nothing is kept. */
static void discarded_is_for_once(void **state)
{
	char *p = map(8 * PAGE);

	(void)state;
	use(p, 4 * PAGE);
	madvise(p, 4 * PAGE, MADV_DONTNEED);
	memset(p, 5, 4 * PAGE);
	await_known(0);
	use(p, 4 * PAGE);
	assert_int_equal(fake.known, 1);
	assert_null(twi_pool_region_acquire(pool, p, PAGE));
	/* Then it is as before. */
	for (int i = 0; fake.known == 1 && i < 1000; i++) {
		usleep(10000);
		use(p, 4 * PAGE);
	}
	assert_int_equal(fake.known, 2);
	use(p, 4 * PAGE);
	munmap(p, 8 * PAGE);
}

static void not_to_be_cached(void **state)
{
	char *shared =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fd = memfd_create("twt", MFD_CLOEXEC);
	char *file, *mixed = map(8 * PAGE);

	(void)state;
	assert_int_equal(ftruncate(fd, 4 * PAGE), 0);
	file = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	late_fails(shared, PAGE, TOW_ENOTSUP, "tow_mem_register");
	late_fails(file, PAGE, TOW_ENOTSUP, "tow_mem_register");
	mmap(mixed + 4 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	late_fails(mixed, 8 * PAGE, TOW_ENOTSUP, "shared");
	munmap(mixed + 4 * PAGE, PAGE);
	late_fails(mixed, 8 * PAGE, TOW_ENOTSUP, "mapped");
	late_fails(NULL, PAGE, TOW_EINVAL, "not a range of memory");
	late_fails(mixed, 0, TOW_EINVAL, "not a range of memory");
	late_fails(mixed, UINT64_MAX, TOW_EINVAL, "not a range of memory");
	assert_int_equal(fake.known, 1);
	use(mixed, 4 * PAGE);
	close(fd);
	munmap(mixed, 8 * PAGE);
	munmap(shared, 4 * PAGE);
	munmap(file, 4 * PAGE);
}

static void watched_by_others(void **state)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_WP };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	char *p = map(4 * PAGE);

	(void)state;
	assert_true(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0);
	range.range = (struct uffdio_range){ (uintptr_t)p, 4 * PAGE };
	assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &range), 0);
	late_fails(p, PAGE, TOW_ENOTSUP, "cannot be watched");
	close(fd);
	use(p, PAGE);
	munmap(p, 4 * PAGE);
}

static void failures_leave_nothing(void **state)
{
	char *p = map(8 * PAGE);

	(void)state;
	fake.fail_at = 2;
	fake.fail_status = TOW_ENOMEM;
	late_fails(p, PAGE, TOW_ENOMEM, "fake fails");
	assert_int_equal(fake.known, 1);
	assert_null(twi_pool_region_acquire(pool, p, PAGE));
	use(p, 2 * PAGE);
	/* With its neighbour it fails, alone it works. */
	fake.fail_at = fake.calls + 1;
	use(p + PAGE, 2 * PAGE);
	assert_int_equal(fake.known, 2);
	munmap(p, 8 * PAGE);
}

/* The table's other way of asking, for kernels before 6.11. */
static void maps_agree(void **state)
{
	int fd = twi_maps_open();
	struct twi_map quick, plain;
	uint64_t at = 0;
	int maps = 0;

	(void)state;
	assert_true(fd >= 0);
	if (twi_maps_query(fd, 0, &quick) == ENOTTY)
		skip();
	for (;; at = quick.end, maps++) {
		int err = twi_maps_query(fd, at, &quick);

		if (err != 0 || quick.start >= (uint64_t)INTPTR_MAX)
			break;
		assert_int_equal(twi_maps_scan(fd, at, &plain), 0);
		assert_int_equal(quick.start, plain.start);
		assert_int_equal(quick.end, plain.end);
		assert_int_equal(quick.readable, plain.readable);
		assert_int_equal(quick.shared, plain.shared);
		assert_int_equal(quick.file, plain.file);
	}
	assert_true(maps > 10);
	close(fd);
}

static void without_the_quick_way(void **state)
{
	char *p = map(8 * PAGE);

	(void)state;
	use(p, PAGE);
	twi_latecache_of(pool)->watch.walks = false;
	use(p + 4 * PAGE, PAGE);
	use(p, PAGE);
	assert_int_equal(count(TWI_C_late_cache_hits), 1);
	munmap(p, PAGE);
	assert_null(twi_pool_region_acquire(pool, p, PAGE));
	munmap(p, 8 * PAGE);
}

static void nobody_to_register_with(void **state)
{
	char *p = map(PAGE);

	(void)state;
	twi_pool_registrar_remove(pool, &twt_fake_registrar, &fake);
	late_fails(p, PAGE, TOW_ENOTSUP, "no lane or device needs");
	munmap(p, PAGE);
}

static void info_tells(void **state)
{
	struct twi_emit e;

	(void)state;
	twi_emit_init(&e);
	assert_int_equal(twi_registry_render(diag, "/v1/info", &e), TOW_OK);
	assert_non_null(strstr(e.text, "\"late_cache\""));
	assert_non_null(strstr(e.text, "\"watched\":true"));
	twi_emit_fini(&e);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(hit_and_miss),
		EACH(neighbours_join),
		EACH(oldest_goes_first),
		EACH(changes_are_seen),
		EACH(what_does_not_change_it),
		EACH(allocator),
		EACH(discarded_is_for_once),
		EACH(not_to_be_cached),
		EACH(watched_by_others),
		EACH(failures_leave_nothing),
		EACH(maps_agree),
		EACH(without_the_quick_way),
		EACH(nobody_to_register_with),
		EACH(info_tells),
	};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (fd < 0) {
		printf("skipped: userfaultfd is refused here\n");
		return 77;
	}
	close(fd);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
