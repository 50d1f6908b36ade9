/* reduce_model.c - the definition of each reduction, as plain as can be. */
#include "reduce_model.h"

#include "transport/coll/reduce/float_bits.h"

const struct twt_format twt_formats[TOW_TYPE_COUNT] = {
	[TOW_F16] = { 5, 10, true },
	[TOW_BF16] = { 8, 7, true },
	[TOW_F8E4M3] = { 4, 3, false },
	[TOW_F8E5M2] = { 5, 2, true },
};

const unsigned twt_type_bytes[TOW_TYPE_COUNT] = {
#define TWT_BYTES(name, value, bytes, text) [name] = bytes,
	TOW_TYPE_MAP(TWT_BYTES)
#undef TWT_BYTES
};

const char *const twt_type_names[TOW_TYPE_COUNT] = {
#define TWT_NAME(name, value, bytes, text) [name] = text,
	TOW_TYPE_MAP(TWT_NAME)
#undef TWT_NAME
};

const char *const twt_reduce_names[TOW_REDUCE_COUNT] = {
#define TWT_NAME(name, value, text) [name] = text,
	TOW_REDUCE_MAP(TWT_NAME)
#undef TWT_NAME
};

/* 2 to the power of `exponent`, where that is a normal double; ldexp took half of the time. */
static double twt_power(int exponent)
{
	uint64_t bits = (uint64_t)(exponent + 1023) << 52;
	double power;

	memcpy(&power, &bits, 8);
	return power;
}

double twt_widen(uint32_t bits, struct twt_format f)
{
	uint32_t mantissa = bits & ((1u << f.mantissa) - 1);
	int top = (1 << f.exponent) - 1, bias = top >> 1;
	int exponent = (int)(bits >> f.mantissa) & top;
	double value;

	if (exponent == top && f.infinities)
		value = mantissa ? NAN : INFINITY;
	else if (exponent == top && mantissa == (1u << f.mantissa) - 1)
		value = NAN;
	else if (exponent == 0)
		value = mantissa * twt_power(1 - bias - f.mantissa);
	else
		value = (mantissa + (1u << f.mantissa)) * twt_power(exponent - bias - f.mantissa);
	return bits >> (f.mantissa + f.exponent) ? -value : value;
}

/* Of a finite value that is not negative: floor(log2), and -1023 for zero and what is subnormal. */
static int twt_exponent(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, 8);
	return (int)(bits >> 52) - 1023;
}

uint32_t twt_narrow(double value, struct twt_format f)
{
	uint32_t sign = signbit(value) ? 1u << (f.exponent + f.mantissa) : 0;
	uint32_t top = (1u << f.exponent) - 1;
	uint32_t infinity = f.infinities ? top << f.mantissa : (top + 1) << f.mantissa;
	uint32_t largest = infinity - (f.infinities ? 1 : 2);
	int least = 1 - (int)(top >> 1), exponent;
	double units;

	if (isnan(value))
		return sign | (f.infinities ? infinity | 1 : infinity - 1);
	if (isinf(value))
		return sign | (f.infinities ? infinity : infinity - 1);
	value = fabs(value);
	exponent = twt_exponent(value) < least ? least : twt_exponent(value);
	units = rint(value * twt_power(f.mantissa - exponent));
	if (units >= twt_power(f.mantissa + 1)) { /* it was rounded up to the next power */
		units /= 2;
		exponent++;
	}
	if (units * twt_power(exponent - f.mantissa) > twt_widen(largest, f))
		return sign | (f.infinities ? infinity : infinity - 1);
	if (units < twt_power(f.mantissa))
		return sign | (uint32_t)units; /* subnormal */
	return sign | (((uint32_t)(exponent - least) << f.mantissa) + (uint32_t)units);
}

bool twt_is_float(enum tow_type type)
{
	return type <= TOW_F8E5M2;
}

