/*
 * reduce_variant.h - makes a variant of its kernels: the table of all types and operators, and the
 * cutting of a reduction into spans. Each variant includes it once, after the definitions that
 * reduce_vectors.h needs.
 */
#ifndef TWI_REDUCE_VARIANT_H
#define TWI_REDUCE_VARIANT_H

#include <stdalign.h>

#include "internal/base.h"
#include "transport/coll/reduce/reduce_kernels.h"

/* If at least this much is read and written in total, sources count as being in no cache. */
#define FAR_BYTES (8u << 20)

typedef void kernel_fn(const struct kernel_span *s);

#define SAME 1, load_parts, pack_same
#define KERNEL(kind_of, op, ...)                                                                   \
	static inline void kind_of##_kernel_##op(const struct kernel_span *s)                      \
	{                                                                                          \
		run(s, (struct kernel_kind){ __VA_ARGS__ }, op);                                   \
	}
#define FLOATS(name, of, ...)                                                                      \
	KERNEL(name, of##_sum, __VA_ARGS__, divide_##of)                                           \
	KERNEL(name, of##_prod, __VA_ARGS__, NULL)                                                 \
	KERNEL(name, of##_min, __VA_ARGS__, NULL)                                                  \
	KERNEL(name, of##_max, __VA_ARGS__, NULL)
#define ORDERED(name)                                                                              \
	KERNEL(name, name##_min, SAME, NULL)                                                       \
	KERNEL(name, name##_max, SAME, NULL)
#define WRAPPING(name)                                                                             \
	KERNEL(name, name##_sum, SAME, NULL)                                                       \
	KERNEL(name, name##_prod, SAME, NULL)

FLOATS(f32, f32, SAME)
FLOATS(f64, f64, SAME)
FLOATS(f16, f32, 2, unpack_f16, pack_f16)
FLOATS(bf16, f32, 2, unpack_bf16, pack_bf16)
FLOATS(f8e4m3, f32, 4, unpack_f8e4m3, pack_f8e4m3)
FLOATS(f8e5m2, f32, 4, unpack_f8e5m2, pack_f8e5m2)
WRAPPING(u8)
WRAPPING(u16)
WRAPPING(u32)
WRAPPING(u64)
ORDERED(s8)
ORDERED(s16)
ORDERED(s32)
ORDERED(s64)
ORDERED(u8)
ORDERED(u16)
ORDERED(u32)
ORDERED(u64)
KERNEL(c64, c64_prod, SAME, NULL)
KERNEL(c128, c128_prod, SAME, NULL)
KERNEL(any, bits_and, SAME, NULL)
KERNEL(any, bits_or, SAME, NULL)
KERNEL(any, bits_xor, SAME, NULL)

#define OF(name, op) name##_kernel_##op
#define OF_FLOATS(name, of)                                                                        \
	OF(name, of##_sum), OF(name, of##_prod), OF(name, of##_min), OF(name, of##_max),           \
		OF(name, of##_sum)
#define OF_COMPLEX(name, of) OF(of, of##_sum), OF(name, name##_prod), NULL, NULL, OF(of, of##_sum)
#define OF_BITS              any_kernel_bits_and, any_kernel_bits_or, any_kernel_bits_xor
#define OF_INTEGERS(name, u)                                                                       \
	OF(u, u##_sum), OF(u, u##_prod), OF(name, name##_min), OF(name, name##_max),               \
		OF(u, u##_sum), OF_BITS

struct kernel_type {
	unsigned bytes, accumulators;
	kernel_fn *kernels[TOW_REDUCE_COUNT];
};

static const struct kernel_type kernel_types[TOW_TYPE_COUNT] = {
	[TOW_F32] = { 4, 1, { OF_FLOATS(f32, f32) } },
	[TOW_F64] = { 8, 1, { OF_FLOATS(f64, f64) } },
	[TOW_F16] = { 2, 2, { OF_FLOATS(f16, f32) } },
	[TOW_BF16] = { 2, 2, { OF_FLOATS(bf16, f32) } },
	[TOW_F8E4M3] = { 1, 4, { OF_FLOATS(f8e4m3, f32) } },
	[TOW_F8E5M2] = { 1, 4, { OF_FLOATS(f8e5m2, f32) } },
	[TOW_S8] = { 1, 1, { OF_INTEGERS(s8, u8) } },
	[TOW_S16] = { 2, 1, { OF_INTEGERS(s16, u16) } },
	[TOW_S32] = { 4, 1, { OF_INTEGERS(s32, u32) } },
	[TOW_S64] = { 8, 1, { OF_INTEGERS(s64, u64) } },
	[TOW_U8] = { 1, 1, { OF_INTEGERS(u8, u8) } },
	[TOW_U16] = { 2, 1, { OF_INTEGERS(u16, u16) } },
	[TOW_U32] = { 4, 1, { OF_INTEGERS(u32, u32) } },
	[TOW_U64] = { 8, 1, { OF_INTEGERS(u64, u64) } },
	[TOW_BOOL] = { 1,
		       1,
		       { any_kernel_bits_or, any_kernel_bits_and, any_kernel_bits_and,
			 any_kernel_bits_or, NULL, OF_BITS } },
	[TOW_C64] = { 8, 1, { OF_COMPLEX(c64, f32) } },
	[TOW_C128] = { 16, 1, { OF_COMPLEX(c128, f64) } },
};

/* How the elements of a reduction go through the kernels. */
struct kernel_job {
	const struct twi_reduction *r;
	const struct kernel_type *type;
	kernel_fn *kernel;
	bool divides_tile;       /* integers: division in the tile */
	struct kernel_span span; /* what all spans have in common */
};

/* Takes sources from `s` on, at byte `offset`, as many as a span takes. Returns how many. */
static inline unsigned take_sources(struct kernel_span *span, const struct twi_reduction *r,
				    uint32_t s, uint64_t offset)
{
	unsigned n = (unsigned)twi_min(r->sources_n - s, GROUP);

	for (unsigned k = 0; k < n; k++)
		span->sources[k] = (const uint8_t *)r->sources[s + k] + offset;
	span->sources_n = n;
	span->offset = offset;
	return n;
}

/* Reduces all sources in one span. */
static inline void reduce_through(const struct kernel_job *job, uint64_t offset, uint64_t bytes)
{
	struct kernel_span span = job->span;

	take_sources(&span, job->r, 0, offset);
	span.bytes = bytes;
	job->kernel(&span);
}

/* Reduces the sources in groups, with a tile of accumulators in between. */
static inline void reduce_tile(const struct kernel_job *job, uint64_t offset, uint64_t bytes,
			       uint8_t *tile)
{
	struct kernel_span span = job->span;

	span.tile = tile;
	span.bytes = bytes;
	for (uint32_t s = 0; s < job->r->sources_n;) {
		span.from_tile = s != 0;
		s += take_sources(&span, job->r, s, offset);
		span.to_tile = s < job->r->sources_n || job->divides_tile;
		job->kernel(&span);
	}
	if (!job->divides_tile)
		return;
	twi_reduce_divide(job->r->type, tile, (unsigned)(bytes / job->type->bytes), job->r->ranks);
	span.from_tile = true;
	span.to_tile = false;
	span.sources_n = 0;
	any_kernel_bits_or(&span);
}

static inline void reduce_vectors(const struct twi_reduction *r, uint64_t first, uint64_t count,
				  bool streams)
{
	const struct kernel_type *type = &kernel_types[r->type];
	bool divides = r->reduce == TOW_AVG && r->ranks != 0;
	bool copies = r->sources_n == 1 && !divides;
	struct kernel_job job = { .r = r, .type = type };
	uint64_t offset = first * type->bytes, bytes = count * type->bytes;
	alignas(64) uint8_t tile[TILE_BYTES];

	job.kernel = copies ? any_kernel_bits_or : type->kernels[r->reduce];
	job.divides_tile = divides && r->type >= TOW_S8 && r->type <= TOW_U64;
	job.span.streams = streams;
	job.span.divides = divides;
	job.span.far = r->stream || bytes * (r->sources_n + (uint64_t)r->results_n) >= FAR_BYTES;
	job.span.ranks = r->ranks;
	job.span.results_n = r->results_n;
	job.span.results = (uint8_t *const *)r->results;
	job.span.tile = tile;
	if (r->sources_n <= GROUP && !job.divides_tile) {
		reduce_through(&job, offset, bytes);
		return;
	}
	while (bytes != 0) {
		uint64_t n = twi_min(bytes, TILE_BYTES / type->accumulators);

		reduce_tile(&job, offset, n, tile);
		offset += n;
		bytes -= n;
	}
}

/* Elements up to where all results are aligned for streaming stores. UINT64_MAX: they never are. */
static inline uint64_t until_aligned(const struct twi_reduction *r, unsigned bytes)
{
	uint64_t head = -(uintptr_t)r->results[0] & 63;

	for (uint32_t m = 1; m < r->results_n; m++) {
		if ((-(uintptr_t)r->results[m] & 63) != head)
			return UINT64_MAX;
	}
	return head % bytes == 0 ? head / bytes : UINT64_MAX;
}

/* Returns true if it has streamed; then the caller must issue a fence. */
static inline bool reduce_all(const struct twi_reduction *r)
{
	unsigned bytes = kernel_types[r->type].bytes, unit = WIDTH / bytes;
	uint64_t head = TWI_VECTOR_STREAMS && r->stream ? until_aligned(r, bytes) : UINT64_MAX;
	bool streams = head < r->count;
	uint64_t main;

	head = streams ? head : 0;
	main = (r->count - head) / unit * unit;
	twi_reduce_plain_part(r, 0, head);
	if (main != 0)
		reduce_vectors(r, head, main, streams);
	twi_reduce_plain_part(r, head + main, r->count - head - main);
	return streams;
}

#endif
