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

/* A factor, for any bits of any type that has one, at any alignment, in place and not. */
static void test_scale(void **state)
{
	static const double factors[] = { 0.1, -1, 3, 0.5, 1e-30, 1e30, 1.0 / 3 };
	uint64_t random = seed;

	(void)state;
	for (int turn = 0; turn < 20000; turn++) {
		static uint8_t in[1200 * 16 + 64], out[sizeof(in)], was[sizeof(in)];
		enum tow_type type = (enum tow_type)twt_random_below(&random, TOW_TYPE_COUNT);
		uint64_t count = twt_random_below(&random, turn % 16 == 0 ? 1200 : 40);
		uint8_t *from = in + twt_random_below(&random, 16), *to = out + (from - in),
			want[16];
		double factor = factors[twt_random_below(&random, 7)];
		unsigned unit = twt_type_bytes[type];

		if (!twi_reduce_scales(type))
			continue;
		for (uint64_t i = 0; i < sizeof(in); i += 8)
			memcpy(in + i, &(uint64_t){ twt_random(&random) }, 8);
		memcpy(was, in, sizeof(in));
		memcpy(out, in, sizeof(in));
		if (twt_random_below(&random, 2) == 0)
			to = from;
		twi_reduce_scale(type, to, from, count, factor);
		for (uint64_t i = 0; i < count; i++) {
			twt_model_scale(type, was + (from - in) + i * unit, factor, want);
			assert_true(twt_same_element(type, to + i * unit, want));
		}
		assert_memory_equal(to + count * unit, was + (from - in) + count * unit, 16);
		assert_true(to == from || memcmp(in, was, sizeof(in)) == 0);
	}
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
		cmocka_unit_test(test_scale),
	};

	seed = twt_seed();
	for (unsigned v = 0; v < twi_reduce_variant_count; v++) {
		if (!twi_reduce_variants[v]->usable())
			printf("this machine cannot run %s\n", twi_reduce_variants[v]->name);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
