/*
 * test_real_device.c - a device of somebody else's, loaded as any runtime would load it.
 *
 * TOW_TEST_DEVICE is its spec ("cuda:0", "pjrt:/path/plugin.so"); else TOW_TEST_PJRT_PLUGIN names a
 * plugin of PJRT (tests/fetch_pjrt gets XLA's for CPUs). Skipped without either, and under
 * ThreadSanitizer, which does not see how a driver's own threads order themselves.
 */
#include "device_rig.h"

#include <sys/mman.h>
#include <unistd.h>

#include "transport/op/path.h"

#define MIB ((uint64_t)1 << 20)

static char spec[600];
static const char *name = ""; /* what the device's begins with */

static bool is_pjrt(const struct twt_rig *rig)
{
	struct tow_device_info info = { .size = sizeof(info) };

	twt_rig_ok(tow_device_info(rig->device, &info));
	return strcmp(info.kind, "pjrt") == 0;
}

/* What a copy of memory ends with that is not in the pool, small, and not registered. */
static int status_of_other(const struct twt_rig *rig)
{
	return rig->device->facts.takes_any ? TOW_OK : TOW_COPIED;
}

static void content_survives_both_ways(void **state)
{
	static const uint64_t sizes[] = { 1, 63, 4096, 4097, 1000003, 8 << 20 };
	struct twt_rig rig;
	uint64_t staged = 0;
	int other;

	(void)state;
	twt_rig_open(&rig, spec, false);
	other = status_of_other(&rig);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct tow_device_memory *memory = twt_rig_memory(&rig, sizes[i]);
		uint8_t *pool = twt_rig_alloc(&rig, sizes[i]), *heap = malloc(sizes[i]);
		struct tow_result result;

		twt_rig_fill(pool, sizes[i], i);
		assert_int_equal(
			twt_rig_end(twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, pool, sizes[i]),
				    &result),
			TOW_OK);
		assert_int_equal(result.bytes, sizes[i]);
		memset(pool, 0, sizes[i]); /* the device must not have kept the user's memory */
		assert_int_equal(twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, 0, heap, sizes[i]),
				 other);
		twt_rig_check(heap, sizes[i], i);
		twt_rig_fill(heap, sizes[i], i + 50); /* and from memory that is not in the pool */
		assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, heap, sizes[i]),
				 other);
		staged += other == TOW_COPIED ? 2 * sizes[i] : 0;
		assert_int_equal(twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, 0, pool, sizes[i]),
				 TOW_OK);
		twt_rig_check(pool, sizes[i], i + 50);
		twt_rig_ok(tow_free(rig.runtime, pool));
		twt_rig_ok(tow_device_free(memory));
		free(heap);
	}
	assert_int_equal(twt_rig_count(&rig, TWI_C_fallback_copy_bytes), staged);
	twt_rig_close(&rig);
}

/* Random writes and reads of one memory, against a shadow of it. */
static void pieces_make_one_memory(void **state)
{
	static uint8_t shadow[200000], host[200000];
	uint64_t random = twt_seed();
	struct tow_device_memory *memory;
	struct twt_rig rig;
	int other;

	(void)state;
	twt_rig_open(&rig, spec, false);
	other = status_of_other(&rig);
	memory = twt_rig_memory(&rig, sizeof(shadow));
	twt_rig_fill(shadow, sizeof(shadow), 0);
	assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, shadow, sizeof(shadow)),
			 other);
	for (unsigned i = 0; i < 300; i++) {
		uint64_t offset = twt_random_below(&random, sizeof(shadow));
		uint64_t bytes = 1 + twt_random_below(&random, sizeof(shadow) - offset);

		if (twt_random_below(&random, 2)) {
			twt_rig_fill(host, bytes, i);
			assert_int_equal(
				twt_rig_copy(&rig, TOW_TO_DEVICE, memory, offset, host, bytes),
				other);
			twt_rig_fill(shadow + offset, bytes, i);
		} else {
			assert_int_equal(
				twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, offset, host, bytes),
				other);
			assert_memory_equal(host, shadow + offset, bytes);
		}
	}
	twt_rig_close(&rig);
}

