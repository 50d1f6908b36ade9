/*
 * test_device_memory.c - which specs name a device, the device that is none, and memory of the
 * user's that a device gets to know at its first use.
 */
#include "device_rig.h"

#include <pthread.h>
#include <sys/mman.h>

#define MIB ((uint64_t)1 << 20)

static void specs_are_judged(void **state)
{
	static const char *const bad[] = { "",
					   "tpu",
					   "fake:nonsense=1",
					   "fake:chunk=0",
					   "fake:latency=x",
					   "fake:memory=-1",
					   "fake:memory=1e3",
					   "none:1",
					   "cuda:x",
					   "cuda:a=1",
					   "pjrt",
					   "fake:memory=9999999999GB" };
	struct tow_options options = twt_rig_options();
	struct tow_device *device;
	struct twt_rig rig;

	(void)state;
	twt_rig_runtime(&rig, &options, true);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		device = (void *)1;
		if (strcmp(bad[i], "fake:memory=1e3") == 0) {
			twt_rig_ok(tow_device_open(rig.runtime, bad[i], &device));
			twt_rig_ok(tow_device_close(device));
			continue;
		}
		assert_int_equal(tow_device_open(rig.runtime, bad[i], &device), TOW_EINVAL);
		assert_null(device);
		assert_int_not_equal(strlen(tow_error_message()), 0);
	}
	assert_int_equal(tow_device_open(NULL, "fake", &device), TOW_EINVAL);
	assert_int_equal(tow_device_open(rig.runtime, NULL, &device), TOW_EINVAL);
	assert_int_equal(tow_device_open(rig.runtime, "fake", NULL), TOW_EINVAL);
	twt_rig_close(&rig);
}

static void none_is_a_device_without_memory(void **state)
{
	struct tow_device_info info = { .size = sizeof(info) };
	struct tow_device_memory *memory = (void *)1;
	struct twt_rig rig;

	(void)state;
	twt_rig_open(&rig, "none", true);
	twt_rig_ok(tow_device_info(rig.device, &info));
	assert_string_equal(info.kind, "none");
	assert_int_equal(info.mapped_bytes, 0);
	assert_non_null(strstr(info.unmapped_because, "no device"));
	assert_int_equal(tow_device_alloc(rig.device, 64, &memory), TOW_ENOTSUP);
	assert_null(memory);
	twt_rig_close(&rig);
}

/*
 * Memory that nobody registered: registered late where it can be watched, else staged. Either way
 * the bytes are those that lie there now, also when other memory has taken the place of the first.
 */
static void memory_is_registered_at_its_first_use(void **state)
{
	struct tow_options options = twt_rig_options();
	static uint8_t back[MIB];
	struct tow_device_memory *memory;
	struct twt_rig rig;
	void *at = NULL;

	(void)state;
	options.late_cache_bytes = 64 << 20;
	twt_rig_runtime(&rig, &options, false);
	twt_rig_ok(tow_device_open(rig.runtime, "fake", &rig.device));
	twt_rig_ok(tow_runtime_seal(rig.runtime));
	memory = twt_rig_memory(&rig, MIB);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t copied = twt_rig_count(&rig, TWI_C_fallback_copy_bytes);
		uint64_t late = twt_rig_count(&rig, TWI_C_late_registrations);
		int status;

		at = mmap(at, MIB, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | (i > 0 ? MAP_FIXED : 0), -1, 0);
		assert_ptr_not_equal(at, MAP_FAILED);
		twt_rig_fill(at, MIB, i);
		status = twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, at, MIB);
		assert_true(status == TOW_OK || status == TOW_COPIED);
		copied = twt_rig_count(&rig, TWI_C_fallback_copy_bytes) - copied;
		assert_int_equal(copied, status == TOW_OK ? 0 : MIB);
		late = twt_rig_count(&rig, TWI_C_late_registrations) - late;
		assert_int_equal(late, status == TOW_OK ? 1 : 0);
		assert_true(twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, 0, back, MIB) >= 0);
		twt_rig_check(back, MIB, i);
		printf("round %u: %s\n", i, tow_status_name(status));
	}
	munmap(at, MIB);
	twt_rig_close(&rig);
}

static void *take_and_give(void *arg)
{
	for (unsigned i = 0; i < 1000; i++) {
		struct tow_device_memory *memory;

		twt_rig_ok(tow_device_alloc(arg, 64, &memory));
		twt_rig_ok(tow_device_free(memory));
	}
	return NULL;
}

/* Memory comes and goes while others ask about the device. */
static void is_asked_while_memory_comes_and_goes(void **state)
{
	struct tow_device_info info = { .size = sizeof(info) };
	struct twt_rig rig;
	pthread_t thread;

	(void)state;
	twt_rig_open(&rig, "fake", false);
	assert_int_equal(pthread_create(&thread, NULL, take_and_give, rig.device), 0);
	for (unsigned i = 0; i < 1000; i++) {
		twt_rig_ok(tow_device_info(rig.device, &info));
		assert_in_range(info.allocated_bytes, 0, 64);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	twt_rig_ok(tow_device_info(rig.device, &info));
	assert_int_equal(info.allocated_bytes, 0);
	twt_rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(specs_are_judged),
		cmocka_unit_test(none_is_a_device_without_memory),
		cmocka_unit_test(is_asked_while_memory_comes_and_goes),
		cmocka_unit_test(memory_is_registered_at_its_first_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
