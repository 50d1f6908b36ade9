/*
 * Fuzzes the reader of XSpace: bytes of anybody's. What is refused leaves nothing behind; what is
 * taken for a trace is one: it can be written in every format, and read back from XSpace as it was.
 *
 * Seeds: TOW_TEST_CORPUS=fuzz/corpus/xspace BUILD/tests/test_property_trace_xspace writes them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <towline/status.h>

#include "diag/trace/analysis.h"
#include "diag/trace/export/export.h"
#include "tests/support/traces.h"
#include "tools/trace/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_at(int truth, int line, const char *why)
{
	if (truth)
		return;
	fprintf(stderr, "fuzz_xspace.c:%d: not so: %s\n", line, why);
	abort();
}
#define expect(truth, why) expect_at(truth, __LINE__, why)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int (*const formats[])(const struct twi_trace *trace, char **bytes_out,
				      size_t *count_out) = { twi_export_perfetto, twi_export_chrome,
							     twi_analysis_json, twi_report_html,
							     twi_export_xspace };
	struct twi_trace trace, again;
	char *bytes, why[256] = "";
	size_t count;

	if (twi_xspace_ready() < 0)
		return 0;
	if (twi_import_xspace(data, size, &trace) < 0) {
		expect(trace.rank_count == 0 && trace.ranks == NULL, "something is left");
		return 0;
	}
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		int status = formats[i](&trace, &bytes, &count);

		expect(status == TOW_OK, tow_error_message());
		if (formats[i] != twi_export_xspace)
			free(bytes);
	}
	expect(twi_import_xspace(bytes, count, &again) == TOW_OK, tow_error_message());
	expect(twt_trace_same(&trace, &again, why, sizeof(why)), why);
	free(bytes);
	twi_trace_fini(&again);
	twi_trace_fini(&trace);
	return 0;
}
