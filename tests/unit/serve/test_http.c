/* test_http.c - every row of the table in diag/serve/http.h, without a socket. */
#include "twt.h"

#include <jansson.h>
#include <string.h>

#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "diag/serve/http.h"

static void routes(void **state)
{
	static const struct {
		const char *method, *path;
		unsigned status;
		enum twi_http_kind kind;
	} rows[] = {
		{ "GET", "/metrics", 200, TWI_HTTP_METRICS },
		{ "HEAD", "/metrics", 200, TWI_HTTP_METRICS },
		{ "GET", "/ui", 200, TWI_HTTP_PAGE },
		{ "GET", "/ui/", 200, TWI_HTTP_DOCUMENT },
		{ "POST", "/ui", 405, TWI_HTTP_BAD_METHOD },
		{ "GET", "/v1/info", 200, TWI_HTTP_DOCUMENT },
		{ "GET", "/", 200, TWI_HTTP_DOCUMENT },
		{ "POST", "/v1/info", 405, TWI_HTTP_BAD_METHOD },
		{ "get", "/v1/info", 405, TWI_HTTP_BAD_METHOD },
		{ "", "/v1/info", 405, TWI_HTTP_BAD_METHOD },
		{ "GET", "", 400, TWI_HTTP_BAD_PATH },
		{ "GET", "*", 400, TWI_HTTP_BAD_PATH },
		{ "GET", "http://x/metrics", 400, TWI_HTTP_BAD_PATH },
		{ "GET", "/v1/\x01", 400, TWI_HTTP_BAD_PATH },
		{ "GET", "/v1/\x7f", 400, TWI_HTTP_BAD_PATH },
	};
	char path[TWI_HTTP_PATH_MAX + 2];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct twi_http_route route = twi_http_route(rows[i].method, rows[i].path);

		assert_int_equal(route.status, rows[i].status);
		assert_int_equal(route.kind, rows[i].kind);
		assert_non_null(route.content_type);
	}
	memset(path, '/', sizeof(path));
	path[TWI_HTTP_PATH_MAX + 1] = '\0';
	assert_int_equal(twi_http_route("GET", path).status, 400);
	path[TWI_HTTP_PATH_MAX] = '\0';
	assert_int_equal(twi_http_route("GET", path).status, 200);
}

/* The live page comes whole, with a policy that names its own script and style and nothing else. */
static void page(void **state)
{
	struct twi_http_answer answer;
	struct twi_diag *diag;

	(void)state;
	assert_int_equal(twi_diag_create(&diag), 0);
	twi_http_answer(diag, "GET", "/ui", NULL, &answer);
	assert_int_equal(answer.status, 200);
	assert_string_equal(answer.content_type, "text/html; charset=utf-8");
	assert_int_equal(strlen(answer.text), answer.bytes);
	assert_non_null(strstr(answer.text, "</html>"));
	assert_null(strstr(answer.text, "@SCRIPT@"));
	assert_null(strstr(answer.text, "@STYLE@"));
	assert_non_null(strstr(answer.policy, "default-src 'none'"));
	assert_non_null(strstr(answer.policy, "connect-src 'self'"));
	assert_non_null(strstr(answer.policy, "script-src 'sha256-"));
	assert_null(strstr(answer.policy, "unsafe"));
	free(answer.text);
	twi_http_answer(diag, "GET", "/v1/slack", NULL, &answer);
	assert_int_equal(answer.status, 200);
	assert_null(answer.policy);
	free(answer.text);
	twi_diag_destroy(diag);
}

static void answers(void **state)
{
	static const struct {
		const char *method, *path;
		unsigned status;
	} rows[] = {
		{ "GET", "/v1/info", 200 }, { "HEAD", "/", 200 },   { "GET", "/v1/none", 404 },
		{ "PUT", "/v1/info", 405 }, { "GET", "nope", 400 }, { "GET", "/v1/info/", 404 },
	};
	struct twi_diag *diag;

	(void)state;
	assert_int_equal(twi_diag_create(&diag), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct twi_http_answer answer;
		json_t *root;

		twi_http_answer(diag, rows[i].method, rows[i].path, NULL, &answer);
		assert_int_equal(answer.status, rows[i].status);
		root = json_loadb(answer.text, answer.bytes, 0, NULL);
		assert_non_null(root);
		assert_int_equal(json_is_string(json_object_get(root, "error")),
				 rows[i].status != 200);
		assert_int_equal(answer.allow != NULL, rows[i].status == 405);
		if (rows[i].status == 404)
			assert_true(json_array_size(json_object_get(root, "paths")) >= 4);
		json_decref(root);
		free(answer.text);
	}
	twi_diag_destroy(diag);
}

static const struct twi_capture plain = { .seconds_max = 60 };

