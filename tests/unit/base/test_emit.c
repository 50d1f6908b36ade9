/* test_emit.c - documents are valid whatever goes into them, and failures stick. */
#include "twt.h"

#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/serve/report.h"

static json_t *parse(struct twi_emit *e)
{
	json_error_t error;
	char *text;
	json_t *root;

	assert_int_equal(twi_emit_take(e, &text), TOW_OK);
	root = json_loads(text, JSON_DECODE_ANY, &error);
	if (root == NULL)
		fail_msg("%s in %s", error.text, text);
	free(text);
	return root;
}

static void writes_json(void **state)
{
	struct twi_emit e;
	json_t *root, *array;

	(void)state;
	twi_emit_init(&e);
	twi_emit_object_begin(&e, NULL);
	twi_emit_u64(&e, "big", INT64_MAX);
	twi_emit_u64(&e, "beyond", UINT64_MAX - 1);
	twi_emit_i64(&e, "small", INT64_MIN);
	twi_emit_f64(&e, "half", 0.5);
	twi_emit_f64(&e, "nan", NAN);
	twi_emit_bool(&e, "yes", true);
	twi_emit_str(&e, "null", NULL);
	twi_emit_array_begin(&e, "array");
	twi_emit_object_begin(&e, NULL);
	twi_emit_object_end(&e);
	twi_emit_array_begin(&e, NULL);
	twi_emit_array_end(&e);
	twi_emit_str(&e, NULL, "a\"b\\c\n\t\x01/");
	twi_emit_array_end(&e);
	twi_emit_object_end(&e);
	root = parse(&e);
	assert_int_equal(json_integer_value(json_object_get(root, "big")), INT64_MAX);
	assert_int_equal(json_integer_value(json_object_get(root, "beyond")), INT64_MAX);
	assert_int_equal(json_integer_value(json_object_get(root, "small")), INT64_MIN);
	assert_true(json_real_value(json_object_get(root, "half")) == 0.5);
	assert_true(json_is_null(json_object_get(root, "nan")));
	assert_true(json_is_true(json_object_get(root, "yes")));
	assert_true(json_is_null(json_object_get(root, "null")));
	array = json_object_get(root, "array");
	assert_int_equal(json_array_size(array), 3);
	assert_string_equal(json_string_value(json_array_get(array, 2)), "a\"b\\c\n\t\x01/");
	json_decref(root);
}

/* Any bytes are a string; the parser, which is strict about UTF-8, is the judge. */
static void any_bytes(void **state)
{
	uint64_t seed = twt_seed();

	(void)state;
	for (int round = 0; round < 20000; round++) {
		static const unsigned char edges[] = { 0x7f, 0x80, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf,
						       0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xff,
						       0x9f, 0xa0, 0x8f, 0x90, '"',  '\\' };
		char bytes[12] = "";
		struct twi_emit e;

		for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
			uint64_t pick = twt_random(&seed);

			bytes[i] = (char)(pick & 256 ? edges[(pick >> 16) % sizeof(edges)]
						     : pick & 255);
		}
		twi_emit_init(&e);
		twi_emit_str(&e, NULL, bytes);
		json_decref(parse(&e));
	}
}

static void keeps_utf8(void **state)
{
	static const char text[] = "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xff";
	struct twi_emit e = { 0 };
	json_t *root;

	(void)state;
	twi_emit_str(&e, NULL, text);
	root = parse(&e);
	assert_string_equal(json_string_value(root),
			    "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xef\xbf\xbd");
	json_decref(root);
}

static void is_bounded(void **state)
{
	struct twi_emit e;
	char *text, *chunk = calloc(1, 1 << 20);

	(void)state;
	assert_non_null(chunk);
	memset(chunk, 'x', (1 << 20) - 1);
	twi_emit_init(&e);
	twi_emit_array_begin(&e, NULL);
	for (int i = 0; i < 70; i++)
		twi_emit_str(&e, NULL, chunk);
	assert_int_equal(e.status, TOW_ENOMEM);
	assert_true(e.bytes <= TWI_EMIT_MAX);
	assert_int_equal(twi_emit_take(&e, &text), TOW_ENOMEM);
	assert_null(text);
	assert_null(e.text);
	free(chunk);
}

