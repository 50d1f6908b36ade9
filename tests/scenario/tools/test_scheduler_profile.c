/*
 * test_scheduler_profile.c - profiles for schedulers from end to end: tow-coll's has the numbers
 * of its own table; a job's capture has its collectives; towtrace joins them, chooses, and says
 * what is wrong.
 */
#include "capture_job.h"

#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include <towline/status.h>

#include "diag/trace/export/export.h"
#include "traces.h"

static char folder[] = "/tmp/tow-profile-XXXXXX";

#define TOWTRACE "@/tools/towtrace/towtrace "

static void run(const char *line, struct twt_command *out)
{
	char full[1024];

	snprintf(full, sizeof(full), "cd %s && %s", folder, line);
	twt_command(full, out);
}

static void expect(const char *line, int status, const char *words)
{
	static struct twt_command done;

	run(line, &done);
	if (done.status != status || strstr(done.text, words) == NULL)
		fail_msg("%s: status %d, wanted %d and \"%s\":\n%s", line, done.status, status,
			 words, done.text);
}

static json_t *load(const char *name)
{
	char path[128];
	json_t *json;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	json = json_load_file(path, 0, NULL);
	if (json == NULL)
		fail_msg("%s is no JSON", path);
	return json;
}

static const char *text_of(const json_t *row, const char *key)
{
	const char *text = json_string_value(json_object_get(row, key));

	return text != NULL ? text : "";
}

static double time_of(const json_t *row, const char *times, const char *which)
{
	return json_number_value(json_object_get(json_object_get(row, times), which));
}

/* The row of a kind and size; the test has failed without one. */
static json_t *find_row(json_t *json, const char *list, const char *kind, json_int_t bytes)
{
	json_t *row;
	size_t i;

	json_array_foreach(json_object_get(json, list), i, row)
	{
		if (strcmp(text_of(row, "kind"), kind) == 0 &&
		    (bytes < 0 || json_integer_value(json_object_get(row, "bytes")) == bytes))
			return row;
	}
	fail_msg("no %s of %" JSON_INTEGER_FORMAT " bytes in %s", kind, bytes, list);
	return NULL;
}

/* What --plain says of an operation, in us. */
static double plain_us(const char *printed, const char *operation)
{
	const char *at = strstr(printed, operation);

	if (at == NULL)
		fail_msg("no \"%s\" in\n%s", operation, printed);
	return strtod(at + strlen(operation), NULL);
}

static void compare_row(json_t *json, const char *printed, const char *operation, const char *kind,
			json_int_t bytes)
{
	json_t *row = find_row(json, "collectives", kind, bytes);
	double mean = time_of(row, "latency_us", "mean"), said = plain_us(printed, operation);
	double median = time_of(row, "latency_us", "median");

	if (fabs(mean - said) > said * 1e-4) /* both are rounded */
		fail_msg("%s: the table has %g us, the profile %g", operation, said, mean);
	assert_string_equal(text_of(row, "lane"), "tcp");
	assert_string_equal(text_of(row, "type"), "bf16");
	assert_int_equal(json_integer_value(json_object_get(row, "ranks")), 2);
	assert_int_equal(json_integer_value(json_object_get(row, "hosts")), 1);
	assert_true(json_integer_value(json_object_get(row, "count")) >= 3);
	assert_true(median > 0 && median <= time_of(row, "latency_us", "p90"));
}

static void a_bench_has_its_own_numbers(void **state)
{
	static struct twt_command done;
	json_t *json;

	(void)state;
	run("timeout 60 @/bench/tow-coll --ranks 2 --lane tcp --type bf16 --seconds 0.01 "
	    "--no-pin "
	    "--op allreduce,allgather,reduce_scatter,permute,barrier --sizes 1000,64K --plain "
	    "--profile bench.json",
	    &done);
	twt_command_expect(&done, 0, "#wrong 0", 1);
	json = load("bench.json");
	assert_string_equal(text_of(json, "schema"), "towline-collective-profile");
	assert_string_equal(text_of(json, "source"), "tow-coll");
	compare_row(json, done.text, "allreduce-n2 1000 time_us ", "all-reduce", 1000);
	compare_row(json, done.text, "allreduce-n2 65536 time_us ", "all-reduce", 65536);
	/* The larger side: what all ranks give, together. */
	compare_row(json, done.text, "allgather-n2 1000 time_us ", "all-gather", 2000);
	compare_row(json, done.text, "reduce_scatter-n2 65536 time_us ", "reduce-scatter", 131072);
	compare_row(json, done.text, "permute-n2 1000 time_us ", "permute", 1000);
	assert_string_equal(text_of(find_row(json, "collectives", "permute", 1000), "pairs"),
			    "ring");
	find_row(json, "collectives", "barrier", 0);
	json_decref(json);
	expect("@/bench/tow-coll --profile x --depth 2", 2, "neither --overlap nor --depth");
	expect("@/bench/tow-coll --profile x --overlap", 2, "neither --overlap nor --depth");
	expect("timeout 60 @/bench/tow-coll --ranks 2 --sizes 8 --seconds 0.001 --no-pin "
	       "--profile nowhere/x",
	       2, "nowhere/x");
}