/* The query of a capture, of which every parameter is hostile. */
static void queries(void **state)
{
	static const struct {
		struct twi_http_query query;
		int64_t seconds; /* -2: refused */
		const char *what;
	} rows[] = {
		{ { 0 }, -1, NULL },
		{ { 1, { { "seconds", "0" } } }, 0, NULL },
		{ { 1, { { "seconds", "60" } } }, 60, NULL },
		{ { 1, { { "seconds", "007" } } }, 7, NULL },
		{ { 1, { { "seconds", "61" } } }, -2, "from 0 to 60" },
		{ { 1, { { "seconds", "" } } }, -2, "whole number" },
		{ { 1, { { "seconds", NULL } } }, -2, "whole number" },
		{ { 1, { { "seconds", "+1" } } }, -2, "+1" },
		{ { 1, { { "seconds", "1 " } } }, -2, "'1 '" },
		{ { 1, { { "seconds", "1.5" } } }, -2, "1.5" },
		{ { 1, { { "seconds", "4294967297" } } }, -2, "4294967297" },
		{ { 1, { { "Seconds", "1" } } }, -2, "Seconds" },
		{ { 1, { { "", "1" } } }, -2, "no such parameter" },
		{ { 1, { { "\"\xff\n", "1" } } }, -2, "no such parameter" },
		{ { 2, { { "seconds", "1" }, { "seconds", "1" } } }, -2, "twice" },
		{ { 2, { { "seconds", "1" }, { "x", "1" } } }, -2, "'x'" },
		{ { 1, { { "format", "a" } } }, -2, "there is one, seconds" },
		{ { TWI_HTTP_PARAMS + 1, { { 0 } } }, -2, "more than" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct twi_http_answer wrong = { 0 };
		struct twi_http_wish wish;
		json_t *root;

		if (rows[i].seconds != -2) {
			assert_int_equal(twi_http_wish(&rows[i].query, &plain, &wish, &wrong), 0);
			assert_int_equal(wish.seconds, rows[i].seconds);
			continue;
		}
		assert_int_equal(twi_http_wish(&rows[i].query, &plain, &wish, &wrong), -1);
		assert_int_equal(wrong.status, 400);
		root = json_loadb(wrong.text, wrong.bytes, 0, NULL);
		assert_non_null(root);
		assert_non_null(
			strstr(json_string_value(json_object_get(root, "error")), rows[i].what));
		json_decref(root);
		free(wrong.text);
	}
}

/* The same of a capture that has formats. */
static void formats(void **state)
{
	static const struct twi_capture_format known[] = { { "a", "t/a" },
							   { "bb", "t/b" },
							   { NULL, NULL } };
	static const struct twi_capture capture = { .seconds_max = 60, .formats = known };
	static const struct {
		struct twi_http_query query;
		int64_t seconds;
		unsigned format;
		const char *what; /* NULL: it is good */
	} rows[] = {
		{ { 0 }, -1, 0, NULL },
		{ { 1, { { "format", "a" } } }, -1, 0, NULL },
		{ { 1, { { "format", "bb" } } }, -1, 1, NULL },
		{ { 2, { { "format", "bb" }, { "seconds", "3" } } }, 3, 1, NULL },
		{ { 2, { { "seconds", "0" }, { "format", "a" } } }, 0, 0, NULL },
		{ { 1, { { "format", "b" } } }, 0, 0, "format is 'b'; it is one of a, bb" },
		{ { 1, { { "format", "bbb" } } }, 0, 0, "'bbb'" },
		{ { 1, { { "format", "A" } } }, 0, 0, "'A'" },
		{ { 1, { { "format", "" } } }, 0, 0, "format is ''" },
		{ { 1, { { "format", NULL } } }, 0, 0, "format is ''" },
		{ { 1, { { "format", "\n\xff" } } }, 0, 0, "one of a, bb" },
		{ { 2, { { "format", "a" }, { "format", "a" } } }, 0, 0, "format is given twice" },
		{ { 2, { { "format", "a" }, { "seconds", "x" } } }, 0, 0, "seconds is 'x'" },
		{ { 1, { { "formats", "a" } } }, 0, 0, "there are two, seconds and format" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct twi_http_answer wrong = { 0 };
		struct twi_http_wish wish;
		int rc = twi_http_wish(&rows[i].query, &capture, &wish, &wrong);

		assert_int_equal(rc, rows[i].what != NULL ? -1 : 0);
		if (rc == 0) {
			assert_int_equal(wish.seconds, rows[i].seconds);
			assert_int_equal(wish.format, rows[i].format);
			continue;
		}
		assert_int_equal(wrong.status, 400);
		assert_non_null(strstr(wrong.text, rows[i].what));
		free(wrong.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(routes), cmocka_unit_test(page),
					    cmocka_unit_test(answers), cmocka_unit_test(queries),
					    cmocka_unit_test(formats) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
