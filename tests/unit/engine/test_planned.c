/*
 * test_planned.c - what is declared and not built yet is refused by name, and changes nothing.
 */
#include "twt.h"

#include <string.h>

#include <towline/towline.h>

static char room[64];

static void refused(int status, const char *name)
{
	assert_int_equal(status, TOW_ENOTSUP);
	assert_non_null(strstr(tow_error_message(), name));
	assert_non_null(strstr(tow_error_message(), "not built"));
}

static void test_calls(void **state)
{
	struct tow_remote_memory remote = { 0, 0, 0, 0 };
	struct tow_op *op;

	(void)state;
	refused(tow_mem_export(NULL, room, 8, TOW_REMOTE_READ, &remote), "tow_mem_export");
	refused(tow_mem_unexport(NULL, &remote), "tow_mem_unexport");
	refused(tow_read_start(NULL, room, 8, &remote, 0, NULL, &op), "tow_read_start");
	assert_null(op);
	refused(tow_write_start(NULL, room, 8, &remote, 0, NULL, &op), "tow_write_start");
	assert_null(op);
}

/* Flags and their places are refused by name at every start, before anything happens. */
static void test_options(void **state)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_runtime *runtime;
	struct tow_endpoint *here;
	struct tow_op *op;

	(void)state;
	setenv("TOW_PREMAP_MEMORY_BYTES", "2MiB", 1);
	setenv("TOW_STATS", "0", 1);
	assert_int_equal(tow_runtime_open(NULL, &runtime), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "loop://here", &here), TOW_OK);
	options.flags = TOW_OP_TRUNCATE; /* it is for receives */
	assert_int_equal(tow_accept_start(here, &options, &op), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "TOW_OP_TRUNCATE"));
	options.flags = TOW_OP_LEND; /* it is for sends */
	assert_int_equal(tow_accept_start(here, &options, &op), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "TOW_OP_LEND"));
	options.flags = 8;
	assert_int_equal(tow_accept_start(here, &options, &op), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "0x8"));
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
