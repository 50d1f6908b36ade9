/*
 * reduce.h - element-wise reductions of several sources into several results, in one pass.
 *
 *	results[0] ... results[m-1]  <-  sources[0] (op) sources[1] (op) ... (op) sources[n-1]
 *
 * The order of the sources is the order of the operation: sources[0] is the first operand, and the
 * accumulator goes on from left to right. So the same sources in the same order give bitwise the
 * same result with every variant (plain C, AVX2, AVX-512, NEON). Alignment, and how the elements
 * are cut into calls, make no difference. Of a NaN only the fact that it is one is the same.
 * twi_reduce also overrides the caller's floating-point mode. towline/coll.h defines types and
 * operators; transport/coll/reduce/float_bits.h says how the narrow floats are rounded.
 *
 * f16, bf16 and f8 accumulate in f32 and are rounded to nearest even once, at the store.
 *
 * `stream` stores around the caches. It needs results that are all equally far from a multiple of
 * 64 bytes, with aligned elements. Otherwise, and with NEON, stores are ordinary. Measured with
 * AVX-512 on a Zen 5: f32 sums of two sources, against memcpy of as many bytes; ordinary ->
 * streamed:
 *	             one result     two results    the first source is the result
 *	64 MiB       0.92 -> 1.08   0.85 -> 1.23   0.96 -> 0.90
 *	16 MiB       0.93 -> 1.11   1.21 -> 1.27   0.67 -> 0.87
 *	 4 MiB       0.50 -> 1.10   0.91 -> 0.90   2.17 -> 0.24
 *	16 KiB       0.63 -> 0.30                  0.46 -> 0.11
 *
 * So it pays for new results that exceed the last cache together with the sources, if no thread
 * reads them soon. In place it does not: the line is in the cache already, and is evicted.
 *
 * A result may be one of the sources (the same address); otherwise they must not overlap. There is
 * at least one source and one result. With one source the operation is a copy (AVG: a division).
 *
 * Budget: no allocation, no system call; at most 8 KiB of stack.
 */
#ifndef TWI_REDUCE_H
#define TWI_REDUCE_H

#include <stdbool.h>
#include <stdint.h>

#include <towline/coll.h>

#define TWI_REDUCE_SOURCES_MAX 1024u

struct twi_reduction {
	enum tow_type type;
	enum tow_reduce reduce;
	uint32_t ranks;     /* AVG divides by this; 0: it does not divide (a partial sum) */
	uint32_t sources_n; /* up to TWI_REDUCE_SOURCES_MAX */
	uint32_t results_n;
	const void *const *sources;
	void *const *results;
	uint64_t count; /* elements */
	bool stream;    /* the results exceed the caches: stores go around them */
};

/* Whether the operator is defined for the type. */
bool twi_reduce_legal(enum tow_type type, enum tow_reduce reduce);

/* Reduces with the best variant of this machine. The operator must be legal for the type. */
void twi_reduce(const struct twi_reduction *reduction);

/*
 * Multiplies `count` elements of a float or complex type by the factor; `to` and `from` may be
 * equal. Narrow floats are widened to f32. All types but f64 and c128 take the factor as f32.
 */
void twi_reduce_scale(enum tow_type type, void *to, const void *from, uint64_t count,
		      double factor);
/* Whether twi_reduce_scale is defined for the type. */
bool twi_reduce_scales(enum tow_type type);

/* The variants of this build, best last. The first is the plain C reference. */
struct twi_reduce_variant {
	const char *name; /* "plain", "avx2", "avx512", "neon" */
	bool (*usable)(void);
	void (*reduce)(const struct twi_reduction *reduction);
};
extern const struct twi_reduce_variant *const twi_reduce_variants[];
extern const unsigned twi_reduce_variant_count;

/* The variant that twi_reduce uses. */
const struct twi_reduce_variant *twi_reduce_variant(void);

#endif