static void it_says_whether_the_pool_is_mapped(void **state)
{
	struct tow_device_info info = { .size = sizeof(info) };
	struct twt_rig rig;
	char *text;

	(void)state;
	twt_rig_open(&rig, spec, false);
	twt_rig_ok(tow_device_info(rig.device, &info));
	assert_int_equal(strncmp(spec, info.kind, strlen(info.kind)), 0);
	assert_true(info.name[0] != '\0');
	assert_int_equal(strncmp(info.name, name, strlen(name)), 0);
	twt_rig_ok(tow_stats_get(rig.runtime, "/v1/devices", &text));
	printf("%s\n", text);
	if (rig.device->facts.takes_any) {
		assert_int_equal(info.mapped_bytes, 0);
		assert_non_null(strstr(info.unmapped_because, "DmaMap"));
		assert_non_null(strstr(text, "no DmaMap"));
		tow_stats_release(text);
		twt_rig_ok(tow_stats_get(rig.runtime, "/v1/pool", &text));
		assert_non_null(strstr(text, "DmaMap"));
	} else {
		assert_int_equal(info.mapped_bytes, 16 * MIB);
		assert_string_equal(info.unmapped_because, "");
	}
	tow_stats_release(text);
	twt_rig_close(&rig);
}

static void what_was_never_written_has_no_content(void **state)
{
	struct tow_device_memory *memory;
	struct tow_result result;
	struct twt_rig rig;
	uint8_t *host;

	(void)state;
	twt_rig_open(&rig, spec, false);
	if (!is_pjrt(&rig)) {
		twt_rig_close(&rig);
		skip(); /* elsewhere it has some content, whatever it is */
	}
	memory = twt_rig_memory(&rig, 200);
	host = twt_rig_alloc(&rig, 200);
	twt_rig_fill(host, 100, 1);
	assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, host, 100), TOW_OK);
	assert_int_equal(
		twt_rig_end(twt_rig_start(&rig, TOW_FROM_DEVICE, memory, 0, host, 200), &result),
		TOW_EINVAL);
	assert_int_equal(result.bytes, 100);
	twt_rig_check(host, 100, 1);
	twt_rig_close(&rig);
}

/* Many at once, with a thread that sleeps rather than polls. */
static void many_copies_at_once(void **state)
{
	enum { COPIES = 48, BYTES = 300000 };
	static uint8_t host[COPIES][BYTES], back[COPIES][BYTES];
	struct tow_options options = twt_rig_options();
	struct tow_device_memory *memory[COPIES];
	struct tow_op *op[COPIES];
	struct twt_rig rig;
	int other;

	(void)state;
	options.spin_ns = 0;
	twt_rig_runtime(&rig, &options, false);
	twt_rig_ok(tow_device_open(rig.runtime, spec, &rig.device));
	other = status_of_other(&rig);
	for (unsigned i = 0; i < COPIES; i++) {
		memory[i] = twt_rig_memory(&rig, BYTES);
		twt_rig_fill(host[i], BYTES, i);
		op[i] = twt_rig_start(&rig, TOW_TO_DEVICE, memory[i], 0, host[i], BYTES);
	}
	for (unsigned i = 0; i < COPIES; i++)
		assert_int_equal(twt_rig_end(op[i], NULL), other);
	for (unsigned i = 0; i < COPIES; i++)
		op[i] = twt_rig_start(&rig, TOW_FROM_DEVICE, memory[i], 0, back[i], BYTES);
	for (unsigned i = 0; i < COPIES; i++) {
		assert_int_equal(twt_rig_end(op[i], NULL), other);
		twt_rig_check(back[i], BYTES, i);
	}
	twt_rig_close(&rig);
}

static void closing_with_copies_in_flight(void **state)
{
	static uint8_t host[32 << 20];
	struct tow_device_memory *memory;
	struct tow_op *op;
	struct twt_rig rig;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		int status;

		twt_rig_open(&rig, spec, false);
		memory = twt_rig_memory(&rig, sizeof(host));
		op = twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, host, sizeof(host));
		twt_rig_ok(tow_device_close(rig.device));
		status = twt_rig_end(op, NULL);
		assert_true(status == TOW_ECLOSED || status >= TOW_OK);
		twt_rig_close(&rig);
	}
}

