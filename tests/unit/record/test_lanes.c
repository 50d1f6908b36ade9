/*
 * test_lanes.c - the list of lanes (lane.def): its rows do not contradict each other, and what is
 * made from it has each of them: a runtime's tables, error texts, towstat's list, the tests' list.
 */
#include "twt.h"

#include <stdio.h>
#include <string.h>

#include <towline/towline.h>

#include "diag/record/lane_id.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/lane.h"

static const struct twi_lane_info *row(unsigned lane)
{
	return twi_lane_describe((enum twi_lane_id)lane);
}

/* Each lane is tried once, the ways into a tow:// address are not shared, and names are words. */
static void test_rows(void **state)
{
	bool turns[TWI_LANE_COUNT] = { false }, parts[256] = { false };

	(void)state;
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		unsigned ways = row(i)->form == TWI_FORM_NONE   ? 0
				: row(i)->form == TWI_FORM_INET ? 2
								: 1;
		size_t bytes = strlen(row(i)->name);

		assert_true(row(i)->turn < TWI_LANE_COUNT);
		assert_false(turns[row(i)->turn]);
		turns[row(i)->turn] = true;
		assert_int_equal(twi_lane_at_turn(row(i)->turn), i);
		assert_int_equal(row(i)->part == 0, ways == 0);
		for (unsigned k = 0; k < ways; k++) {
			assert_false(parts[row(i)->part + k]);
			parts[row(i)->part + k] = true;
		}
		assert_in_range(bytes, 1, 13); /* error texts have room for so many */
		assert_int_equal(strspn(row(i)->name, "abcdefghijklmnopqrstuvwxyz0123456789"),
				 bytes);
		assert_memory_equal(row(i)->local, row(i)->name, bytes);
		assert_memory_equal(row(i)->local + bytes, "://", 3);
	}
	assert_null(row(TWI_LANE_COUNT));
	assert_string_equal(twi_lane_name(TWI_LANE_COUNT), "unknown");
}

/* A part of a tow:// address is for ever. */
static void test_parts_stay(void **state)
{
	(void)state;
	assert_int_equal(row(TWI_LANE_SHM)->part, 1);
	assert_int_equal(row(TWI_LANE_TCP)->part, 2);
	assert_int_equal(row(TWI_LANE_OFI)->part, 4);
	assert_int_equal(row(TWI_LANE_LOOP)->part, 5);
}

static void says(const char *name, const char *after)
{
	char text[32];

	snprintf(text, sizeof(text), " %s%s", name, after);
	if (strstr(tow_error_message(), text) == NULL)
		fail_msg("'%s' does not name %s", tow_error_message(), name);
}

static void test_tables_and_texts(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_endpoint *endpoint;
	struct tow_runtime *runtime;

	(void)state;
	options.premap_memory_bytes = 4 << 20;
	options.stats = 0;
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		const struct twi_lane *lane = twi_runtime_engine(runtime)->lanes[i];

		assert_non_null(lane);
		assert_int_equal(lane->ops->id, i);
		assert_string_equal(lane->ops->scheme, row(i)->name);
	}
	assert_int_equal(tow_endpoint_open(runtime, "pigeon://coop", &endpoint), TOW_EINVAL);
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++)
		says(row(i)->name, "://");
	says("tow", "://");
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	options.lanes = "tcp,pigeon";
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_EINVAL);
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++)
		says(row(i)->name, "");
	options.lanes = "tcp";
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "shm://*", &endpoint), TOW_EINVAL);
	says("tcp", "://");
	assert_null(strstr(tow_error_message(), ", shm://"));
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

static void test_public_rows(void **state)
{
	struct tow_lane_info info = TOW_LANE_INFO_INIT;

	(void)state;
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		assert_int_equal(tow_lane_info(i, &info), TOW_OK);
		assert_string_equal(info.name, row(i)->name);
		assert_string_equal(info.local, row(i)->local);
		assert_string_equal(info.help, row(i)->help);
	}
	assert_int_equal(tow_lane_info(TWI_LANE_LOOP, &info), TOW_OK);
	assert_string_equal(info.reach, "process");
	assert_int_equal(tow_lane_info(TWI_LANE_SHM, &info), TOW_OK);
	assert_string_equal(info.reach, "host");
	assert_int_equal(tow_lane_info(TWI_LANE_TCP, &info), TOW_OK);
	assert_string_equal(info.reach, "network");
	assert_int_equal(tow_lane_info(TWI_LANE_COUNT, &info), TOW_EINVAL);
	assert_int_equal(tow_lane_info(0, NULL), TOW_EINVAL);
}

/* No lane goes untested: each has a row of lanes.def. */
static void test_every_lane_is_tested(void **state)
{
	static const char *const tested[] = {
#define TWT_LANE(name, here, ...) here,
#define TWT_VARIANT(...)
#include "lanes.def"
#undef TWT_LANE
#undef TWT_VARIANT
	};

	(void)state;
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		size_t bytes = strlen(row(i)->name);
		bool found = false;

		for (size_t k = 0; k < sizeof(tested) / sizeof(tested[0]); k++)
			found |= strncmp(tested[k], row(i)->name, bytes) == 0 &&
				 strncmp(tested[k] + bytes, "://", 3) == 0;
		if (!found)
			fail_msg("tests/support/lanes.def has no row of %s", row(i)->name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_parts_stay),
		cmocka_unit_test(test_tables_and_texts),
		cmocka_unit_test(test_public_rows),
		cmocka_unit_test(test_every_lane_is_tested),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
