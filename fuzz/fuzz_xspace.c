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

#include "diag/trace/export/export.h"
#include "tests/support/traces.h"

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
	static const enum tow_trace_format formats[] = { TOW_TRACE_PERFETTO, TOW_TRACE_CHROME,
							 TOW_TRACE_XSPACE };
	struct twi_trace trace, again;
	char *bytes, why[256] = "";
	size_t count;

	if (twi_xspace_off())
		return 0;
	if (twi_import_xspace(data, size, &trace) != TOW_OK) {
		expect(trace.rank_count == 0 && trace.ranks == NULL, "something is left");
		return 0;
	}
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		int status = twi_trace_encode(&trace, formats[i], &bytes, &count);

		expect(status == TOW_OK, tow_error_message());
		if (formats[i] != TOW_TRACE_XSPACE)
			free(bytes);
	}
	expect(twi_import_xspace(bytes, count, &again) == TOW_OK, tow_error_message());
	expect(twt_trace_same(&trace, &again, why, sizeof(why)), why);
	free(bytes);
	twi_trace_fini(&again);
	twi_trace_fini(&trace);
	return 0;
}
