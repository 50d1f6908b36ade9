/*
 * test_path.c - when a route sends zero-copy: tried once, dropped while the kernel copies, tried
 * again after a pause that doubles, kept where it pays; and that every copy is counted.
 */
#include "twt.h"

#include <string.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/op/path.h"

#define SECOND 1000000000ull

static struct twi_engine engine;

static int setup(void **state)
{
	(void)state;
	engine = (struct twi_engine){ .virtual_clock = true, .virtual_ns = 1 };
	engine.knobs.zerocopy_min_bytes = 65536;
	return twi_diag_create(&engine.diag);
}

static int teardown(void **state)
{
	(void)state;
	twi_diag_destroy(engine.diag);
	return 0;
}

static enum twi_path choose(struct twi_route *route, uint64_t bytes)
{
	enum twi_path path = twi_path_choose(&engine, route, bytes);

	if (path == TWI_PATH_TRIAL)
		twi_path_tried(&engine, route);
	return path;
}

static void test_copied_route(void **state)
{
	struct twi_route route;
	uint64_t pause = SECOND;

	(void)state;
	twi_route_init(&route, true);
	assert_int_equal(choose(&route, 65535), TWI_PATH_PLAIN); /* too small to try */
	/* to choose is not to try: only what was sent counts */
	assert_int_equal(twi_path_choose(&engine, &route, 1 << 20), TWI_PATH_TRIAL);
	for (int round = 0; round < 10; round++) {
		assert_int_equal(choose(&route, 1 << 20), TWI_PATH_TRIAL);
		assert_int_equal(choose(&route, 1 << 20), TWI_PATH_PLAIN); /* one trial at a time */
		twi_path_report(&engine, &route, 1 << 20, true);
		assert_int_equal(choose(&route, 1 << 20), TWI_PATH_PLAIN);
		engine.virtual_ns += pause - 1;
		assert_int_equal(choose(&route, 1 << 20), TWI_PATH_PLAIN);
		engine.virtual_ns += 1;
		pause = pause * 2 < 60 * SECOND ? pause * 2 : 60 * SECOND;
	}
	assert_int_equal(route.copied, 10);
	assert_int_equal(twi_counter_sum(engine.diag, TWI_C_zerocopy_kernel_copies), 10);
	assert_int_equal(twi_counter_sum(engine.diag, TWI_C_zerocopy_kernel_copy_bytes), 10 << 20);
	assert_int_equal(twi_counter_sum(engine.diag, TWI_C_zerocopy_probes), 10);
}

static void test_route_that_pays(void **state)
{
	struct twi_route route;

	(void)state;
	twi_route_init(&route, true);
	assert_int_equal(choose(&route, 1 << 20), TWI_PATH_TRIAL);
	assert_false(twi_path_pays(&engine, &route, 1 << 20));
	twi_path_report(&engine, &route, 1 << 20, false);
	assert_int_equal(route.least_bytes, 1 << 20); /* the smallest that was not copied */
	for (int i = 0; i < 100; i++)
		assert_int_equal(choose(&route, 1 << 20), TWI_PATH_ZEROCOPY);
	twi_path_report(&engine, &route, 0, true); /* a full socket: nothing was copied */
	assert_int_equal(choose(&route, 1 << 20), TWI_PATH_ZEROCOPY);
	twi_path_report(&engine, &route, 1 << 20, true); /* until the kernel copies one */
	assert_int_equal(choose(&route, 1 << 20), TWI_PATH_PLAIN);
}

/* A trial of which the socket took nothing has found out nothing, and is made again. */
static void test_full_socket(void **state)
{
	uint64_t copies = twi_counter_sum(engine.diag, TWI_C_zerocopy_kernel_copies);
	struct twi_route route;

	(void)state;
	twi_route_init(&route, true);
	assert_int_equal(choose(&route, 1 << 20), TWI_PATH_TRIAL);
	twi_path_report(&engine, &route, 0, true);
	assert_int_equal(choose(&route, 1 << 20), TWI_PATH_TRIAL);
	assert_int_equal(route.copied, 0);
	assert_int_equal(twi_counter_sum(engine.diag, TWI_C_zerocopy_kernel_copies), copies);
}

static void test_never(void **state)
{
	struct twi_route route;

	(void)state;
	twi_route_init(&route, false);
	assert_int_equal(choose(&route, 1 << 20), TWI_PATH_PLAIN);
	twi_route_init(&route, true);
	engine.knobs.zerocopy_min_bytes = 0;
	assert_int_equal(choose(&route, 1 << 20), TWI_PATH_PLAIN);
	engine.knobs.zerocopy_min_bytes = 65536;
}

static void test_knob(void **state)
{
	struct twi_route route;

	(void)state;
	twi_route_init(&route, true);
	engine.knobs.zerocopy = TWI_ZEROCOPY_ALWAYS;
	assert_int_equal(choose(&route, 1 << 20), TWI_PATH_ZEROCOPY);
	assert_true(twi_path_pays(&engine, &route, 1 << 20));
	twi_path_report(&engine, &route, 1 << 20, true);
	assert_int_equal(choose(&route, 1 << 20), TWI_PATH_ZEROCOPY);
	assert_int_equal(choose(&route, 65535), TWI_PATH_PLAIN);
	engine.knobs.zerocopy = TWI_ZEROCOPY_NEVER;
	assert_int_equal(choose(&route, 1 << 20), TWI_PATH_PLAIN);
	assert_false(twi_path_pays(&engine, &route, 1 << 20));
	engine.knobs.zerocopy = TWI_ZEROCOPY_AUTO;
}

static void test_copies_are_counted(void **state)
{
	char from[100], to[100] = { 0 };
	struct twi_reason_sum sum;

	(void)state;
	memset(from, 7, sizeof(from));
	twi_path_copy_eager(&engine, to, from, 60);
	twi_path_copy_eager(&engine, NULL, NULL, 0); /* an empty message copies nothing */
	assert_memory_equal(to, from, 60);
	assert_int_equal(to[60], 0);
	assert_int_equal(twi_counter_sum(engine.diag, TWI_C_necessary_copies), 1);
	assert_int_equal(twi_counter_sum(engine.diag, TWI_C_necessary_copy_bytes), 60);
	twi_path_copy_fallback(&engine, TWI_R_unexpected_arrival, to, from, 100, TWI_SITE_NONE);
	assert_memory_equal(to, from, 100);
	twi_reason_sum(engine.diag, TWI_R_unexpected_arrival, &sum);
	assert_int_equal(sum.bytes, 100);
	assert_int_equal(twi_counter_sum(engine.diag, TWI_C_fallback_copy_bytes), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_copied_route, setup, teardown),
		cmocka_unit_test_setup_teardown(test_route_that_pays, setup, teardown),
		cmocka_unit_test_setup_teardown(test_knob, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_socket, setup, teardown),
		cmocka_unit_test_setup_teardown(test_never, setup, teardown),
		cmocka_unit_test_setup_teardown(test_copies_are_counted, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
