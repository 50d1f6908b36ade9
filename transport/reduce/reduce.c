/*
 * reduce.c - which variant reduces, and in which floating-point mode.
 */
#include "transport/reduce/reduce.h"

#include <stdatomic.h>

#include "internal/base.h"
#include "transport/reduce/reduce_parts.h"

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
	atomic_store_explicit(&known, best, memory_order_relaxed); /* all threads find the same */
	return best;
}

/*
 * A runtime may have its threads flush subnormals to zero; the engine's thread does not. Which of
 * them comes to a reduction is chance, so each does it in the mode that the C library starts with.
 */
#if defined(__x86_64__)
#define MODE_BITS 0xffc0u /* all but the flags of what has happened */
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

void twi_reduce(const struct twi_reduction *reduction)
{
	uint32_t mode = get_mode();

	if (twi_unlikely((mode & MODE_BITS) != MODE))
		set_mode(MODE);
	twi_reduce_variant()->reduce(reduction);
	if (twi_unlikely((mode & MODE_BITS) != MODE))
		set_mode(mode);
}