static void empty_is_a_text(void **state)
{
	struct twi_emit e = { 0 };
	char *text;

	(void)state;
	assert_int_equal(twi_emit_take(&e, &text), TOW_OK);
	assert_string_equal(text, "");
	free(text);
}

/* A locale with a decimal comma must not reach the documents. */
static void ignores_the_locale(void **state)
{
	static const char *const names[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE" };
	struct twi_emit e = { 0 };

	(void)state;
	for (size_t i = 0; i < 3 && setlocale(LC_NUMERIC, names[i]) == NULL; i++)
		continue;
	twi_emit_f64(&e, NULL, 1.25);
	assert_string_equal(e.text, "1.25");
	twi_emit_fini(&e);
	setlocale(LC_NUMERIC, "C");
}

static void writes_metrics(void **state)
{
	struct twi_emit e = { 0 };

	(void)state;
	twi_emit_metric_head(&e, "a_bytes", "counter", "bytes", "the \"help\"\nof \\ it");
	twi_emit_sample_u64(&e, "a_bytes_total", NULL, 7);
	twi_emit_metric_head(&e, "b", "gauge", "bytes", "b");
	twi_emit_sample_seconds(&e, "b", "x=\"y\"", 250000000);
	twi_emit_sample_seconds(&e, "b", NULL, 12000000000);
	twi_emit_sample_seconds(&e, "b", NULL, 1000000001);
	twi_emit_sample_seconds(&e, "b", NULL, UINT64_MAX);
	twi_emit_sample_seconds(&e, "b", NULL, 0);
	assert_string_equal(e.text, "# TYPE a_bytes counter\n# UNIT a_bytes bytes\n"
				    "# HELP a_bytes the \\\"help\\\"\\nof \\\\ it\n"
				    "a_bytes_total 7\n"
				    "# TYPE b gauge\n# HELP b b\nb{x=\"y\"} 0.25\n"
				    "b 12\nb 1.000000001\nb 18446744073.709551615\nb 0\n");
	twi_emit_fini(&e);
}

/* The compiler puts the counters' lines together; these are what any metric has. */
static void counters_are_metrics(void **state)
{
	struct twi_diag *diag;
	struct twi_emit all = { 0 };

	(void)state;
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	twi_count(diag, TWI_C_sends, 18446744073709551615u);
	twi_count(diag, TWI_C_wait_ns, 1500000000);
	twi_report_metrics(diag, &all);
	assert_int_equal(all.status, TOW_OK);
	for (unsigned i = 0; i < TWI_C_COUNT; i++) {
		const struct twi_counter_info *info = twi_counter_describe(i);
		struct twi_emit one = { 0 };
		char family[80], sample[96];

		bool of_time = strcmp(info->unit, "ns") == 0; /* told in seconds */
		size_t bytes = strlen(info->name) - (of_time ? strlen("_ns") : 0);
		const char *unit = of_time ? "_seconds" : "";

		snprintf(family, sizeof(family), "towline_%.*s%s", (int)bytes, info->name, unit);
		snprintf(sample, sizeof(sample), "%s_total", family);
		twi_emit_metric_head(&one, family, "counter", of_time ? "seconds" : info->unit,
				     info->help);
		if (of_time)
			twi_emit_sample_seconds(&one, sample, NULL, twi_counter_sum(diag, i));
		else
			twi_emit_sample_u64(&one, sample, NULL, twi_counter_sum(diag, i));
		if (strstr(all.text, one.text) == NULL)
			print_message("missing: %s", one.text);
		assert_non_null(strstr(all.text, one.text));
		twi_emit_fini(&one);
	}
	assert_non_null(strstr(all.text, "\ntowline_wait_seconds_total 1.5\n"));
	twi_emit_fini(&all);
	twi_diag_destroy(diag);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_json),     cmocka_unit_test(any_bytes),
		cmocka_unit_test(keeps_utf8),      cmocka_unit_test(is_bounded),
		cmocka_unit_test(empty_is_a_text), cmocka_unit_test(ignores_the_locale),
		cmocka_unit_test(writes_metrics),  cmocka_unit_test(counters_are_metrics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
