/*
 * reduce_vectors.h - the vectors that kernels compute with, in GNU C, of TWI_VECTOR_BYTES.
 *
 * A variant defines TWI_VECTOR_BYTES and macros for its machine's instructions. Then it includes
 * reduce_kernels.h, which includes this:
 *	TWI_VECTOR_WIDEN_F16(from)     a vector of f32 from the f16 at `from`
 *	TWI_VECTOR_NARROW_F16(a, b)    the vector of f16 that two of f32 become
 *	TWI_VECTOR_STREAM(to, v)       a store around the caches, to an aligned address
 *
 * All vectors are passed as `vec`, of unsigned 32-bit numbers, and cast to what they hold. Widening
 * narrow floats moves nothing across lanes. A vector of bf16 becomes two of f32: the even and the
 * odd elements. A vector of f8 becomes four: every fourth element each. The order in between does
 * not matter, as narrowing restores it.
 */
#ifndef TWI_REDUCE_VECTORS_H
#define TWI_REDUCE_VECTORS_H

#include <stdint.h>

#include "transport/coll/reduce/float_bits.h"

#ifndef TWI_VECTOR_BYTES /* so that the header compiles alone */
#define TWI_VECTOR_BYTES            16
#define TWI_VECTOR_WIDEN_F16(from)  load(from)
#define TWI_VECTOR_NARROW_F16(a, b) ((a) | (b))
#endif

#define TWI_INLINE static inline __attribute__((always_inline))

#define TWI_VECTOR(name, type) typedef type name __attribute__((vector_size(TWI_VECTOR_BYTES)))
TWI_VECTOR(vec, uint32_t);
TWI_VECTOR(vec_f32, float);
TWI_VECTOR(vec_f64, double);
TWI_VECTOR(vec_s8, int8_t);
TWI_VECTOR(vec_s16, int16_t);
TWI_VECTOR(vec_s32, int32_t);
TWI_VECTOR(vec_s64, int64_t);
TWI_VECTOR(vec_u8, uint8_t);
TWI_VECTOR(vec_u16, uint16_t);
TWI_VECTOR(vec_u32, uint32_t);
TWI_VECTOR(vec_u64, uint64_t);
typedef uint32_t vec_at __attribute__((vector_size(TWI_VECTOR_BYTES), aligned(1), may_alias));

TWI_INLINE vec load(const uint8_t *from)
{
	return (vec) * (const vec_at *)(const void *)from;
}

TWI_INLINE void store(uint8_t *to, vec value)
{
	*(vec_at *)(void *)to = (vec_at)value;
}

#ifdef TWI_VECTOR_STREAM
#define TWI_VECTOR_STREAMS 1
#else
#define TWI_VECTOR_STREAMS 0
#define TWI_VECTOR_STREAM  store
#endif

TWI_INLINE vec choose(vec mask, vec yes, vec no)
{
	return (mask & yes) | (~mask & no);
}

#define TWI_VECTOR_OP(name, type, expression)                                                      \
	TWI_INLINE vec name(vec first, vec second)                                                 \
	{                                                                                          \
		type a = (type)first, b = (type)second;                                            \
                                                                                                   \
		return (vec)(expression);                                                          \
	}

/*
 * Of two zeros, min takes the one with the sign, and max the one without. They OR, or AND, the sign
 * bit; this changes no other equal numbers. If `a` is NaN it is put back, since its comparison has
 * chosen b.
 */