bool twt_is_complex(enum tow_type type)
{
	return type == TOW_C64 || type == TOW_C128;
}

enum tow_type twt_part_type(enum tow_type type)
{
	return type == TOW_C64 ? TOW_F32 : type == TOW_C128 ? TOW_F64 : type;
}

double twt_load_float(enum tow_type type, const uint8_t *from)
{
	uint32_t bits = from[0];
	float f32;
	double f64;

	if (type == TOW_F64) {
		memcpy(&f64, from, 8);
		return f64;
	}
	if (type == TOW_F32) {
		memcpy(&f32, from, 4);
		return (double)f32;
	}
	if (twt_type_bytes[type] == 2)
		bits |= (uint32_t)from[1] << 8;
	return twt_widen(bits, twt_formats[type]);
}

void twt_store_float(enum tow_type type, double value, uint8_t *to)
{
	float f32 = (float)value;
	uint32_t bits;

	if (type == TOW_F64) {
		memcpy(to, &value, 8);
	} else if (type == TOW_F32) {
		memcpy(to, &f32, 4);
	} else {
		bits = twt_narrow(value, twt_formats[type]);
		to[0] = (uint8_t)bits;
		if (twt_type_bytes[type] == 2)
			to[1] = (uint8_t)(bits >> 8);
	}
}

/* Exactly, then rounded to what accumulates: f64 in f64, all others in f32. */
static double twt_float_op(enum tow_type type, enum tow_reduce reduce, double a, double b)
{
	twt_quad exact;
	double rounded;

	if (reduce == TOW_MIN || reduce == TOW_MAX) {
		if (isnan(a) || isnan(b))
			return NAN;
		if (a == b)
			return (signbit(a) != 0) == (reduce == TOW_MIN) ? a : b;
		return (a < b) == (reduce == TOW_MIN) ? a : b;
	}
	exact = reduce == TOW_PROD ? (twt_quad)a * (twt_quad)b : (twt_quad)a + (twt_quad)b;
	/* A compiler may multiply as doubles, and make a multiply-add of this and the next. */
	rounded = type == TOW_F64 ? (double)exact : (double)(float)exact;
	TWI_ROUNDED(rounded);
	return rounded;
}

static void twt_model_float(const struct twi_reduction *r, uint64_t i, uint8_t *to)
{
	uint64_t at = i * twt_type_bytes[r->type];
	double value = twt_load_float(r->type, (const uint8_t *)r->sources[0] + at), by = r->ranks;

	for (uint32_t s = 1; s < r->sources_n; s++)
		value = twt_float_op(r->type, r->reduce, value,
				     twt_load_float(r->type, (const uint8_t *)r->sources[s] + at));
	if (r->reduce == TOW_AVG && r->ranks != 0) {
		twt_quad exact =
			(twt_quad)value / (twt_quad)(r->type == TOW_F64 ? by : (double)(float)by);

		value = r->type == TOW_F64 ? (double)exact : (double)(float)exact;
	}
	twt_store_float(r->type, value, to);
}

void twt_model_scale(enum tow_type type, const uint8_t *from, double factor, uint8_t *to)
{
	enum tow_type part = twt_part_type(type);

	if (part != TOW_F64)
		factor = (double)(float)factor;
	for (unsigned at = 0; at < twt_type_bytes[type]; at += twt_type_bytes[part])
		twt_store_float(
			part, twt_float_op(part, TOW_PROD, twt_load_float(part, from + at), factor),
			to + at);
}

