/* test_numa.c - lists of nodes, the knob numa, and an extent bound to a node. */
#include "twt.h"

#include <string.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/os/procfs.h"
#include "memreg/pool/extent.h"
#include "memreg/pool/pool.h"

static void lists_of_nodes(void **state)
{
	struct twi_nodes nodes;

	(void)state;
	assert_true(twi_nodes_parse("0\n", &nodes));
	assert_true(twi_nodes_has(&nodes, 0) && !twi_nodes_has(&nodes, 1));
	assert_true(twi_nodes_parse("0-2,5,64-65", &nodes));
	assert_true(twi_nodes_has(&nodes, 2) && !twi_nodes_has(&nodes, 3));
	assert_true(twi_nodes_has(&nodes, 5) && twi_nodes_has(&nodes, 65));
	assert_true(twi_nodes_parse("", &nodes));
	assert_false(twi_nodes_has(&nodes, 0));
	/* Nodes past those that are told apart are left out, however many. */
	assert_true(twi_nodes_parse("3,126-18446744073709551615", &nodes));
	assert_true(twi_nodes_has(&nodes, 3) && twi_nodes_has(&nodes, 127));
	assert_false(twi_nodes_has(&nodes, 128));
}

static void what_is_no_list_is_empty(void **state)
{
	static const char *const bad[] = { "a",    "1,",  "-1",  "1-",   "3-1",
					   "1,,2", "1 2", "0x1", "1\n2", "18446744073709551616" };
	struct twi_nodes nodes;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(twi_nodes_parse(bad[i], &nodes));
		for (unsigned node = 0; node < TWI_NODES_MAX; node++)
			assert_false(twi_nodes_has(&nodes, node));
	}
}

static void the_knob(void **state)
{
	struct twi_nodes have;
	struct twi_numa numa;

	(void)state;
	assert_true(twi_nodes_parse("0-1,4", &have));
	assert_int_equal(twi_numa_choose(NULL, &have, 1, &numa), TOW_OK);
	assert_int_equal(numa.mode, TWI_NUMA_ANY);
	assert_int_equal(twi_numa_choose("", &have, 1, &numa), TOW_OK);
	assert_int_equal(numa.mode, TWI_NUMA_ANY);
	assert_int_equal(twi_numa_choose("local", &have, 1, &numa), TOW_OK);
	assert_int_equal(numa.mode, TWI_NUMA_LOCAL);
	assert_true(twi_nodes_has(&numa.nodes, 1) && !twi_nodes_has(&numa.nodes, 0));
	assert_int_equal(twi_numa_choose("interleave", &have, 1, &numa), TOW_OK);
	assert_int_equal(numa.mode, TWI_NUMA_INTERLEAVE);
	assert_true(twi_nodes_has(&numa.nodes, 0) && twi_nodes_has(&numa.nodes, 4));
	assert_int_equal(twi_numa_choose("4", &have, 1, &numa), TOW_OK);
	assert_int_equal(numa.mode, TWI_NUMA_NODE);
	assert_true(twi_nodes_has(&numa.nodes, 4) && !twi_nodes_has(&numa.nodes, 1));
}

static void a_bad_knob_is_named(void **state)
{
	static const char *const bad[] = { "2",     "3",  "128", "18446744073709551616", "-1", "1x",
					   "Local", " 1", "0-1" };
	struct twi_nodes have;
	struct twi_numa numa;

	(void)state;
	assert_true(twi_nodes_parse("0-1,4", &have));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(twi_numa_choose(bad[i], &have, 0, &numa), TOW_EINVAL);
		assert_non_null(strstr(tow_error_message(), "numa = "));
		assert_non_null(strstr(tow_error_message(), bad[i]));
		assert_non_null(strstr(tow_error_message(), "0,1,4"));
	}
}

static void a_pool_on_no_node_is_refused(void **state)
{
	struct twi_pool_options options = { .bytes = 1 << 20, .numa = "127" };
	int fds = twt_fd_count();
	struct twi_pool *pool;

	(void)state;
	assert_int_equal(twi_diag_create(&options.diag), TOW_OK);
	assert_int_equal(twi_pool_create(&options, &pool), TOW_EINVAL);
	assert_null(pool);
	assert_non_null(strstr(tow_error_message(), "numa = 127"));
	twi_diag_destroy(options.diag);
	assert_int_equal(twt_fd_count(), fds);
}

/* The line of numa_maps at `base`; false without NUMA in the kernel. */
static bool policy_of(const void *base, char *line, size_t room)
{
	FILE *file = fopen("/proc/self/numa_maps", "re");
	char at[32];
	bool found = false;

	snprintf(at, sizeof(at), "%llx ", (unsigned long long)(uintptr_t)base);
	while (file != NULL && !found && fgets(line, (int)room, file) != NULL)
		found = strncmp(line, at, strlen(at)) == 0;
	if (file != NULL)
		fclose(file);
	return found;
}

static void bound(void **state)
{
	static const struct {
		const char *knob, *policy;
	} rows[] = { { "0", " bind:0 " },
		     { "interleave", " interleave:0" },
		     { "local", " bind:" },
		     { "", " default " } };
	struct twi_nodes have;

	(void)state;
	twi_nodes_with_memory(&have);
	if (!twi_nodes_has(&have, 0))
		skip();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct twi_extent_options options = { .bytes = 8 << 20, .numa = rows[i].knob };
		struct twi_range_view view = { 0 };
		struct twi_extent extent;
		struct twi_address_range span;
		char line[512];

		assert_int_equal(twi_extent_open(&options, &extent), TOW_OK);
		if (policy_of(extent.base, line, sizeof(line)) && !extent.numa_reason[0])
			assert_non_null(strstr(line, rows[i].policy));
		span = (struct twi_address_range){ (uintptr_t)extent.base,
						   (uintptr_t)extent.base + extent.bytes };
		if (strcmp(rows[i].knob, "0") == 0 && !extent.numa_reason[0] &&
		    twi_ranges_read_nodes(&span, &view, 1))
			assert_int_equal(view.node[0], extent.bytes);
		twi_extent_unmap(&extent);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_of_nodes),
		cmocka_unit_test(what_is_no_list_is_empty),
		cmocka_unit_test(the_knob),
		cmocka_unit_test(a_bad_knob_is_named),
		cmocka_unit_test(a_pool_on_no_node_is_refused),
		cmocka_unit_test(bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