#define TWI_VECTOR_FLOATS(name, type)                                                              \
	TWI_VECTOR_OP(name##_sum, type, a + b)                                                     \
	TWI_VECTOR_OP(name##_prod, type, a *b)                                                     \
	TWI_VECTOR_OP(name##_min, type,                                                            \
		      choose((vec)(a != a), first,                                                 \
			     choose((vec)(a < b), first, second | (first & (vec)(a == b)))))       \
	TWI_VECTOR_OP(name##_max, type,                                                            \
		      choose((vec)(a != a), first,                                                 \
			     choose((vec)(a > b), first, second &(first | ~(vec)(a == b)))))
TWI_VECTOR_FLOATS(f32, vec_f32)
TWI_VECTOR_FLOATS(f64, vec_f64)

/*
 * Complex numbers are pairs of neighbours, the real part first. The product of (a, b) and (c, d) is
 * x + y, rounded as in plain C. x = (a, b) * (c, c). y = (b, a) * (d, d), with the sign of the real
 * part inverted.
 */
#if TWI_VECTOR_BYTES == 16
#define TWI_VECTOR_PAIRS(v, x, y) __builtin_shufflevector(v, v, x, y)
#define TWI_VECTOR_SIGNS                                                                           \
	{                                                                                          \
		1ull << 63, 0                                                                      \
	}
#elif TWI_VECTOR_BYTES == 32
#define TWI_VECTOR_PAIRS(v, x, y) __builtin_shufflevector(v, v, x, y, 2 + (x), 2 + (y))
#define TWI_VECTOR_SIGNS                                                                           \
	{                                                                                          \
		1ull << 63, 0, 1ull << 63, 0                                                       \
	}
#else
#define TWI_VECTOR_PAIRS(v, x, y)                                                                  \
	__builtin_shufflevector(v, v, x, y, 2 + (x), 2 + (y), 4 + (x), 4 + (y), 6 + (x), 6 + (y))
#define TWI_VECTOR_SIGNS                                                                           \
	{                                                                                          \
		1ull << 63, 0, 1ull << 63, 0, 1ull << 63, 0, 1ull << 63, 0                         \
	}
#endif

TWI_INLINE vec c64_prod(vec first, vec second)
{
	vec_u64 a = (vec_u64)first, b = (vec_u64)second;
	vec_u64 real = (b & 0xffffffffu) | b << 32, imaginary = b >> 32 | (b >> 32) << 32;
	vec_u64 crossed = a << 32 | a >> 32;
	vec_f32 x = (vec_f32)a * (vec_f32)real;
	vec_f32 y = (vec_f32)crossed * (vec_f32)imaginary;

	TWI_ROUNDED(x);
	TWI_ROUNDED(y);
	return (vec)(x + (vec_f32)((vec_u64)y ^ 0x80000000u));
}

TWI_INLINE vec c128_prod(vec first, vec second)
{
	const vec_u64 signs = TWI_VECTOR_SIGNS;
	vec_f64 a = (vec_f64)first, b = (vec_f64)second;
	vec_f64 x = a * TWI_VECTOR_PAIRS(b, 0, 0);
	vec_f64 y = TWI_VECTOR_PAIRS(a, 1, 0) * TWI_VECTOR_PAIRS(b, 1, 1);

	TWI_ROUNDED(x);
	TWI_ROUNDED(y);
	return (vec)(x + (vec_f64)((vec_u64)y ^ signs));
}

#define TWI_VECTOR_WRAPPING(name, type)                                                            \
	TWI_VECTOR_OP(name##_sum, type, a + b)                                                     \
	TWI_VECTOR_OP(name##_prod, type, a *b)
TWI_VECTOR_WRAPPING(u8, vec_u8)
TWI_VECTOR_WRAPPING(u16, vec_u16)
TWI_VECTOR_WRAPPING(u32, vec_u32)
TWI_VECTOR_WRAPPING(u64, vec_u64)

#define TWI_VECTOR_ORDERED(name, type)                                                             \
	TWI_VECTOR_OP(name##_min, type, choose((vec)(a < b), first, second))                       \
	TWI_VECTOR_OP(name##_max, type, choose((vec)(a > b), first, second))
TWI_VECTOR_ORDERED(s8, vec_s8)
TWI_VECTOR_ORDERED(s16, vec_s16)
TWI_VECTOR_ORDERED(s32, vec_s32)
TWI_VECTOR_ORDERED(s64, vec_s64)
TWI_VECTOR_ORDERED(u8, vec_u8)
TWI_VECTOR_ORDERED(u16, vec_u16)
TWI_VECTOR_ORDERED(u32, vec_u32)
TWI_VECTOR_ORDERED(u64, vec_u64)

TWI_VECTOR_OP(bits_and, vec, a &b)
TWI_VECTOR_OP(bits_or, vec, a | b)
TWI_VECTOR_OP(bits_xor, vec, a ^ b)

/* For numbers below 2^31, as some machines have only signed comparisons. */
TWI_INLINE vec less(vec a, uint32_t b)
{
	return (vec)((vec_s32)a < (int32_t)b);
}

/*
 * Rounds the upper half of an f32 like twi_bf16_narrow; the lower half is not cleared. A NaN needs
 * no care. It comes from a bf16, or is the machine's own, so its lower half is zero and this adds
 * no carry. (A check would cost a third of the rate for data in the first cache.)
 */
TWI_INLINE vec bf16_round(vec bits)
{
	return bits + 0x7fffu + (bits >> 16 & 1u);
}

/* Like twi_float_widen, of the low bits of each lane. The format is a compile-time constant. */
TWI_INLINE vec float_widen(vec bits, struct twi_float_format format)
{
	uint32_t shift = 23 - format.mantissa, rebias = (127 - format.bias) << 23;
	vec sign = (bits & format.sign) << __builtin_clz(format.sign);
	vec magnitude = (bits & (format.sign - 1)) << shift;
	vec subnormal = (vec)((vec_f32)(magnitude + (rebias + (1u << 23))) -
			      twi_f32_of(rebias + (1u << 23)));
	vec beyond = magnitude | (format.overflow == format.nan ? 0x7fc00000u : 0x7f800000u);
	vec normal = choose(less(magnitude, format.overflow << shift), magnitude + rebias, beyond);

	return sign | choose(less(magnitude, 1u << 23), subnormal, normal);
}

/* Like twi_float_narrow. */
TWI_INLINE vec float_narrow(vec bits, struct twi_float_format format)
{
	uint32_t shift = 23 - format.mantissa;
	uint32_t anchor = (128 - format.bias + shift) << 23;
	vec zeros = bits ^ bits;
	vec sign = bits >> __builtin_clz(format.sign) & format.sign;
	vec magnitude = bits & 0x7fffffffu;
	vec subnormal = (vec)((vec_f32)magnitude + twi_f32_of(anchor)) - anchor;
	vec half = (magnitude >> shift & 1u) + ((1u << (shift - 1)) - 1);
	vec normal = (magnitude - ((127 - format.bias) << 23) + half) >> shift;

	normal = choose(less(normal, format.overflow), normal, zeros + format.overflow);
	normal = choose(less(magnitude, 0x7f800001u), normal, zeros + format.nan);
	return sign | choose(less(magnitude, (128 - format.bias) << 23), subnormal, normal);
}

#endif
