/*
 * test_reduce.c - any reduction, by every variant that this machine can run, against the
 * definition.
 *
 * TOW_REDUCE_CASES=100000 runs that many instead of a few thousand.
 */
#include "reduce_case.h"
#include "twt.h"

static uint64_t seed;

static void test_any(void **state)
{
	const char *text = getenv("TOW_REDUCE_CASES");
	uint64_t cases = text != NULL                      ? strtoull(text, NULL, 0)
			 : getenv("TOW_TEST_SEED") != NULL ? 1
							   : 5000;

	(void)state;
	for (uint64_t i = 0; i < cases; i++)
		assert_int_equal(twt_reduce_run(seed + i), 0);
}

/* A judge that accepts everything would make the test above worthless. */
static void test_judge(void **state)
{
	static struct twt_reduce_case c;
	uint64_t from = seed;

	(void)state;
	do {
		twt_reduce_make(&c, from++);
		if (c.r.count != 0)
			break;
		twt_reduce_free(&c);
	} while (true);
	twt_reduce_do(&c, twi_reduce_variants[0]);
	assert_int_equal(twt_reduce_judge(&c, "itself"), 0);
	printf("three complaints are due:\n");
	/* The lowest bit of a NaN makes it no number, at most; the whole element another one. */
	for (unsigned b = 0; b < twt_type_bytes[c.r.type]; b++)
		((uint8_t *)c.results[0])[b] = (uint8_t)(c.want[b] == 0x3c ? 0x3d : 0x3c);
	assert_int_equal(twt_reduce_judge(&c, "another element"), 1);
	memcpy(c.results[0], c.want, twt_type_bytes[c.r.type]);
	((uint8_t *)c.results[0])[-1] ^= 1;
	assert_int_equal(twt_reduce_judge(&c, "before"), 1);
	((uint8_t *)c.results[0])[-1] ^= 1;
	((uint8_t *)c.results[0])[c.bytes] ^= 1;
	assert_int_equal(twt_reduce_judge(&c, "behind"), 1);
	twt_reduce_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_judge),
		cmocka_unit_test(test_any),
	};

	seed = twt_seed();
	for (unsigned v = 0; v < twi_reduce_variant_count; v++) {
		if (!twi_reduce_variants[v]->usable())
			printf("this machine cannot run %s\n", twi_reduce_variants[v]->name);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