static void a_capture_has_its_collectives(void **state)
{
	static struct twt_command done;
	json_t *json, *row;

	(void)state;
	twt_capture_job(folder, "cap",
			"timeout 60 " TOWTRACE
			"capture --job cap --seconds 0 -o cap.pb && " TOWTRACE
			"profile cap.pb -o cap.json",
			&done);
	twt_command_expect(&done, 0, "rows left out", 1);
	json = load("cap.json");
	assert_string_equal(text_of(json, "source"), "towtrace");
	row = find_row(json, "collectives", "all-reduce", -1);
	assert_int_equal(json_integer_value(json_object_get(row, "ranks")), 2);
	assert_int_equal(json_integer_value(json_object_get(row, "hosts")), 1);
	assert_true(time_of(row, "moving_us", "median") <= time_of(row, "latency_us", "median"));
	assert_true(time_of(row, "latency_us", "median") > 0);
	assert_true(json_is_null(json_object_get(row, "type")));
	json_decref(json);
	/* A type is needed for XLA, as captures have none. */
	expect(TOWTRACE "profile cap.pb -f xla-table --device sm_90 -o t.pb", 1,
	       "no place for any");
	expect(TOWTRACE "profile cap.json -f xla-table --device sm_90 --type f32 -o t.pb", 0,
	       "t.pb: ");
	expect(TOWTRACE "profile cap.pb -f xla-costs -o c.pb", 1, "none of 0 named collectives");
}

static void a_named_collective_has_a_cost(void **state)
{
	struct twi_trace pair;
	char path[128], *bytes;
	size_t count;
	FILE *file;

	(void)state;
	twt_trace_pair(&pair);
	assert_int_equal(twi_export_xspace(&pair, &bytes, &count), TOW_OK);
	snprintf(path, sizeof(path), "%s/pair.pb", folder);
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, count, file), count);
	fclose(file);
	free(bytes);
	twi_trace_fini(&pair);
	expect(TOWTRACE "profile pair.pb -f xla-costs -o c.pb && grep -ac grads c.pb", 0,
	       "1 collectives, 1 names, 0 rows left out");
}

static void profiles_are_joined_and_chosen(void **state)
{
	(void)state;
	expect("sed 's/\"lane\": \"tcp\"/\"lane\": \"ofi\"/' bench.json >ofi.json && " TOWTRACE
	       "profile bench.json ofi.json -o - | grep -c '\"kind\"'",
	       0, "18");
	expect(TOWTRACE "profile bench.json ofi.json -f xla-table --device sm_90 -o t.pb", 1,
	       "choose with --lane");
	expect(TOWTRACE
	       "profile bench.json ofi.json --lane ofi -f xla-table --device sm_90 -o t.pb && "
	       "grep -ac sm_90 t.pb",
	       0, "9 collectives, 0 names, 1 rows left out");
	expect(TOWTRACE "profile bench.json bench.json -o t", 1, "is there twice");
	expect(TOWTRACE "profile bench.json --lane shm -o t", 1, "no collective in it");
}

static void what_is_wrong_is_told(void **state)
{
	(void)state;
	expect(TOWTRACE "profile", 2, "which FILE");
	expect(TOWTRACE "profile a", 2, "needs --output");
	expect(TOWTRACE "profile a -o b -f perfetto", 2, "xla-table or xla-costs");
	expect(TOWTRACE "convert a -o b -f xla-table", 2, "is none of");
	expect(TOWTRACE "profile a -o b -f xla-table", 2, "needs --device");
	expect(TOWTRACE "profile a -o b --device sm_90", 2, "needs --device");
	expect(TOWTRACE "profile a -o b --type f31", 2, "--type names no type");
	expect(TOWTRACE "merge a -o b --lane tcp", 2, "are for profile");
	expect(TOWTRACE "profile nowhere -o b", 1, "nowhere: No such file");
	expect("echo hello | " TOWTRACE "profile - -o b", 1, "it is no XSpace");
	expect("echo '{' | " TOWTRACE "profile - -o b", 1, "-: line 2: it is no JSON");
	expect("printf '{\\302\\233' | " TOWTRACE "profile - -o b", 1, "near '??");
	expect("test -e b || test -e t", 1, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bench_has_its_own_numbers),
		cmocka_unit_test(a_capture_has_its_collectives),
		cmocka_unit_test(a_named_collective_has_a_cost),
		cmocka_unit_test(profiles_are_joined_and_chosen),
		cmocka_unit_test(what_is_wrong_is_told),
	};
	char line[64];
	int failed;

	if (twi_xspace_ready() < 0) {
		printf("skipped: %s\n", tow_error_message());
		return 77;
	}
	if (mkdtemp(folder) == NULL)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(line, sizeof(line), "rm -rf %s", folder);
	return system(line) == 0 ? failed : 1;
}
