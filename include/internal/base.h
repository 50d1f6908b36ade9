/*
 * base.h - the handful of primitives that every layer uses. libc only.
 */
#ifndef TWI_BASE_H
#define TWI_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOW_PUBLIC __attribute__((visibility("default")))

#define twi_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define twi_array_count(a)                  (sizeof(a) / sizeof((a)[0]))
#define twi_likely(x)                       __builtin_expect(!!(x), 1)
#define twi_unlikely(x)                     __builtin_expect(!!(x), 0)

/* Of two numbers, each evaluated once; __COUNTER__ names what a nested one must not hide. */
#define twi_min(a, b)         twi_pick(<, a, b, __COUNTER__)
#define twi_max(a, b)         twi_pick(>, a, b, __COUNTER__)
#define twi_pick(op, a, b, n) twi_pick_named(op, a, b, n)
#define twi_pick_named(op, a, b, n)                                                                \
	__extension__({                                                                            \
		__typeof__(1 ? (a) : (b)) twi_a##n = (a), twi_b##n = (b);                          \
		twi_a##n op twi_b##n ? twi_a##n : twi_b##n;                                        \
	})

/* Our own mistakes end the process at once, in release builds too: going on would corrupt data. */
#define twi_assert(cond)                                                                           \
	do {                                                                                       \
		if (twi_unlikely(!(cond)))                                                         \
			__builtin_trap();                                                          \
	} while (0)

/* On the data path: only in builds with TWI_DEBUG, as sanitized ones are (meson.build). */
#ifdef TWI_DEBUG
#define twi_assert_hot(cond) twi_assert(cond)
#else
#define twi_assert_hot(cond) ((void)sizeof(cond))
#endif

/* `align` is a power of two. */
static inline uint64_t twi_align_up(uint64_t value, uint64_t align)
{
	return (value + align - 1) & ~(align - 1);
}

static inline bool twi_is_power_of_two(uint64_t value)
{
	return value != 0 && (value & (value - 1)) == 0;
}

/* Little-endian words of 1 to 8 bytes at any alignment. Where each must be one move: frame.h. */
static inline void twi_put_le(uint8_t *out, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		out[i] = (uint8_t)(value >> 8 * i);
}

static inline uint64_t twi_get_le(const uint8_t *in, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)in[i] << 8 * i;
	return value;
}

#endif
