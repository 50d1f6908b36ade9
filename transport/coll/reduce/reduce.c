/*
 * reduce.c - selects the variant that reduces, and sets the floating-point mode.
 */
#include "transport/coll/reduce/reduce.h"

#include <stdatomic.h>

#include "internal/base.h"
#include "transport/coll/reduce/reduce_parts.h"

#define FEW 8 /* elements, up to which a loop is faster */

const struct twi_reduce_variant *const twi_reduce_variants[] = {
	&twi_reduce_plain,
#if defined(__x86_64__)
	&twi_reduce_avx2,
	&twi_reduce_avx512,
#elif defined(__aarch64__)
	&twi_reduce_neon,
#endif
};

const unsigned twi_reduce_variant_count = twi_array_count(twi_reduce_variants);

const struct twi_reduce_variant *twi_reduce_variant(void)
{
	static const struct twi_reduce_variant *_Atomic known;
	const struct twi_reduce_variant *best = atomic_load_explicit(&known, memory_order_relaxed);

	if (twi_likely(best != NULL))
		return best;
	for (unsigned i = 0; i < twi_reduce_variant_count; i++) {
		if (twi_reduce_variants[i]->usable())
			best = twi_reduce_variants[i];
	}
	/* all threads find the same variant */
	atomic_store_explicit(&known, best, memory_order_relaxed);
	return best;
}

/*
 * A machine-learning runtime may have its threads flush subnormals to zero; the engine's thread
 * does not. Any of these threads may run a reduction. So each reduction sets the mode that the C
 * library starts with.
 */
#if defined(__x86_64__)
#define MODE_BITS 0xffc0u /* all bits but the exception flags */
#define MODE      0x1f80u

static uint32_t get_mode(void)
{
	return __builtin_ia32_stmxcsr();
}

static void set_mode(uint32_t mode)
{
	__builtin_ia32_ldmxcsr(mode);
}
#elif defined(__aarch64__)
#define MODE_BITS 0xffffffffu
#define MODE      0u

static uint32_t get_mode(void)
{
	uint64_t mode;

	__asm__ volatile("mrs %0, fpcr" : "=r"(mode));
	return (uint32_t)mode;
}

static void set_mode(uint32_t mode)
{
	__asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode) : "memory");
}
#else
#error "how is the floating-point mode of this machine read and set?"
#endif

typedef float f32_at __attribute__((aligned(1), may_alias));
typedef double f64_at __attribute__((aligned(1), may_alias));
typedef uint32_t u32_at __attribute__((aligned(1), may_alias));
typedef uint64_t u64_at __attribute__((aligned(1), may_alias));

#define SUM(name)                                                                                  \
	static void sum_##name(const struct twi_reduction *r)                                      \
	{                                                                                          \
		name##_at *result = r->results[0];                                                 \
                                                                                                   \
		for (uint64_t i = 0; i < r->count; i++) {                                          \
			name##_at sum = ((const name##_at *)r->sources[0])[i];                     \
                                                                                                   \
			for (uint32_t s = 1; s < r->sources_n; s++)                                \
				sum += ((const name##_at *)r->sources[s])[i];                      \
			result[i] = sum;                                                           \
		}                                                                                  \
	}
SUM(f32)
SUM(f64)
SUM(u32)
SUM(u64)

/* Sums of a few numbers: a loss, a count, a flag of each rank. The variants' tables take longer. */
static bool reduce_few(const struct twi_reduction *r)
{
	if (r->count > FEW || r->reduce != TOW_SUM || r->results_n != 1 || r->sources_n < 2)
		return false;
	switch (r->type) {
	case TOW_F32:
		sum_f32(r);
		return true;
	case TOW_F64:
		sum_f64(r);
		return true;
	case TOW_S32:
	case TOW_U32:
		sum_u32(r);
		return true;
	case TOW_S64:
	case TOW_U64:
		sum_u64(r);
		return true;
	default:
		return false;
	}
}

void twi_reduce_scale(enum tow_type type, void *to, const void *from, uint64_t count, double factor)
{
	uint32_t mode = get_mode();

	if (twi_unlikely((mode & MODE_BITS) != MODE))
		set_mode(MODE);
	twi_reduce_scale_part(type, to, from, count, factor);
	if (twi_unlikely((mode & MODE_BITS) != MODE))
		set_mode(mode);
}

void twi_reduce(const struct twi_reduction *reduction)
{
	uint32_t mode = get_mode();

	if (twi_unlikely((mode & MODE_BITS) != MODE))
		set_mode(MODE);
	if (!reduce_few(reduction))
		twi_reduce_variant()->reduce(reduction);
	if (twi_unlikely((mode & MODE_BITS) != MODE))
		set_mode(mode);
}
