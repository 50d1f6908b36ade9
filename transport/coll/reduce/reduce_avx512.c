/*
 * reduce_avx512.c - the kernels in vectors of 64 bytes.
 *
 * The bf16 instructions of some machines are not used: they treat subnormals as zero.
 */
#include "transport/coll/reduce/reduce_parts.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "internal/base.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))),        \
			     apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif

#define TWI_VECTOR_BYTES 64
#define TWI_VECTOR_WIDEN_F16(from)                                                                 \
	((vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(from))))
#define TWI_VECTOR_NARROW_F16(low, high)                                                           \
	((vec)_mm512_inserti64x4(_mm512_castsi256_si512(f16_narrow(low)), f16_narrow(high), 1))
#define TWI_VECTOR_STREAM(to, v) _mm512_stream_si512((__m512i *)(void *)(to), (__m512i)(v))
#define f16_narrow(v)            _mm512_cvtps_ph((__m512)(v), _MM_FROUND_TO_NEAREST_INT)
#include "transport/coll/reduce/reduce_variant.h"

static void avx512_reduce(const struct twi_reduction *reduction)
{
	if (reduce_all(reduction))
		_mm_sfence(); /* before any store that announces the results */
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static bool avx512_usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const struct twi_reduce_variant twi_reduce_avx512 = { "avx512", avx512_usable, avx512_reduce };
#endif
