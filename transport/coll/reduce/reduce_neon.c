/*
 * reduce_neon.c - the kernels in vectors of 16 bytes, for aarch64, which always has NEON.
 *
 * No store around the caches is worth using here, so `stream` changes nothing.
 */
#include "transport/coll/reduce/reduce_parts.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define TWI_VECTOR_BYTES 16
#define TWI_VECTOR_WIDEN_F16(from)                                                                 \
	((vec)vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8((const uint8_t *)(from)))))
#define TWI_VECTOR_NARROW_F16(low, high)                                                           \
	((vec)vcombine_f16(vcvt_f16_f32((float32x4_t)(low)), vcvt_f16_f32((float32x4_t)(high))))
#include "transport/coll/reduce/reduce_variant.h"

static void neon_reduce(const struct twi_reduction *reduction)
{
	(void)reduce_all(reduction);
}

static bool neon_usable(void)
{
	return true;
}

const struct twi_reduce_variant twi_reduce_neon = { "neon", neon_usable, neon_reduce };
#endif
