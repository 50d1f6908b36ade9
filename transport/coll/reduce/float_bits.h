/*
 * float_bits.h - converts floats of 8 and 16 bits, as bits, to f32 (exactly) and back (to nearest
 * even).
 *
 *	        exponent  mantissa  bias   largest     overflow  its NaN here
 *	f16          5        10      15   65504       infinity  0x7e00
 *	bf16         8         7     127   3.39e38     infinity  the f32's upper half, quiet
 *	f8e4m3       4         3       7   448         NaN       0x7f
 *	f8e5m2       5         2      15   57344       infinity  0x7e
 *
 * f8e4m3 has no infinity; 0x7f and 0xff are its NaNs. A value that rounds to more than 448 becomes
 * NaN, and so does an infinity. This is the conversion without saturation of the OCP specification.
 * It is that of ml_dtypes (float8_e4m3fn), and so of JAX and TensorFlow. So a sum that overflows is
 * visible, and is not taken for 448.
 *
 * These functions are the reference, in branches and plain arithmetic. They need the floating-point
 * mode that the C library starts with (to nearest, nothing flushed to zero); twi_reduce sets it.
 */
#ifndef TWI_FLOAT_BITS_H
#define TWI_FLOAT_BITS_H

#include <stdint.h>

/* Rounds a product before it is added to, so that no machine makes one multiply-add of the two. */
#if defined(__aarch64__)
#define TWI_ROUNDED(product) __asm__("" : "+w"(product))
#else
#define TWI_ROUNDED(product) __asm__("" : "+x"(product))
#endif

static inline uint32_t twi_f32_bits(float value)
{
	union {
		float value;
		uint32_t bits;
	} both = { .value = value };

	return both.bits;
}

static inline float twi_f32_of(uint32_t bits)
{
	union {
		uint32_t bits;
		float value;
	} both = { .bits = bits };

	return both.value;
}

/* A format narrower than f32: the bits of its mantissa, its bias, and its special values. */
struct twi_float_format {
	uint32_t mantissa, bias;
	uint32_t sign;     /* the bit of the sign */
	uint32_t overflow; /* infinity, or the NaN in its place */
	uint32_t nan;
};

#define TWI_F16_FORMAT    ((struct twi_float_format){ 10, 15, 0x8000, 0x7c00, 0x7e00 })
#define TWI_F8E4M3_FORMAT ((struct twi_float_format){ 3, 7, 0x80, 0x7f, 0x7f })
#define TWI_F8E5M2_FORMAT ((struct twi_float_format){ 2, 15, 0x80, 0x7c, 0x7e })

static inline float twi_float_widen(uint32_t bits, struct twi_float_format format)
{
	uint32_t sign = bits & format.sign ? 0x80000000u : 0;
	uint32_t magnitude = bits & (format.sign - 1);
	uint32_t exponent = magnitude >> format.mantissa;
	uint32_t shift = 23 - format.mantissa;
	float value;

	if (magnitude > format.overflow || magnitude == format.nan)
		return twi_f32_of(sign | 0x7fc00000u);
	if (magnitude == format.overflow)
		return twi_f32_of(sign | 0x7f800000u);
	if (exponent != 0)
		return twi_f32_of(sign | ((magnitude << shift) + ((127 - format.bias) << 23)));
	/* Subnormal: a multiple of the smallest one. */
	value = (float)magnitude * twi_f32_of((128 - format.bias - format.mantissa) << 23);
	return twi_f32_of(sign | twi_f32_bits(value));
}

static inline uint32_t twi_float_narrow(float value, struct twi_float_format format)
{
	uint32_t bits = twi_f32_bits(value);
	uint32_t sign = bits >> 31 ? format.sign : 0;
	uint32_t magnitude = bits & 0x7fffffffu;
	uint32_t shift = 23 - format.mantissa;
	uint32_t least = (128 - format.bias) << 23; /* the least normal number */
	uint32_t result;

	if (magnitude > 0x7f800000u)
		return sign | format.nan;
	if (magnitude < least) {
		/* The last bit of the sum with `anchor` has the value of the smallest subnormal. */
		uint32_t anchor = (128 - format.bias + shift) << 23;

		result = twi_f32_bits(twi_f32_of(magnitude) + twi_f32_of(anchor)) - anchor;
		return sign | result;
	}
	/* Adds half of the last bit, less one if that bit is 0. A carry goes into the exponent. */
	result = magnitude - ((127 - format.bias) << 23);
	result += (1u << (shift - 1)) - 1 + (result >> shift & 1);
	result >>= shift;
	return sign | (result < format.overflow ? result : format.overflow);
}

static inline float twi_f16_widen(uint16_t bits)
{
	return twi_float_widen(bits, TWI_F16_FORMAT);
}

static inline uint16_t twi_f16_narrow(float value)
{
	return (uint16_t)twi_float_narrow(value, TWI_F16_FORMAT);
}

static inline float twi_bf16_widen(uint16_t bits)
{
	return twi_f32_of((uint32_t)bits << 16);
}

static inline uint16_t twi_bf16_narrow(float value)
{
	uint32_t bits = twi_f32_bits(value);

	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(bits >> 16 | 0x40); /* made quiet, since its low bits are lost */
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float twi_f8e4m3_widen(uint8_t bits)
{
	return twi_float_widen(bits, TWI_F8E4M3_FORMAT);
}

static inline uint8_t twi_f8e4m3_narrow(float value)
{
	return (uint8_t)twi_float_narrow(value, TWI_F8E4M3_FORMAT);
}

static inline float twi_f8e5m2_widen(uint8_t bits)
{
	return twi_float_widen(bits, TWI_F8E5M2_FORMAT);
}

static inline uint8_t twi_f8e5m2_narrow(float value)
{
	return (uint8_t)twi_float_narrow(value, TWI_F8E5M2_FORMAT);
}

#endif
