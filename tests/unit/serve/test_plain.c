/* test_plain.c - /metrics in the text format: who gets it, and what becomes of each line. */
#include "twt.h"

#include <string.h>

#include "diag/base/emit.h"
#include "diag/record/diag.h"
#include "diag/serve/http.h"
#include "diag/serve/plain.h"

static void goes_by_accept(void **state)
{
	static const struct {
		const char *accept;
		bool plain;
	} rows[] = {
		{ NULL, false },
		{ "", false },
		{ "*/*", false },
		{ "text/plain", true },
		{ "TEXT/Plain", true },
		{ "text/*", true },
		{ "text/html", false },
		{ "application/json, text/plain;version=0.0.4", true },
		{ "text/plain, application/openmetrics-text", false },
		{ "text/plain;q=0.5, application/openmetrics-text;q=0.4", true },
		{ "text/plain;q=0.4, application/openmetrics-text;q=0.5", false },
		{ "text/plain;q=0.4;x=1, */*;q=0.3", true },
		{ "text/plain ; q=0.2 , */* ; q=0.3", false },
		{ "text/plain;q=0", false },
		{ "text/plain;q=0, */*", false },
		{ "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false },
		/* Prometheus 2.42, 3.5 and an agent that knows the text format alone. */
		{ "application/openmetrics-text;version=1.0.0,"
		  "application/openmetrics-text;version=0.0.1;q=0.75,"
		  "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		  false },
		{ "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
		  "application/openmetrics-text;version=0.0.1;q=0.5,"
		  "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
		  "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
		  false },
		{ "text/plain;version=0.0.4;q=1,*/*;q=0.1", true },
		{ ",,;;q=,text/plain;q=,", true },
		{ "text/plain;q", true },
		{ "text", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (twi_plain_wanted(rows[i].accept) != rows[i].plain)
			fail_msg("%s", rows[i].accept);
	}
}

static void writes_the_text_format(void **state)
{
	struct twi_emit e = { 0 };

	(void)state;
	twi_plain_emit(&e, "# TYPE a_bytes counter\n# UNIT a_bytes bytes\n"
			   "# HELP a_bytes the \\\"help\\\"\\nof \\\\ it\n"
			   "a_bytes_total 7\n"
			   "# TYPE b info\n# HELP b b\nb_info{v=\"1\"} 1\n"
			   "# TYPE h histogram\n# HELP h h\n"
			   "h_bucket{p=\" # {\\\"}\\\\\",le=\"1\"} 2 # {id=\"}\"} 1.5 2\n"
			   "h_count 2\nh_sum 3\n"
			   "# TYPE g gauge\n# HELP g g\ng 1\n# EOF\n");
	assert_string_equal(e.text, "# TYPE a_bytes_total counter\n"
				    "# HELP a_bytes_total the \"help\"\\nof \\\\ it\n"
				    "a_bytes_total 7\n"
				    "# TYPE b_info gauge\n# HELP b_info b\nb_info{v=\"1\"} 1\n"
				    "# TYPE h histogram\n# HELP h h\n"
				    "h_bucket{p=\" # {\\\"}\\\\\",le=\"1\"} 2\n"
				    "h_count 2\nh_sum 3\n"
				    "# TYPE g gauge\n# HELP g g\ng 1\n");
	twi_emit_fini(&e);
}

/* A text that is cut anywhere is read to its end and no further. */
static void stays_within_the_text(void **state)
{
	static const char whole[] =
		"# TYPE a counter\n# HELP a \\\"\\\na_total{b=\"\\\"\"} 1 # {} 1\n";

	(void)state;
	for (size_t bytes = 0; bytes < sizeof(whole); bytes++) {
		char *cut = strndup(whole, bytes);
		struct twi_emit e = { 0 };

		assert_non_null(cut);
		twi_plain_emit(&e, cut);
		assert_int_equal(e.status, 0);
		assert_true(e.bytes <= bytes + 16);
		twi_emit_fini(&e);
		free(cut);
	}
}

static void is_what_http_answers(void **state)
{
	struct twi_http_answer answer;
	struct twi_diag *diag;

	(void)state;
	assert_int_equal(twi_diag_create(&diag), 0);
	for (unsigned i = 0; i < 2; i++) {
		twi_http_answer(diag, "GET", "/metrics", i == 0 ? "text/plain" : NULL, &answer);
		assert_int_equal(answer.status, 200);
		assert_int_equal(strlen(answer.text), answer.bytes);
		assert_int_equal(strstr(answer.content_type, "text/plain; version=0.0.4") != NULL,
				 i == 0);
		assert_int_equal(strstr(answer.text, "# EOF") == NULL, i == 0);
		assert_int_equal(strstr(answer.text, "# UNIT") == NULL, i == 0);
		assert_int_equal(strstr(answer.text, "# TYPE towline_sends_total counter") != NULL,
				 i == 0);
		free(answer.text);
	}
	/* Of other documents there is one form. */
	twi_http_answer(diag, "GET", "/v1/info", "text/plain", &answer);
	assert_non_null(strstr(answer.content_type, "json"));
	free(answer.text);
	twi_diag_destroy(diag);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goes_by_accept),
		cmocka_unit_test(writes_the_text_format),
		cmocka_unit_test(stays_within_the_text),
		cmocka_unit_test(is_what_http_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
