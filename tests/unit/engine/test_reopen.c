/*
 * test_reopen.c - runtimes that come and go leave nothing in the heap: the tables of the first are
 * not what the second is charged for.
 */
#include "twt.h"

#include <malloc.h>
#include <string.h>

#include <towline/towline.h>

#define MIB (1 << 20)

static size_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.arena;
}

static void open_and_close(void)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;

	options.premap_memory_bytes = 16 * MIB;
	options.stats = 0;
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint), TOW_OK);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

static void heap_stays(void **state)
{
	size_t first;

	(void)state;
#ifdef TWT_SANITIZED
	skip(); /* it has another heap */
#endif
	open_and_close();
	first = heap_bytes();
	for (int i = 0; i < 6; i++)
		open_and_close();
	printf("heap: %zu KiB after the first, %zu KiB after the seventh\n", first >> 10,
	       heap_bytes() >> 10);
	assert_true(heap_bytes() < first + 8 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(heap_stays) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
