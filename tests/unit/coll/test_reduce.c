/*
 * test_reduce.c - which reductions are legal, conversions bit by bit, and the floating-point mode.
 */
#include <fenv.h>
#include <math.h>

#include "twt.h"

#include "internal/base.h"
#include "reduce_model.h"
#include "transport/coll/reduce/float_bits.h"
#include "transport/coll/reduce/reduce.h"

static void test_legal(void **state)
{
	(void)state;
	for (unsigned t = 0; t < TOW_TYPE_COUNT; t++) {
		for (unsigned o = 0; o < TOW_REDUCE_COUNT; o++) {
			bool expected = o < TOW_AND || !twt_is_float((enum tow_type)t);

			if (t == TOW_BOOL && o == TOW_AVG)
				expected = false;
			if (twt_is_complex((enum tow_type)t))
				expected = o == TOW_SUM || o == TOW_PROD || o == TOW_AVG;
			assert_int_equal(twi_reduce_legal((enum tow_type)t, (enum tow_reduce)o),
					 expected);
		}
	}
	assert_false(twi_reduce_legal(TOW_TYPE_COUNT, TOW_SUM));
	assert_false(twi_reduce_legal(TOW_F32, TOW_REDUCE_COUNT));
}

static void test_variants(void **state)
{
	const struct twi_reduce_variant *best = NULL;

	(void)state;
	assert_string_equal(twi_reduce_variants[0]->name, "plain");
	assert_true(twi_reduce_variants[0]->usable());
	for (unsigned v = 0; v < twi_reduce_variant_count; v++) {
		if (twi_reduce_variants[v]->usable())
			best = twi_reduce_variants[v];
	}
	assert_ptr_equal(twi_reduce_variant(), best);
	assert_ptr_equal(twi_reduce_variant(), best);
}

/* The four formats, as the library converts them. */
struct format {
	enum tow_type type;
	uint32_t patterns;
	float (*widen)(uint32_t bits);
	uint32_t (*narrow)(float value);
};

#define FORMAT(name, bits_type)                                                                    \
	static float name##_widen(uint32_t bits)                                                   \
	{                                                                                          \
		return twi_##name##_widen((bits_type)bits);                                        \
	}                                                                                          \
	static uint32_t name##_narrow(float value)                                                 \
	{                                                                                          \
		return twi_##name##_narrow(value);                                                 \
	}
FORMAT(f16, uint16_t)
FORMAT(bf16, uint16_t)
FORMAT(f8e4m3, uint8_t)
FORMAT(f8e5m2, uint8_t)

static const struct format formats[] = {
	{ TOW_F16, 1 << 16, f16_widen, f16_narrow },
	{ TOW_BF16, 1 << 16, bf16_widen, bf16_narrow },
	{ TOW_F8E4M3, 1 << 8, f8e4m3_widen, f8e4m3_narrow },
	{ TOW_F8E5M2, 1 << 8, f8e5m2_widen, f8e5m2_narrow },
};

/* The same number by the same bits, or both a NaN. */
static void same_float(float a, float b)
{
	if (isnan(a) || isnan(b))
		assert_true(isnan(a) && isnan(b));
	else
		assert_int_equal(twi_f32_bits(a), twi_f32_bits(b));
}

static void test_widen(void **state)
{
	(void)state;
	for (unsigned f = 0; f < twi_array_count(formats); f++) {
		for (uint32_t bits = 0; bits < formats[f].patterns; bits++) {
			double want = twt_widen(bits, twt_formats[formats[f].type]);

			same_float(formats[f].widen(bits), (float)want);
			if (!isnan(want))
				assert_int_equal(formats[f].narrow((float)want), bits);
			else
				assert_true(isnan(formats[f].widen(
					formats[f].narrow(formats[f].widen(bits)))));
		}
	}
}

static void one_narrow(const struct format *format, float value)
{
	uint32_t got = format->narrow(value);
	uint32_t want = twt_narrow((double)value, twt_formats[format->type]);

	if (isnan(value))
		assert_true(isnan(format->widen(got)));
	else if (got != want)
		fail_msg("%s of %a is %x, not %x", twt_type_names[format->type], (double)value, got,
			 want);
}

/* What lies between two neighbours: half-way, just beside. Then beyond the last, then anything. */
static void test_narrow(void **state)
{
	uint64_t random = twt_seed();

	(void)state;
	for (unsigned f = 0; f < twi_array_count(formats); f++) {
		const struct format *format = &formats[f];

		for (uint32_t bits = 0; bits + 1 < format->patterns; bits++) {
			double a = twt_widen(bits, twt_formats[format->type]);
			double b = twt_widen(bits + 1, twt_formats[format->type]);
			float half = (float)((a + b) / 2);

			if (!isfinite(a) || !isfinite(b))
				continue;
			one_narrow(format, half);
			one_narrow(format, nextafterf(half, INFINITY));
			one_narrow(format, nextafterf(half, -INFINITY));
			one_narrow(format, nextafterf((float)a, INFINITY));
			one_narrow(format, nextafterf((float)a, -INFINITY));
		}
		for (unsigned i = 0; i < 2000000; i++)
			one_narrow(format, twi_f32_of((uint32_t)twt_random(&random)));
	}
}