static uint8_t *map_fresh(uint8_t *where, uint64_t bytes)
{
	uint8_t *at = mmap(where, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | (where != NULL ? MAP_FIXED : 0), -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

/*
 * A runtime allocates, copies and unmaps, again and again at the same place. A registration that
 * outlived its memory would show the device the pages of the time before.
 */
static void memory_of_others_is_registered_late(void **state)
{
	enum { BYTES = 3 << 20, TURNS = 12 };
	struct tow_options options = twt_rig_options();
	struct tow_device_memory *memory;
	uint8_t *host = map_fresh(NULL, BYTES), *back;
	struct twt_rig rig;

	(void)state;
	options.late_cache_bytes = 64 * MIB;
	twt_rig_runtime(&rig, &options, false);
	twt_rig_ok(tow_device_open(rig.runtime, spec, &rig.device));
	memory = twt_rig_memory(&rig, BYTES);
	back = twt_rig_alloc(&rig, BYTES);
	for (unsigned i = 0; i < TURNS; i++) {
		int status;

		twt_rig_fill(host, BYTES, i);
		status = twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, host, BYTES);
		assert_true(status == TOW_OK || status == TOW_COPIED);
		assert_int_equal(twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, 0, back, BYTES),
				 TOW_OK);
		twt_rig_check(back, BYTES, i);
		if (i % 3 == 1) { /* other pages at the same place */
			munmap(host, BYTES);
			map_fresh(host, BYTES);
		} else if (i % 3 == 2) {
			madvise(host, BYTES, MADV_DONTNEED);
		}
	}
	printf("late registrations %llu, staged %llu bytes\n",
	       (unsigned long long)twt_rig_count(&rig, TWI_C_late_registrations),
	       (unsigned long long)twt_rig_count(&rig, TWI_C_fallback_copy_bytes));
	twt_rig_close(&rig);
	munmap(host, BYTES);
}

static void registered_memory_goes_straight(void **state)
{
	enum { BYTES = 5 << 20 };
	struct tow_device_memory *memory;
	uint8_t *host = map_fresh(NULL, BYTES);
	uint64_t handle;
	struct twt_rig rig;

	(void)state;
	twt_rig_open(&rig, spec, false);
	memory = twt_rig_memory(&rig, BYTES);
	twt_rig_ok(tow_mem_register(rig.runtime, host, BYTES, &handle));
	twt_rig_fill(host, BYTES, 3);
	assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, host, BYTES), TOW_OK);
	memset(host, 0, BYTES);
	assert_int_equal(twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, 0, host, BYTES), TOW_OK);
	twt_rig_check(host, BYTES, 3);
	assert_int_equal(twt_rig_count(&rig, TWI_C_fallback_copies), 0);
	twt_rig_ok(tow_mem_deregister(rig.runtime, handle));
	assert_int_equal(twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, 0, host, 1000),
			 status_of_other(&rig));
	twt_rig_close(&rig);
	munmap(host, BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(content_survives_both_ways),
		cmocka_unit_test(pieces_make_one_memory),
		cmocka_unit_test(it_says_whether_the_pool_is_mapped),
		cmocka_unit_test(what_was_never_written_has_no_content),
		cmocka_unit_test(many_copies_at_once),
		cmocka_unit_test(closing_with_copies_in_flight),
		cmocka_unit_test(memory_of_others_is_registered_late),
		cmocka_unit_test(registered_memory_goes_straight),
	};
	const char *device = getenv("TOW_TEST_DEVICE"), *plugin = getenv("TOW_TEST_PJRT_PLUGIN");

#ifdef TWT_TSAN
	printf("skipped: the driver's threads are not instrumented\n");
	return 77;
#endif
	if (device != NULL) {
		snprintf(spec, sizeof(spec), "%s", device);
	} else if (plugin != NULL && access(plugin, R_OK) == 0) {
		snprintf(spec, sizeof(spec), "pjrt:%s", plugin);
		name = "cpu";
	} else {
		printf("skipped: no PJRT plugin (tests/fetch_pjrt gets one, and "
		       "TOW_TEST_PJRT_PLUGIN names it), and no TOW_TEST_DEVICE\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
