/* test_regions.c - handles, slots, lookup, holds, rollback and announcements of regions. */
#include "twt.h"

#include <string.h>
#include <sys/mman.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "fake_registrar.h"
#include "memreg/pool/pool.h"
#include "memreg/pool/pool_impl.h"
#include "memreg/pool/pool_regions.h"

#define MIB  ((uint64_t)1 << 20)
#define PAGE 4096u

static struct twi_diag *diag;
static struct twi_pool *pool;
static struct twt_fake fake, other;

static int setup(void **state)
{
	struct twi_pool_options options = { .bytes = 2 * MIB };

	(void)state;
	memset(&fake, 0, sizeof(fake));
	memset(&other, 0, sizeof(other));
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
	assert_int_equal(other.known, 0);
	assert_int_equal(fake.adds, fake.removes);
	twi_diag_destroy(diag);
	return 0;
}

static char *map(uint64_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static uint64_t register_ok(void *p, uint64_t bytes)
{
	uint64_t handle;

	assert_int_equal(twi_pool_register(pool, p, bytes, TWI_SITE_NONE, &handle), TOW_OK);
	assert_int_not_equal(handle, 0);
	return handle;
}

static void register_fails(void *p, uint64_t bytes, int status, const char *text)
{
	uint64_t handle = 7;

	assert_int_equal(twi_pool_register(pool, p, bytes, TWI_SITE_NONE, &handle), status);
	assert_int_equal(handle, 0);
	assert_non_null(strstr(tow_error_message(), text));
}

static void handles_are_checked(void **state)
{
	char *p = map(4 * PAGE);
	uint64_t first = register_ok(p, 4 * PAGE), second;

	(void)state;
	assert_true(twt_fake_translate(&fake, p + 100, 3 * PAGE));
	assert_int_equal(twi_pool_deregister(pool, 0), TOW_EINVAL);
	assert_int_equal(twi_pool_deregister(pool, UINT64_MAX), TOW_EINVAL);
	assert_int_equal(twi_pool_deregister(pool, first ^ 1), TOW_EFREED);
	/* The extent's own slot and generation are no handle of the user's. */
	assert_int_equal(
		twi_pool_deregister(pool, pool->extents.extent[0]->region.generation << 12 |
						  pool->extents.extent[0]->region.slot),
		TOW_EFREED);
	assert_int_equal(twi_pool_deregister(pool, first), TOW_OK);
	assert_false(twt_fake_translate(&fake, p + 100, 3 * PAGE));
	assert_int_equal(twi_pool_deregister(pool, first), TOW_EFREED);
	/* The same slot again, but another generation. */
	second = register_ok(p, 4 * PAGE);
	assert_int_equal(first % 4096, second % 4096);
	assert_int_equal(twi_pool_deregister(pool, first), TOW_EFREED);
	assert_int_equal(twi_pool_deregister(pool, second), TOW_OK);
	assert_int_equal(twi_counter_sum(diag, TWI_C_mem_registers), 2);
	assert_int_equal(twi_counter_sum(diag, TWI_C_mem_deregisters), 2);
	munmap(p, 4 * PAGE);
}

static void another_pools_handle(void **state)
{
	struct twi_pool_options options = { .bytes = MIB, .diag = diag };
	char *p = map(PAGE);
	struct twi_pool *second;
	uint64_t handle;

	(void)state;
	assert_int_equal(twi_pool_create(&options, &second), TOW_OK);
	assert_int_equal(twi_pool_register(second, p, PAGE, TWI_SITE_NONE, &handle), TOW_OK);
	register_ok(p, PAGE);
	assert_int_equal(twi_pool_deregister(pool, handle), TOW_EFREED);
	assert_int_equal(twi_pool_deregister(second, handle), TOW_OK);
	twi_pool_destroy(second);
	munmap(p, PAGE);
}

static void bad_memory_is_named(void **state)
{
	char *p = map(16 * PAGE);
	void *in_pool;

	(void)state;
	munmap(p + 5 * PAGE, PAGE);
	register_fails(NULL, PAGE, TOW_EINVAL, "NULL");
	register_fails(p, 0, TOW_EINVAL, "bytes = 0");
	register_fails(p, UINT64_MAX - 5, TOW_EINVAL, "beyond");
	register_fails(p, (uint64_t)1 << 62, TOW_EINVAL, "mapped");
	register_fails(p, 16 * PAGE, TOW_EINVAL, "mapped");
	register_fails(p + 4 * PAGE + 100, PAGE, TOW_EINVAL, "mapped");
	assert_int_equal(twi_pool_alloc(pool, PAGE, 0, &in_pool), TOW_OK);
	register_fails(in_pool, PAGE, TOW_EINVAL, "registered already");
	assert_int_equal(fake.adds, 1);
	register_ok(p + 100, 5 * PAGE - 100);
	register_ok(p + 6 * PAGE, 10 * PAGE);
	twi_pool_free(pool, in_pool);
	munmap(p, 16 * PAGE);
}

static void lookup_and_holds(void **state)
{
	char *p = map(64 * PAGE);
	const struct twi_region *a, *b;
	uint64_t wide, narrow, version;

	(void)state;
	assert_null(twi_pool_region_acquire(pool, p, 1));
	version = twi_pool_regions_version(pool);
	narrow = register_ok(p + 8 * PAGE, 8 * PAGE);
	assert_true(twi_pool_regions_version(pool) > version);
	assert_null(twi_pool_region_acquire(pool, p + 8 * PAGE - 1, 2));
	assert_null(twi_pool_region_acquire(pool, p + 15 * PAGE, PAGE + 1));
	assert_null(twi_pool_region_acquire(pool, p + 8 * PAGE, UINT64_MAX));
	wide = register_ok(p, 64 * PAGE);
	/* Behind the narrow one: only the wide one, which starts further left, holds it. */
	a = twi_pool_region_acquire(pool, p + 20 * PAGE, PAGE);
	assert_non_null(a);
	assert_ptr_equal(a->base, p);
	b = twi_pool_region_acquire(pool, p + 9 * PAGE, PAGE);
	assert_non_null(b);
	assert_int_equal(twi_pool_deregister(pool, wide), TOW_EBUSY);
	assert_non_null(strstr(tow_error_message(), "operations"));
	twi_pool_region_release(pool, a);
	twi_pool_region_release(pool, b);
	assert_int_equal(twi_pool_deregister(pool, wide), TOW_OK);
	assert_null(twi_pool_region_acquire(pool, p + 20 * PAGE, PAGE));
	b = twi_pool_region_acquire(pool, p + 9 * PAGE, PAGE);
	assert_ptr_equal(b->base, p + 8 * PAGE);
	assert_true(twi_pool_region_known(pool, b, &twt_fake_registrar, &fake));
	assert_false(twi_pool_region_known(pool, b, &twt_fake_registrar, &other));
	twi_pool_region_release(pool, b);
	assert_int_equal(twi_pool_deregister(pool, narrow), TOW_OK);
	munmap(p, 64 * PAGE);
}

static void all_or_none(void **state)
{
	char *p = map(PAGE);
	struct twi_registration *r;

	(void)state;
	other.fail_at = 1;
	other.fail_kind = 1u << TWI_REGION_USER;
	other.fail_status = TOW_ENOMEM;
	assert_int_equal(twi_pool_registrar_add(pool, &twt_fake_registrar, &other), TOW_OK);
	register_fails(p, PAGE, TOW_ENOMEM, "fake fails");
	assert_int_equal(fake.known, 1);
	assert_int_equal(fake.adds, 2);
	assert_false(twt_fake_translate(&fake, p, PAGE));
	assert_null(twi_pool_region_acquire(pool, p, PAGE));
	assert_int_equal(twi_counter_sum(diag, TWI_C_mem_registers), 0);
	/* The second try works, and finds nothing left over from the first. */
	register_ok(p, PAGE);
	assert_true(twt_fake_translate(&fake, p, PAGE) && twt_fake_translate(&other, p, PAGE));
	r = pool->registrations->next;
	assert_ptr_equal(r->ctx, &other);
	assert_int_equal(r->count, 2);
	assert_int_equal(r->failures, 1);
	assert_int_equal(r->bytes, 2 * MIB + PAGE);
	assert_int_equal(r->known_bytes, 2 * MIB + PAGE);
	assert_int_equal(r->extent_bytes, 2 * MIB);
	assert_int_equal(r->last_bytes, PAGE);
	assert_true(r->max_ns >= r->last_ns && r->ns >= r->max_ns);
	twi_pool_registrar_remove(pool, &twt_fake_registrar, &other);
	munmap(p, PAGE);
}

/* A registrar that comes late learns of user memory too, or is not registered at all. */
static void new_registrars_learn_all(void **state)
{
	char *p = map(2 * PAGE);

	(void)state;
	register_ok(p, PAGE);
	register_ok(p + PAGE, PAGE);
	other.fail_at = 3;
	assert_int_equal(twi_pool_registrar_add(pool, &twt_fake_registrar, &other), TOW_ESYSTEM);
	assert_int_equal(other.known, 0);
	other.fail_at = 0;
	assert_int_equal(twi_pool_registrar_add(pool, &twt_fake_registrar, &other), TOW_OK);
	assert_int_equal(other.known, 3);
	twi_pool_registrar_remove(pool, &twt_fake_registrar, &other);
	assert_int_equal(other.known, 0);
	/* One that may not pin stays listed, is told nothing, and holds nobody up. */
	other.fail_at = other.calls + 2;
	other.fail_status = TOW_EPERM;
	assert_int_equal(twi_pool_registrar_add(pool, &twt_fake_registrar, &other), TOW_OK);
	assert_false(twi_pool_registered(pool, &twt_fake_registrar, &other));
	assert_int_equal(other.known, 0);
	register_ok(p, 2 * PAGE);
	assert_int_equal(other.known, 0);
	assert_int_equal(fake.known, 4);
	munmap(p, 2 * PAGE);
}

static void late_is_recorded(void **state)
{
	char *p = map(PAGE);
	struct twi_reason_sum sum;

	(void)state;
	register_ok(p, PAGE);
	twi_reason_sum(diag, TWI_R_late_register, &sum);
	assert_int_equal(sum.count, 0);
	twi_pool_seal(pool);
	fake.latency_ns = 1000;
	register_ok(p, PAGE);
	twi_reason_sum(diag, TWI_R_late_register, &sum);
	assert_int_equal(sum.count, 1);
	assert_int_equal(sum.bytes, PAGE);
	assert_true(sum.ns > 0);
	munmap(p, PAGE);
}

/* More regions, and larger ones, than there are slots: 1 GiB pieces take one each. */
static void slots_run_out(void **state)
{
	uint64_t huge = 5 * TWI_REGION_PIECE + 1;
	char *p = map(huge);
	uint64_t handle[TWI_REGION_SLOTS], large;
	uint32_t count = 0;

	(void)state;
	large = register_ok(p, huge);
	assert_int_equal(fake.table[large % 4096].slots, 6);
	while (twi_pool_register(pool, p + count, 1, TWI_SITE_NONE, &handle[count]) == TOW_OK)
		count++;
	assert_int_equal(count, TWI_REGION_SLOTS - 1 - 6);
	register_fails(p, 1, TOW_EEXHAUSTED, "slots");
	/* Five free slots are not six in a row. */
	for (int i = 10; i < 15; i++)
		assert_int_equal(twi_pool_deregister(pool, handle[i]), TOW_OK);
	register_fails(p, huge, TOW_EEXHAUSTED, "slots");
	assert_int_equal(twi_pool_deregister(pool, handle[15]), TOW_OK);
	register_ok(p, huge);
	assert_int_equal(twi_pool_deregister(pool, large), TOW_OK);
	munmap(p, huge);
}

static void count_kinds(void *arg, const struct twi_region *region)
{
	((int *)arg)[region->kind]++;
}

/* As growth does it: a new extent is told to all, or to none, and has slots of its own. */
static void extents_are_announced(void **state)
{
	int seen[3] = { 0 };
	struct twi_extent_options options = { .bytes = MIB };
	struct twi_extent extent;

	(void)state;
	assert_int_equal(twi_extent_map(&options, &extent), TOW_OK);
	assert_int_equal(twi_pool_registrar_add(pool, &twt_fake_registrar, &other), TOW_OK);
	other.fail_at = other.calls + 1;
	assert_int_equal(twi_pool_extent_announce(pool, &extent), TOW_ESYSTEM);
	assert_int_equal(fake.known, 1);
	assert_int_equal(other.known, 1);
	assert_int_equal(twi_pool_extent_announce(pool, &extent), TOW_OK);
	assert_true(extent.region.slot != pool->extents.extent[0]->region.slot);
	assert_true(twt_fake_knows(&fake, &extent.region, extent.base, MIB));
	twi_pool_regions_each(pool, count_kinds, seen);
	assert_int_equal(seen[TWI_REGION_EXTENT], 2);
	twi_pool_extent_forget(pool, &extent);
	assert_int_equal(fake.known, 1);
	twi_pool_registrar_remove(pool, &twt_fake_registrar, &other);
	twi_extent_unmap(&extent);
}

/* This pool was given no table of a late cache: nothing is registered at its first use. */
static void without_a_late_cache(void **state)
{
	const struct twi_region *region = (const void *)state;
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(twi_pool_region_late(pool, p, 4096, TWI_SITE_NONE, &region), TOW_ENOTSUP);
	assert_null(region);
	assert_non_null(strstr(tow_error_message(), "late cache"));
	assert_int_equal(fake.known, 1);
	munmap(p, 4096);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(handles_are_checked),   EACH(another_pools_handle),
		EACH(bad_memory_is_named),   EACH(lookup_and_holds),
		EACH(all_or_none),           EACH(new_registrars_learn_all),
		EACH(late_is_recorded),      EACH(slots_run_out),
		EACH(extents_are_announced), EACH(without_a_late_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