/* By the school's rule: four products and two sums, each rounded. */
static void twt_model_complex(const struct twi_reduction *r, uint64_t i, uint8_t *to)
{
	enum tow_type part = twt_part_type(r->type);
	unsigned bytes = twt_type_bytes[part];
	double value[2] = { 0 };

	for (uint32_t s = 0; s < r->sources_n; s++) {
		const uint8_t *from = (const uint8_t *)r->sources[s] + 2 * i * bytes;
		double re = twt_load_float(part, from), im = twt_load_float(part, from + bytes);
		double was[2] = { value[0], value[1] };

		if (s == 0) {
			value[0] = re;
			value[1] = im;
		} else if (r->reduce == TOW_PROD) {
			value[0] = twt_float_op(part, TOW_SUM,
						twt_float_op(part, TOW_PROD, was[0], re),
						-twt_float_op(part, TOW_PROD, was[1], im));
			value[1] = twt_float_op(part, TOW_SUM,
						twt_float_op(part, TOW_PROD, was[1], re),
						twt_float_op(part, TOW_PROD, was[0], im));
		} else {
			value[0] = twt_float_op(part, TOW_SUM, was[0], re);
			value[1] = twt_float_op(part, TOW_SUM, was[1], im);
		}
	}
	for (unsigned p = 0; p < 2; p++) {
		twt_quad exact = value[p];

		if (r->reduce == TOW_AVG && r->ranks != 0)
			exact /= part == TOW_F64 ? (twt_quad)r->ranks : (twt_quad)(float)r->ranks;
		twt_store_float(part, part == TOW_F64 ? (double)exact : (double)(float)exact,
				to + p * bytes);
	}
}

static bool twt_is_signed(enum tow_type type)
{
	return type >= TOW_S8 && type <= TOW_S64;
}

/* The low bits of a number, as the type has them. */
static twt_wide twt_cut(enum tow_type type, twt_wide_u value)
{
	unsigned unused = 128 - 8 * twt_type_bytes[type];

	if (twt_is_signed(type))
		return (twt_wide)(value << unused) >> unused;
	return (twt_wide)(value << unused >> unused);
}

static twt_wide twt_integer_op(enum tow_reduce reduce, twt_wide a, twt_wide b)
{
	switch (reduce) {
	case TOW_PROD:
		return (twt_wide)((twt_wide_u)a * (twt_wide_u)b);
	case TOW_MIN:
		return b < a ? b : a;
	case TOW_MAX:
		return b > a ? b : a;
	case TOW_AND:
		return a & b;
	case TOW_OR:
		return a | b;
	case TOW_XOR:
		return a ^ b;
	default:
		return a + b;
	}
}

static void twt_model_integer(const struct twi_reduction *r, uint64_t i, uint8_t *to)
{
	unsigned bytes = twt_type_bytes[r->type];
	twt_wide value = 0;

	for (uint32_t s = 0; s < r->sources_n; s++) {
		uint64_t bits = 0;
		twt_wide operand;

		memcpy(&bits, (const uint8_t *)r->sources[s] + i * bytes, bytes);
		operand = twt_cut(r->type, bits);
		value = s ? twt_integer_op(r->reduce, value, operand) : operand;
	}
	if (r->type == TOW_BOOL && r->reduce == TOW_SUM)
		value = value != 0; /* some are true; the product is one when all are */
	value = twt_cut(r->type, (twt_wide_u)value);
	if (r->reduce == TOW_AVG && r->ranks != 0)
		value /= r->ranks;
	memcpy(to, &value, bytes);
}

void twt_model(const struct twi_reduction *r, uint64_t i, uint8_t *to)
{
	if (twt_is_float(r->type))
		twt_model_float(r, i, to);
	else if (twt_is_complex(r->type))
		twt_model_complex(r, i, to);
	else
		twt_model_integer(r, i, to);
}

bool twt_same_element(enum tow_type type, const uint8_t *a, const uint8_t *b)
{
	if (memcmp(a, b, twt_type_bytes[type]) == 0)
		return true;
	if (twt_is_complex(type)) {
		unsigned half = twt_type_bytes[type] / 2;

		type = twt_part_type(type);
		return twt_same_element(type, a, b) && twt_same_element(type, a + half, b + half);
	}
	return twt_is_float(type) && isnan(twt_load_float(type, a)) &&
	       isnan(twt_load_float(type, b));
}
