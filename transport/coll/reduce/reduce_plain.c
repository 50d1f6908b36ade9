/*
 * reduce_plain.c - the reference: every type and operator in plain C, by three tables.
 *
 *	source --read--> operand (f32 for the narrow floats, else the type itself)
 *	       --combine with the accumulators--> ... --divide--> --write--> results
 *
 * It works in chunks, so that a result may be a source: a chunk is stored only after all sources of
 * it were read. The other variants must agree with it bitwise, except for the bits of a NaN.
 */
#include "transport/coll/reduce/reduce_parts.h"

#include "transport/coll/reduce/float_bits.h"

#define CHUNK 256

union numbers {
	float f32[CHUNK];
	double f64[CHUNK];
	uint64_t u64[CHUNK];
};

typedef uint8_t u8_at __attribute__((may_alias));
typedef uint16_t u16_at __attribute__((aligned(1), may_alias));
typedef uint32_t u32_at __attribute__((aligned(1), may_alias));
typedef uint64_t u64_at __attribute__((aligned(1), may_alias));

/* Copies elements of a type that needs no conversion. */
#define COPY(name, type)                                                                           \
	static void read_##name(void *to, const void *from, unsigned n)                            \
	{                                                                                          \
		for (unsigned i = 0; i < n; i++)                                                   \
			((type##_at *)to)[i] = ((const type##_at *)from)[i];                       \
	}
COPY(u8, u8)
COPY(u16, u16)
COPY(u32, u32)
COPY(u64, u64)
#undef COPY

#define NARROW(name, type, bits_type)                                                              \
	static void read_##name(void *to, const void *from, unsigned n)                            \
	{                                                                                          \
		float *values = to;                                                                \
                                                                                                   \
		for (unsigned i = 0; i < n; i++)                                                   \
			values[i] = twi_##name##_widen(((const type##_at *)from)[i]);              \
	}                                                                                          \
	static void write_##name(void *to, const void *from, unsigned n)                           \
	{                                                                                          \
		const float *values = from;                                                        \
                                                                                                   \
		for (unsigned i = 0; i < n; i++)                                                   \
			((type##_at *)to)[i] = twi_##name##_narrow(values[i]);                     \
	}
NARROW(f16, u16, uint16_t)
NARROW(bf16, u16, uint16_t)
NARROW(f8e4m3, u8, uint8_t)
NARROW(f8e5m2, u8, uint8_t)
#undef NARROW

#define COMBINE(name, type, expression)                                                            \
	static void name(void *to, const void *operands, unsigned n)                               \
	{                                                                                          \
		type *accumulators = to;                                                           \
		const type *values = operands;                                                     \
                                                                                                   \
		for (unsigned i = 0; i < n; i++) {                                                 \
			type a = accumulators[i], b = values[i];                                   \
                                                                                                   \
			accumulators[i] = (type)(expression);                                      \
		}                                                                                  \
	}

/* NaN if one operand is NaN. Of two zeros, lesser takes the negative one, greater the other. */
#define FLOATS(name, type)                                                                         \
	static type name##_lesser(type a, type b)                                                  \
	{                                                                                          \
		if (a != a || b != b)                                                              \
			return a != a ? a : b;                                                     \
		if (a == b)                                                                        \
			return __builtin_signbit(a) ? a : b;                                       \
		return a < b ? a : b;                                                              \
	}                                                                                          \
	static type name##_greater(type a, type b)                                                 \
	{                                                                                          \
		if (a != a || b != b)                                                              \
			return a != a ? a : b;                                                     \
		if (a == b)                                                                        \
			return __builtin_signbit(a) ? b : a;                                       \
		return a > b ? a : b;                                                              \
	}                                                                                          \
	COMBINE(name##_sum, type, a + b)                                                           \
	COMBINE(name##_prod, type, a *b)                                                           \
	COMBINE(name##_min, type, name##_lesser(a, b))                                             \
	COMBINE(name##_max, type, name##_greater(a, b))
FLOATS(f32, float)
FLOATS(f64, double)
#undef FLOATS

/* Computes in unsigned 64 bits, where overflow is defined, and truncates: so integers wrap. */
#define INTEGERS(name, type)                                                                       \
	COMBINE(name##_sum, type, (uint64_t)a + (uint64_t)b)                                       \
	COMBINE(name##_prod, type, (uint64_t)a *(uint64_t)b)                                       \
	COMBINE(name##_min, type, a < b ? a : b)                                                   \
	COMBINE(name##_max, type, a > b ? a : b)
INTEGERS(s8, int8_t)
INTEGERS(s16, int16_t)
INTEGERS(s32, int32_t)
INTEGERS(s64, int64_t)
INTEGERS(u8, uint8_t)
INTEGERS(u16, uint16_t)
INTEGERS(u32, uint32_t)
INTEGERS(u64, uint64_t)
#undef INTEGERS

#define BITS(name, type)                                                                           \
	COMBINE(name##_and, type, a &b)                                                            \
	COMBINE(name##_or, type, a | b)                                                            \
	COMBINE(name##_xor, type, a ^ b)
BITS(u8, uint8_t)
BITS(u16, uint16_t)
BITS(u32, uint32_t)
BITS(u64, uint64_t)
#undef BITS

/* Complex numbers are pairs of a real and an imaginary part. */
#define COMPLEX(name, type)                                                                        \
	static void name##_prod(void *to, const void *operands, unsigned n)                        \
	{                                                                                          \
		type *accumulators = to;                                                           \
		const type *values = operands;                                                     \
                                                                                                   \
		for (unsigned i = 0; i < n; i += 2) {                                              \
			type a = accumulators[i], b = accumulators[i + 1];                         \
			type c = values[i], d = values[i + 1];                                     \
			type ac = a * c, bd = b * d, bc = b * c, ad = a * d;                       \
                                                                                                   \
			TWI_ROUNDED(ac);                                                           \
			TWI_ROUNDED(bd);                                                           \
			TWI_ROUNDED(bc);                                                           \
			TWI_ROUNDED(ad);                                                           \
			accumulators[i] = ac - bd;                                                 \
			accumulators[i + 1] = bc + ad;                                             \
		}                                                                                  \
	}
COMPLEX(c64, float)
COMPLEX(c128, double)
#undef COMPLEX

typedef void move_fn(void *to, const void *from, unsigned n);

/* For a complex type, read, write and combine count parts, two for each element. */
struct plain_type {
	unsigned bytes, parts;
	move_fn *read, *write;
	move_fn *combine[TOW_REDUCE_COUNT];
};

#define OF_FLOATS(n) n##_sum, n##_prod, n##_min, n##_max, n##_sum
#define OF_INTEGERS(n, bits)                                                                       \
	n##_sum, n##_prod, n##_min, n##_max, n##_sum, bits##_and, bits##_or, bits##_xor

static const struct plain_type types[TOW_TYPE_COUNT] = {
	[TOW_F32] = { 4, 1, read_u32, read_u32, { OF_FLOATS(f32) } },
	[TOW_F64] = { 8, 1, read_u64, read_u64, { OF_FLOATS(f64) } },
	[TOW_F16] = { 2, 1, read_f16, write_f16, { OF_FLOATS(f32) } },
	[TOW_BF16] = { 2, 1, read_bf16, write_bf16, { OF_FLOATS(f32) } },
	[TOW_F8E4M3] = { 1, 1, read_f8e4m3, write_f8e4m3, { OF_FLOATS(f32) } },
	[TOW_F8E5M2] = { 1, 1, read_f8e5m2, write_f8e5m2, { OF_FLOATS(f32) } },
	[TOW_S8] = { 1, 1, read_u8, read_u8, { OF_INTEGERS(s8, u8) } },
	[TOW_S16] = { 2, 1, read_u16, read_u16, { OF_INTEGERS(s16, u16) } },
	[TOW_S32] = { 4, 1, read_u32, read_u32, { OF_INTEGERS(s32, u32) } },
	[TOW_S64] = { 8, 1, read_u64, read_u64, { OF_INTEGERS(s64, u64) } },
	[TOW_U8] = { 1, 1, read_u8, read_u8, { OF_INTEGERS(u8, u8) } },
	[TOW_U16] = { 2, 1, read_u16, read_u16, { OF_INTEGERS(u16, u16) } },
	[TOW_U32] = { 4, 1, read_u32, read_u32, { OF_INTEGERS(u32, u32) } },
	[TOW_U64] = { 8, 1, read_u64, read_u64, { OF_INTEGERS(u64, u64) } },
	/* Works on whole bytes: values of 0 or 1 stay so. */
	[TOW_BOOL] = { 1,
		       1,
		       read_u8,
		       read_u8,
		       { u8_or, u8_and, u8_and, u8_or, 0, u8_and, u8_or, u8_xor } },
	[TOW_C64] = { 8, 2, read_u32, read_u32, { f32_sum, c64_prod, 0, 0, f32_sum } },
	[TOW_C128] = { 16, 2, read_u64, read_u64, { f64_sum, c128_prod, 0, 0, f64_sum } },
};

bool twi_reduce_legal(enum tow_type type, enum tow_reduce reduce)
{
	return (unsigned)type < TOW_TYPE_COUNT && (unsigned)reduce < TOW_REDUCE_COUNT &&
	       types[type].combine[reduce] != NULL;
}

#define DIVIDE(name, type, wide)                                                                   \
	static void name##_divide(type *values, unsigned n, wide by)                               \
	{                                                                                          \
		for (unsigned i = 0; i < n; i++)                                                   \
			values[i] = (type)((wide)values[i] / by);                                  \
	}
DIVIDE(f32, float, float)
DIVIDE(f64, double, double)
DIVIDE(s8, int8_t, int64_t)
DIVIDE(s16, int16_t, int64_t)
DIVIDE(s32, int32_t, int64_t)
DIVIDE(s64, int64_t, int64_t)
DIVIDE(u8, uint8_t, uint32_t)
DIVIDE(u16, uint16_t, uint32_t)
DIVIDE(u32, uint32_t, uint32_t)
DIVIDE(u64, uint64_t, uint64_t)
#undef DIVIDE

void twi_reduce_divide(enum tow_type type, void *numbers, unsigned count, uint32_t ranks)
{
	switch (type) {
	case TOW_S8:
		s8_divide(numbers, count, ranks);
		break;
	case TOW_S16:
		s16_divide(numbers, count, ranks);
		break;
	case TOW_S32:
		s32_divide(numbers, count, ranks);
		break;
	case TOW_S64:
		s64_divide(numbers, count, ranks);
		break;
	case TOW_U8:
		u8_divide(numbers, count, ranks);
		break;
	case TOW_U16:
		u16_divide(numbers, count, ranks);
		break;
	case TOW_U32:
		u32_divide(numbers, count, ranks);
		break;
	case TOW_U64:
		u64_divide(numbers, count, ranks);
		break;
	case TOW_F64:
	case TOW_C128:
		f64_divide(numbers, count, (double)ranks);
		break;
	default: /* bool has no average; all other types are f32 here */
		f32_divide(numbers, count, (float)ranks);
		break;
	}
}

bool twi_reduce_scales(enum tow_type type)
{
	return type <= TOW_F8E5M2 || type == TOW_C64 || type == TOW_C128;
}

void twi_reduce_scale_part(enum tow_type type, void *to, const void *from, uint64_t count,
			   double factor)
{
	const struct plain_type *how = &types[type];
	const bool wide = type == TOW_F64 || type == TOW_C128;
	uint8_t *out = to;
	const uint8_t *in = from;
	union numbers numbers;

	while (count != 0) {
		unsigned n = count < CHUNK / how->parts ? (unsigned)count : CHUNK / how->parts;
		unsigned parts = n * how->parts;

		how->read(&numbers, in, parts);
		for (unsigned i = 0; wide && i < parts; i++)
			numbers.f64[i] *= factor;
		for (unsigned i = 0; !wide && i < parts; i++)
			numbers.f32[i] *= (float)factor;
		how->write(out, &numbers, parts);
		in += n * how->bytes;
		out += n * how->bytes;
		count -= n;
	}
}

static void reduce_chunk(const struct twi_reduction *r, uint64_t offset, unsigned n)
{
	const struct plain_type *type = &types[r->type];
	bool divides = r->reduce == TOW_AVG && r->ranks != 0;
	/* A single source is copied bytewise, even a NaN. */
	bool copies = r->sources_n == 1 && !divides;
	unsigned parts = n * type->parts;
	union numbers accumulators, operands;

	(copies ? types[TOW_U8].read : type->read)(&accumulators,
						   (const uint8_t *)r->sources[0] + offset,
						   copies ? n * type->bytes : parts);
	for (uint32_t s = 1; s < r->sources_n; s++) {
		type->read(&operands, (const uint8_t *)r->sources[s] + offset, parts);
		type->combine[r->reduce](&accumulators, &operands, parts);
	}
	if (divides)
		twi_reduce_divide(r->type, &accumulators, parts, r->ranks);
	for (uint32_t m = 0; m < r->results_n; m++)
		(copies ? types[TOW_U8].write : type->write)((uint8_t *)r->results[m] + offset,
							     &accumulators,
							     copies ? n * type->bytes : parts);
}

void twi_reduce_plain_part(const struct twi_reduction *reduction, uint64_t first, uint64_t count)
{
	const unsigned most = CHUNK / types[reduction->type].parts;

	while (count != 0) {
		unsigned n = count < most ? (unsigned)count : most;

		reduce_chunk(reduction, first * types[reduction->type].bytes, n);
		first += n;
		count -= n;
	}
}

static void plain_reduce(const struct twi_reduction *reduction)
{
	twi_reduce_plain_part(reduction, 0, reduction->count);
}

static bool plain_usable(void)
{
	return true;
}

const struct twi_reduce_variant twi_reduce_plain = { "plain", plain_usable, plain_reduce };
