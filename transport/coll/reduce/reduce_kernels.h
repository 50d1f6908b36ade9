/*
 * reduce_kernels.h - the kernels of a variant, over the vectors of reduce_vectors.h. Each variant
 * includes this once, where the compiler has its instructions enabled.
 *
 * A step takes four vectors of accumulators. These are the elements of four vectors of f32, of two
 * of bf16, or of one of f8. It reads them from the first source, combines them with every other
 * source, and stores them to every result. So each byte is read once, and written once for each
 * result.
 *
 * More than GROUP sources would be more streams than a core follows, so they are taken in groups.
 * Between the groups a tile in the first cache keeps the accumulators, in f32 for narrow types.
 */
#ifndef TWI_REDUCE_KERNELS_H
#define TWI_REDUCE_KERNELS_H

#include <stdbool.h>

#include "transport/coll/reduce/reduce_parts.h"
#include "transport/coll/reduce/reduce_vectors.h"

#define WIDTH      TWI_VECTOR_BYTES
#define GROUP      8u
#define TILE_BYTES 4096u

/*
 * Distance at which sources that are in no cache are prefetched. With four sources of bf16, of 64
 * MiB, the core's own prefetcher reaches 0.5 to 0.7 of memcpy's rate, and this 0.75 to 1. With f32
 * there is no difference. For data in the first cache it would cost a quarter.
 */
#define AHEAD_BYTES 1024u

struct kernel_span {
	const uint8_t *sources[GROUP]; /* of this span */
	unsigned sources_n;
	bool from_tile, to_tile; /* the accumulators come from the tile, or go to it */
	bool streams, divides;
	bool far; /* the sources are not in a cache */
	uint32_t ranks, results_n;
	uint8_t *const *results;
	uint64_t offset; /* of this span in the results */
	uint64_t bytes;  /* of a source; a multiple of WIDTH */
	uint8_t *tile;
};

struct four {
	vec a, b, c, d;
};

typedef struct four unpack_fn(const uint8_t *from, unsigned parts);
typedef struct four pack_fn(struct four values, unsigned parts);
typedef vec op_fn(vec first, vec second);
typedef vec divide_fn(vec value, uint32_t ranks);

/* `parts` of the four are used: 1, 2 or 4. */
TWI_INLINE struct four load_parts(const uint8_t *from, unsigned parts)
{
	struct four x = { 0 };

	x.a = load(from);
	if (parts > 1)
		x.b = load(from + WIDTH);
	if (parts > 2) {
		x.c = load(from + 2 * WIDTH);
		x.d = load(from + 3 * WIDTH);
	}
	return x;
}

TWI_INLINE void store_parts(uint8_t *to, struct four x, unsigned parts)
{
	store(to, x.a);
	if (parts > 1)
		store(to + WIDTH, x.b);
	if (parts > 2) {
		store(to + 2 * WIDTH, x.c);
		store(to + 3 * WIDTH, x.d);
	}
}

TWI_INLINE void stream_parts(uint8_t *to, struct four x, unsigned parts)
{
	TWI_VECTOR_STREAM(to, x.a);
	if (parts > 1)
		TWI_VECTOR_STREAM(to + WIDTH, x.b);
	if (parts > 2) {
		TWI_VECTOR_STREAM(to + 2 * WIDTH, x.c);
		TWI_VECTOR_STREAM(to + 3 * WIDTH, x.d);
	}
}

TWI_INLINE struct four combine_parts(op_fn *op, struct four x, struct four y, unsigned parts)
{
	x.a = op(x.a, y.a);
	if (parts > 1)
		x.b = op(x.b, y.b);
	if (parts > 2) {
		x.c = op(x.c, y.c);
		x.d = op(x.d, y.d);
	}
	return x;
}

TWI_INLINE struct four divide_parts(divide_fn *divide, struct four x, uint32_t ranks)
{
	return (struct four){ divide(x.a, ranks), divide(x.b, ranks), divide(x.c, ranks),
			      divide(x.d, ranks) };
}

TWI_INLINE struct four pack_same(struct four x, unsigned parts)
{
	(void)parts;
	return x;
}

/* bf16: the even elements of a vector, then the odd ones. */
TWI_INLINE struct four unpack_bf16(const uint8_t *from, unsigned parts)
{
	vec v = load(from), w = parts > 2 ? load(from + WIDTH) : v;

	return (struct four){ v << 16, v & 0xffff0000u, w << 16, w & 0xffff0000u };
}

TWI_INLINE struct four pack_bf16(struct four x, unsigned parts)
{
	struct four y = { 0 };

	y.a = bf16_round(x.a) >> 16 | (bf16_round(x.b) & 0xffff0000u);
	if (parts > 2)
		y.b = bf16_round(x.c) >> 16 | (bf16_round(x.d) & 0xffff0000u);
	return y;
}

