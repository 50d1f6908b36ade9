/*
 * reduce_avx2.c - the kernels in vectors of 32 bytes.
 */
#include "transport/coll/reduce/reduce_parts.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include "internal/base.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

#define TWI_VECTOR_BYTES 32
#define TWI_VECTOR_WIDEN_F16(from)                                                                 \
	((vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from))))
#define TWI_VECTOR_NARROW_F16(low, high) ((vec)_mm256_set_m128i(f16_narrow(high), f16_narrow(low)))
#define TWI_VECTOR_STREAM(to, v)         _mm256_stream_si256((__m256i *)(void *)(to), (__m256i)(v))
#define f16_narrow(v)                    _mm256_cvtps_ph((__m256)(v), _MM_FROUND_TO_NEAREST_INT)
#include "transport/coll/reduce/reduce_variant.h"

static void avx2_reduce(const struct twi_reduction *reduction)
{
	if (reduce_all(reduction))
		_mm_sfence(); /* before any store that announces the results */
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static bool avx2_usable(void)
{
	unsigned a, b, c, d;

	/* __builtin_cpu_supports of clang 14 does not know f16c. */
	return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

const struct twi_reduce_variant twi_reduce_avx2 = { "avx2", avx2_usable, avx2_reduce };
#endif
