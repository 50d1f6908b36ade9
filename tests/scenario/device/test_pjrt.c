/*
 * test_pjrt.c - a real PJRT plugin: XLA's CPU client, loaded as any runtime would load it.
 *
 * Needs TOW_TEST_PJRT_PLUGIN to name the plugin (tests/fetch_pjrt gets one); skipped without it,
 * and under ThreadSanitizer, which does not see how the plugin's own threads order themselves.
 */
#include "device_rig.h"

#include <unistd.h>

#include "transport/op/path.h"

#define MIB ((uint64_t)1 << 20)

static char spec[600];

static void content_survives_both_ways(void **state)
{
	static const uint64_t sizes[] = { 1, 63, 4096, 4097, 1000003, 8 << 20 };
	struct twt_rig rig;

	(void)state;
	twt_rig_open(&rig, spec, false);
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
				 TOW_OK);
		twt_rig_check(heap, sizes[i], i);
		twt_rig_fill(heap, sizes[i], i + 50); /* and from memory that is not in the pool */
		assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, heap, sizes[i]),
				 TOW_OK);
		assert_int_equal(twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, 0, pool, sizes[i]),
				 TOW_OK);
		twt_rig_check(pool, sizes[i], i + 50);
		twt_rig_ok(tow_free(rig.runtime, pool));
		twt_rig_ok(tow_device_free(memory));
		free(heap);
	}
	assert_int_equal(twt_rig_count(&rig, TWI_C_fallback_copies), 0);
	twt_rig_close(&rig);
}

/* Random writes and reads of one memory, against a shadow of it. */
static void pieces_make_one_memory(void **state)
{
	static uint8_t shadow[200000], host[200000];
	uint64_t random = twt_seed();
	struct tow_device_memory *memory;
	struct twt_rig rig;

	(void)state;
	twt_rig_open(&rig, spec, false);
	memory = twt_rig_memory(&rig, sizeof(shadow));
	twt_rig_fill(shadow, sizeof(shadow), 0);
	assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, shadow, sizeof(shadow)),
			 TOW_OK);
	for (unsigned i = 0; i < 300; i++) {
		uint64_t offset = twt_random_below(&random, sizeof(shadow));
		uint64_t bytes = 1 + twt_random_below(&random, sizeof(shadow) - offset);

		if (twt_random_below(&random, 2)) {
			twt_rig_fill(host, bytes, i);
			assert_int_equal(
				twt_rig_copy(&rig, TOW_TO_DEVICE, memory, offset, host, bytes),
				TOW_OK);
			twt_rig_fill(shadow + offset, bytes, i);
		} else {
			assert_int_equal(
				twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, offset, host, bytes),
				TOW_OK);
			assert_memory_equal(host, shadow + offset, bytes);
		}
	}
	twt_rig_close(&rig);
}

static void without_dma_map_it_says_so(void **state)
{
	struct tow_device_info info = { .size = sizeof(info) };
	struct twt_rig rig;
	char *text;

	(void)state;
	twt_rig_open(&rig, spec, false);
	twt_rig_ok(tow_device_info(rig.device, &info));
	assert_string_equal(info.kind, "pjrt");
	assert_int_equal(strncmp(info.name, "cpu", 3), 0);
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
	}
	tow_stats_release(text);
	twt_rig_close(&rig);
}

static void what_was_never_written_has_no_content(void **state)
{
	struct tow_device_memory *memory;
	struct tow_result result;
	uint8_t host[200];
	struct twt_rig rig;

	(void)state;
	twt_rig_open(&rig, spec, false);
	memory = twt_rig_memory(&rig, 200);
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

	(void)state;
	options.spin_ns = 0;
	twt_rig_runtime(&rig, &options, false);
	twt_rig_ok(tow_device_open(rig.runtime, spec, &rig.device));
	for (unsigned i = 0; i < COPIES; i++) {
		memory[i] = twt_rig_memory(&rig, BYTES);
		twt_rig_fill(host[i], BYTES, i);
		op[i] = twt_rig_start(&rig, TOW_TO_DEVICE, memory[i], 0, host[i], BYTES);
	}
	for (unsigned i = 0; i < COPIES; i++)
		assert_int_equal(twt_rig_end(op[i], NULL), TOW_OK);
	for (unsigned i = 0; i < COPIES; i++)
		op[i] = twt_rig_start(&rig, TOW_FROM_DEVICE, memory[i], 0, back[i], BYTES);
	for (unsigned i = 0; i < COPIES; i++) {
		assert_int_equal(twt_rig_end(op[i], NULL), TOW_OK);
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
		assert_true(status == TOW_ECLOSED || status == TOW_OK);
		twt_rig_close(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(content_survives_both_ways),
		cmocka_unit_test(pieces_make_one_memory),
		cmocka_unit_test(without_dma_map_it_says_so),
		cmocka_unit_test(what_was_never_written_has_no_content),
		cmocka_unit_test(many_copies_at_once),
		cmocka_unit_test(closing_with_copies_in_flight),
	};
	const char *plugin = getenv("TOW_TEST_PJRT_PLUGIN");

#ifdef TWT_TSAN
	printf("skipped: the plugin's threads are not instrumented\n");
	return 77;
#endif
	if (plugin == NULL || access(plugin, R_OK) != 0) {
		printf("skipped: no PJRT plugin; run tests/fetch_pjrt and set "
		       "TOW_TEST_PJRT_PLUGIN\n");
		return 77;
	}
	snprintf(spec, sizeof(spec), "pjrt:%s", plugin);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