/* What the specifications and ml_dtypes say where formats end. */
static void test_ends(void **state)
{
	(void)state;
	assert_int_equal(twi_f8e4m3_narrow(448), 0x7e);
	assert_int_equal(twi_f8e4m3_narrow(464), 0x7e); /* half-way, to the even one */
	assert_int_equal(twi_f8e4m3_narrow(nextafterf(464, 500)), 0x7f);
	assert_int_equal(twi_f8e4m3_narrow(-INFINITY), 0xff);
	assert_int_equal(twi_f8e4m3_narrow(0x1p-9f), 1);
	assert_int_equal(twi_f8e4m3_narrow(0x1p-10f), 0);
	assert_int_equal(twi_f8e4m3_narrow(-0x1.8p-10f), 0x81);
	assert_int_equal(twi_f8e5m2_narrow(57344), 0x7b);
	assert_int_equal(twi_f8e5m2_narrow(61439), 0x7b);
	assert_int_equal(twi_f8e5m2_narrow(61440), 0x7c);
	assert_int_equal(twi_f8e5m2_narrow(0x1p-16f), 1);
	assert_int_equal(twi_f16_narrow(65519), 0x7bff);
	assert_int_equal(twi_f16_narrow(65520), 0x7c00);
	assert_int_equal(twi_bf16_narrow(0x1.fffp127f), 0x7f80);
	assert_int_equal(twi_bf16_narrow(twi_f32_of(0x7f800001)) & 0x7fff, 0x7fc0);
}

/* A sum that overflows a byte, one that the format cannot hold, and one rounded only once. */
static void test_once(void **state)
{
	uint8_t f8[3] = { 0x7e, 0x7e, 0xfe }, f8_out = 0;        /* 448 + 448 - 448 */
	uint16_t bf[3] = { 0x4380, 0x3f80, 0x3f80 }, bf_out = 0; /* 256 + 1 + 1 */
	const void *sources[3] = { &f8[0], &f8[1], &f8[2] };
	void *result = &f8_out;
	struct twi_reduction r = { .type = TOW_F8E4M3,
				   .reduce = TOW_SUM,
				   .sources_n = 3,
				   .results_n = 1,
				   .sources = sources,
				   .results = &result,
				   .count = 1 };

	(void)state;
	twi_reduce(&r);
	assert_int_equal(f8_out, 0x7e);
	for (unsigned i = 0; i < 3; i++)
		sources[i] = &bf[i];
	result = &bf_out;
	r.type = TOW_BF16;
	twi_reduce(&r);
	assert_int_equal(bf_out, 0x4381); /* 258: each sum alone would be rounded back to 256 */
}

static void reduce_tiny(float out[32])
{
	float a[32], b[32];
	const void *sources[2] = { a, b };
	void *result = out;
	struct twi_reduction r = { .type = TOW_F32,
				   .reduce = TOW_SUM,
				   .sources_n = 2,
				   .results_n = 1,
				   .sources = sources,
				   .results = &result,
				   .count = 31 };

	for (unsigned i = 0; i < 32; i++) {
		a[i] = i % 2 ? 0x1p-130f : 1;
		b[i] = i % 2 ? 0x1p-131f : 0x1.8p-24f;
	}
	twi_reduce(&r);
}

/* The caller's mode changes nothing, and is his again afterwards. */
static void test_mode(void **state)
{
	float want[32] = { 0 }, got[32] = { 0 };
#if defined(__x86_64__)
	uint32_t mode = __builtin_ia32_stmxcsr() | 0x8040; /* subnormals are zero */
#endif

	(void)state;
	reduce_tiny(want);
	assert_true(want[1] == 0x1.8p-130f);
	fesetround(FE_DOWNWARD);
#if defined(__x86_64__)
	mode |= __builtin_ia32_stmxcsr();
	__builtin_ia32_ldmxcsr(mode);
#endif
	reduce_tiny(got);
	assert_int_equal(fegetround(), FE_DOWNWARD);
#if defined(__x86_64__)
	assert_int_equal(__builtin_ia32_stmxcsr() & 0xffc0, mode & 0xffc0);
	__builtin_ia32_ldmxcsr(0x1f80);
#endif
	fesetround(FE_TONEAREST);
	assert_memory_equal(got, want, sizeof(want));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_legal), cmocka_unit_test(test_variants),
		cmocka_unit_test(test_widen), cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_ends),  cmocka_unit_test(test_once),
		cmocka_unit_test(test_mode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
