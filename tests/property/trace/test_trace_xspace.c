/*
 * test_trace_xspace.c - a trace written as XSpace and read back is the same; of bytes that were
 * damaged nothing is believed.
 */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "diag/trace/export/export.h"
#include "tools/trace/formats.h"
#include "traces.h"

#define ROUNDS 200

static void same_again(uint64_t seed, struct twi_trace *trace)
{
	struct twi_trace again;
	size_t count;
	char *bytes, why[256];

	assert_int_equal(twi_export_xspace(trace, &bytes, &count), TOW_OK);
	assert_int_equal(twi_import_xspace(bytes, count, &again), TOW_OK);
	if (!twt_trace_same(trace, &again, why, sizeof(why)))
		fail_msg("seed %llu: %s", (unsigned long long)seed, why);
	twi_trace_fini(&again);
	free(bytes);
}

static void random_traces_come_back(void **state)
{
	uint64_t seed = twt_seed();

	(void)state;
	if (twi_xspace_ready() < 0) {
		printf("skipped: %s\n", tow_error_message());
		skip();
	}
	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct twi_trace trace;

		twt_trace_random(seed + i, &trace);
		same_again(seed + i, &trace);
		twi_trace_fini(&trace);
	}
}

/* Changed, cut, and doubled bytes: refused, or read as a trace that can be written again. */
static void damaged_bytes_do_no_harm(void **state)
{
	uint64_t seed = twt_seed(), random = seed;
	size_t refused = 0;

	(void)state;
	if (twi_xspace_ready() < 0)
		skip();
	for (uint64_t i = 0; i < 4 * ROUNDS; i++) {
		struct twi_trace trace, again;
		size_t count;
		char *bytes;

		twt_trace_random(seed + i % 20, &trace);
		assert_int_equal(twi_export_xspace(&trace, &bytes, &count), TOW_OK);
		for (uint64_t n = 1 + twt_random_below(&random, 4); n && count; n--)
			bytes[twt_random_below(&random, count)] ^=
				(char)(1 << twt_random_below(&random, 8));
		if (twt_random_below(&random, 4) == 0)
			count = twt_random_below(&random, count + 1);
		if (twi_import_xspace(bytes, count, &again) == TOW_OK)
			same_again(seed + i, &again);
		else
			refused++;
		twi_trace_fini(&again);
		twi_trace_fini(&trace);
		free(bytes);
	}
	/* Most of what is damaged is found out; that some is not shows that the rest was read. */
	assert_in_range(refused, 1, 4 * ROUNDS - 1);
}

/* Seeds for fuzz_xspace, when it is told where. */
static void write_corpus(const char *folder)
{
	for (uint64_t i = 0; i < 8; i++) {
		char path[512], *bytes;
		struct twi_trace trace;
		size_t count;
		FILE *file;

		if (i == 0)
			twt_trace_pair(&trace);
		else
			twt_trace_random(i, &trace);
		assert_int_equal(twi_export_xspace(&trace, &bytes, &count), TOW_OK);
		if (count < 100000) {
			snprintf(path, sizeof(path), "%s/trace%llu", folder, (unsigned long long)i);
			file = fopen(path, "wb");
			assert_non_null(file);
			assert_int_equal(fwrite(bytes, 1, count, file), count);
			fclose(file);
		}
		free(bytes);
		twi_trace_fini(&trace);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_traces_come_back),
		cmocka_unit_test(damaged_bytes_do_no_harm),
	};

	if (getenv("TOW_TEST_CORPUS") != NULL && twi_xspace_ready() == TOW_OK)
		write_corpus(getenv("TOW_TEST_CORPUS"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