/* f16: the lower and the upper half of a vector. */
TWI_INLINE struct four unpack_f16(const uint8_t *from, unsigned parts)
{
	struct four x = { 0 };

	x.a = TWI_VECTOR_WIDEN_F16(from);
	x.b = TWI_VECTOR_WIDEN_F16(from + WIDTH / 2);
	if (parts > 2) {
		x.c = TWI_VECTOR_WIDEN_F16(from + WIDTH);
		x.d = TWI_VECTOR_WIDEN_F16(from + WIDTH + WIDTH / 2);
	}
	return x;
}

TWI_INLINE struct four pack_f16(struct four x, unsigned parts)
{
	struct four y = { 0 };

	y.a = TWI_VECTOR_NARROW_F16(x.a, x.b);
	if (parts > 2)
		y.b = TWI_VECTOR_NARROW_F16(x.c, x.d);
	return y;
}

/* f8: every fourth element of a vector, beginning with the first, the second, ... */
#define TWI_VECTOR_F8(name, format)                                                                \
	TWI_INLINE struct four unpack_##name(const uint8_t *from, unsigned parts)                  \
	{                                                                                          \
		vec v = load(from);                                                                \
                                                                                                   \
		(void)parts;                                                                       \
		return (struct four){ float_widen(v, format), float_widen(v >> 8, format),         \
				      float_widen(v >> 16, format),                                \
				      float_widen(v >> 24, format) };                              \
	}                                                                                          \
	TWI_INLINE struct four pack_##name(struct four x, unsigned parts)                          \
	{                                                                                          \
		struct four y = { 0 };                                                             \
                                                                                                   \
		(void)parts;                                                                       \
		y.a = float_narrow(x.a, format) | float_narrow(x.b, format) << 8 |                 \
		      float_narrow(x.c, format) << 16 | float_narrow(x.d, format) << 24;           \
		return y;                                                                          \
	}
TWI_VECTOR_F8(f8e4m3, TWI_F8E4M3_FORMAT)
TWI_VECTOR_F8(f8e5m2, TWI_F8E5M2_FORMAT)

TWI_INLINE vec divide_f32(vec value, uint32_t ranks)
{
	return (vec)((vec_f32)value / (float)ranks);
}

TWI_INLINE vec divide_f64(vec value, uint32_t ranks)
{
	return (vec)((vec_f64)value / (double)ranks);
}

/* What the kernels of a type have in common; a constant in each, so that all calls are inlined. */
struct kernel_kind {
	unsigned accumulators; /* for each vector of the source */
	unpack_fn *unpack;
	pack_fn *pack;
	divide_fn *divide;
};

TWI_INLINE void fetch_ahead(const struct kernel_span *s, uint64_t i, unsigned bytes)
{
	for (unsigned k = 0; k < s->sources_n; k++) {
		for (unsigned line = 0; line < bytes; line += 64)
			__builtin_prefetch(s->sources[k] + i + AHEAD_BYTES + line);
	}
}

/* One step at byte i, with `parts` vectors of accumulators. */
TWI_INLINE void step(const struct kernel_span *s, uint64_t i, struct kernel_kind kind, op_fn *op,
		     unsigned parts)
{
	unsigned vectors = parts / kind.accumulators, k = 0;
	uint8_t *tile = s->tile + i * kind.accumulators;
	struct four x;

	if (s->far)
		fetch_ahead(s, i, vectors * WIDTH);
	if (s->from_tile)
		x = load_parts(tile, parts);
	else
		x = kind.unpack(s->sources[k++] + i, parts);
	for (; k < s->sources_n; k++)
		x = combine_parts(op, x, kind.unpack(s->sources[k] + i, parts), parts);
	if (s->to_tile) {
		store_parts(tile, x, parts);
		return;
	}
	if (kind.divide != NULL && s->divides)
		x = divide_parts(kind.divide, x, s->ranks);
	x = kind.pack(x, parts);
	for (uint32_t m = 0; m < s->results_n; m++) {
		if (s->streams)
			stream_parts(s->results[m] + s->offset + i, x, vectors);
		else
			store_parts(s->results[m] + s->offset + i, x, vectors);
	}
}

TWI_INLINE void run(const struct kernel_span *s, struct kernel_kind kind, op_fn *op)
{
	const uint64_t whole = 4 * WIDTH / kind.accumulators;
	uint64_t i = 0;

	for (; i + whole <= s->bytes; i += whole)
		step(s, i, kind, op, 4);
	for (; i < s->bytes; i += WIDTH)
		step(s, i, kind, op, kind.accumulators);
}

#endif
