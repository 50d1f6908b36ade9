/*
 * test_towstat_diff.c - what is worse in one snapshot than in another, and what says nothing.
 */
#include "twt.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include <towline/towline.h>

#include "tools/towstat/documents.h"

static void expect_near(double got, double wanted)
{
	if (!(fabs(got - wanted) <= 1e-9 * fabs(wanted)))
		fail_msg("%g, wanted %g", got, wanted);
}

static struct comparison *compare_as(const char *a, const char *b, const char *per, bool exact)
{
	const struct compare_options options = { per, 0.1, exact };
	struct comparison *out = calloc(1, sizeof(*out));
	json_t *left = json_loads(a, 0, NULL), *right = json_loads(b, 0, NULL);
	char error[200];

	assert_non_null(out);
	assert_non_null(left);
	assert_non_null(right);
	if (documents_compare(left, right, &options, out, error, sizeof(error)) != 0) {
		free(out);
		out = NULL;
	}
	json_decref(left);
	json_decref(right);
	return out;
}

static struct comparison *compare(const char *a, const char *b, const char *per)
{
	return compare_as(a, b, per, false);
}

static void compares(void **state)
{
	static const char a[] =
		"{\"uptime_ns\":1000000000,\"counters\":{\"sends\":100,\"fallback_copies\":1000},"
		"\"reasons\":[{\"name\":\"late_extent\",\"kind\":\"late_registration\",\"count\":0}"
		"],"
		"\"rpcs\":[{\"lane\":\"tcp\",\"bytes_min\":0,\"bytes_max\":64,\"count\":1000,"
		"\"p50\":100000,\"p90\":100,\"p99\":500000,\"p999\":100,\"mean\":1,\"max\":1}]}";
	static const char b[] =
		"{\"uptime_ns\":4000000000,\"counters\":{\"sends\":400,\"fallback_copies\":4000},"
		"\"reasons\":[{\"name\":\"late_extent\",\"kind\":\"late_registration\",\"count\":"
		"200}"
		"],"
		"\"rpcs\":[{\"lane\":\"tcp\",\"bytes_min\":0,\"bytes_max\":64,\"count\":1000,"
		"\"p50\":105000,\"p90\":100,\"p99\":900000,\"p999\":9000000,\"mean\":1,\"max\":9}]"
		"}";
	struct comparison *found = compare(a, b, NULL);

	(void)state;
	/* New reason; 300 % of copies; 80 % of p99. Not p999 and max: of too few. Not p50: 5 %. */
	assert_int_equal(found->worse, 3);
	assert_string_equal(found->rows[0].name, "reason late_extent count");
	assert_true(isinf(found->rows[0].change));
	assert_string_equal(found->rows[1].name, "fallback_copies");
	assert_string_equal(found->rows[2].name, "latency tcp 0-64 p99");
	expect_near(found->rows[2].change, 0.8);
	assert_string_equal(found->rows[3].name, "latency tcp 0-64 p999");
	free(found);
	found = compare(a, b, "sends"); /* as many copies a send as before */
	assert_int_equal(found->worse, 2);
	free(found);
	found = compare(a, b, "second");
	assert_int_equal(found->worse, 2);
	free(found);
	assert_null(compare(a, b, "no_such_counter"));
	found = compare(a, a, NULL);
	assert_int_equal(found->worse, 0);
	free(found);
	free(compare("{}", "{\"counters\":[1],\"rpcs\":{},\"reasons\":[1,null]}", NULL));
}

#define START(copies, bytes, ns, failed, p50)                                                      \
	"{\"uptime_ns\":1000000000,\"counters\":{\"sends\":100,\"fallback_copies\":" #copies       \
	",\"fallback_copy_bytes\":" #bytes ",\"ops_failed\":" #failed "},\"reasons\":[{\"name\":"  \
	"\"unexpected_arrival\",\"kind\":\"copy\",\"count\":" #copies ",\"bytes\":" #bytes         \
	",\"ns\":" #ns "}],\"rpcs\":[{\"lane\":\"shm\",\"bytes_min\":0,\"bytes_max\":64,"          \
	"\"count\":1000,\"p50\":" #p50 "}]}"

/* What differs by a start-up's copies, or by microseconds, says nothing; a failure always does. */
static void passes_over_little(void **state)
{
	static const struct {
		const char *a, *b;
		size_t worse, exactly;
		const char *first; /* of what is worse */
	} rows[] = {
		{ START(1, 8, 29, 0, 2000), START(4, 32, 112, 0, 2000), 0, 5, NULL },
		{ START(0, 0, 0, 0, 2000), START(100, 1048576, 1000000, 0, 52000), 0, 6, NULL },
		{ START(0, 0, 0, 0, 2000), START(101, 8, 112, 0, 2000), 2, 5, "fallback_copies" },
		{ START(0, 0, 0, 0, 2000), START(1, 1048577, 112, 0, 2000), 2, 5,
		  "fallback_copy_bytes" },
		{ START(1, 8, 29, 0, 2000), START(1, 8, 1000030, 0, 2000), 1, 1,
		  "reason unexpected_arrival ns" },
		{ START(1, 8, 29, 0, 2000), START(1, 8, 29, 1, 2000), 1, 1, "ops_failed" },
		{ START(1, 8, 29, 0, 2000), START(1, 8, 29, 0, 52001), 1, 1,
		  "latency shm 0-64 p50" },
	};
	struct comparison *per_send;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct comparison *found = compare(rows[i].a, rows[i].b, NULL);
		struct comparison *exact = compare_as(rows[i].a, rows[i].b, NULL, true);

		if (found->worse != rows[i].worse || exact->worse != rows[i].exactly)
			fail_msg("row %zu: %zu worse, %zu exactly", i, found->worse, exact->worse);
		if (rows[i].first != NULL)
			assert_string_equal(found->rows[0].name, rows[i].first);
		free(found);
		free(exact);
	}
	/* The floor is one of what B has counted, whatever it was divided by. */
	per_send = compare(START(0, 0, 0, 0, 1), START(101, 8, 1, 0, 1), "sends");
	assert_int_equal(per_send->worse, 2);
	free(per_send);
}

static void expect_counter(const char *name)
{
	struct tow_counter_info row = { .size = sizeof(row) };
	bool found = false;

	for (size_t j = 0; !found && tow_counter_info(j, &row) == TOW_OK; j++)
		found = strcmp(row.name, name) == 0;
	if (!found)
		fail_msg("no counter is called %s", name);
}

/* The list of what is judged names counters that there are, and what it leaves out of them. */
static void judges_counters(void **state)
{
	(void)state;
	for (size_t i = 0; documents_judged(i) != NULL; i++) {
		const struct judged_counter *row = documents_judged(i);

		expect_counter(row->name);
		for (size_t k = 0; k < 2 && row->less[k] != NULL; k++)
			expect_counter(row->less[k]);
	}
	assert_non_null(documents_judge("fallback_copies"));
	assert_null(documents_judge("sends"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compares),
		cmocka_unit_test(passes_over_little),
		cmocka_unit_test(judges_counters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
