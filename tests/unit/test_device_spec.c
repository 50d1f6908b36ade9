/*
 * test_device_spec.c - which specs name a device, and the device that is none.
 */
#include "device_rig.h"

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
	struct tow_options options = rig_options();
	struct tow_device *device;
	struct rig rig;

	(void)state;
	rig_runtime(&rig, &options, true);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		device = (void *)1;
		if (strcmp(bad[i], "fake:memory=1e3") == 0) {
			rig_ok(tow_device_open(rig.runtime, bad[i], &device));
			rig_ok(tow_device_close(device));
			continue;
		}
		assert_int_equal(tow_device_open(rig.runtime, bad[i], &device), TOW_EINVAL);
		assert_null(device);
		assert_int_not_equal(strlen(tow_error_message()), 0);
	}
	assert_int_equal(tow_device_open(NULL, "fake", &device), TOW_EINVAL);
	assert_int_equal(tow_device_open(rig.runtime, NULL, &device), TOW_EINVAL);
	assert_int_equal(tow_device_open(rig.runtime, "fake", NULL), TOW_EINVAL);
	rig_close(&rig);
}

static void none_is_a_device_without_memory(void **state)
{
	struct tow_device_info info = { .size = sizeof(info) };
	struct tow_device_memory *memory = (void *)1;
	struct rig rig;

	(void)state;
	rig_open(&rig, "none", true);
	rig_ok(tow_device_info(rig.device, &info));
	assert_string_equal(info.kind, "none");
	assert_int_equal(info.mapped_bytes, 0);
	assert_non_null(strstr(info.unmapped_because, "no device"));
	assert_int_equal(tow_device_alloc(rig.device, 64, &memory), TOW_ENOTSUP);
	assert_null(memory);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(specs_are_judged),
		cmocka_unit_test(none_is_a_device_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
