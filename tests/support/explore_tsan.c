/*
 * explore_tsan.c - what code compiled with -fsanitize=thread calls, in place of ThreadSanitizer's
 * runtime. See explore.h. The names and their arguments are those of compiler-rt's
 * sanitizer/tsan_interface_atomic.h, and of what gcc and clang emit.
 */
#include "explore.h"
#include "explore_memory.h"
#include "explore_threads.h"

#define CODE __builtin_return_address(0)

static struct twt_place place_of(const volatile void *address, unsigned bytes, const void *code)
{
	return (struct twt_place){ .thread = twt_explore_self(),
				   .address = (uintptr_t)address,
				   .bytes = bytes,
				   .code = code };
}

static void plain(const volatile void *address, unsigned bytes, bool write, const void *code)
{
	struct twt_place place;

	if (!twt_explore_inside() || twt_explore_owns((uintptr_t)address))
		return;
	place = place_of(address, bytes, code);
	twt_memory_plain(&place, write);
}

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *code);
void __tsan_func_entry(void *code)
{
	(void)code;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

#define PLAIN(name, bytes, write)                                                                  \
	void __tsan_##name(void *address);                                                         \
	void __tsan_##name(void *address)                                                          \
	{                                                                                          \
		plain(address, bytes, write, CODE);                                                \
	}

#define PLAIN_SIZES(prefix)                                                                        \
	PLAIN(prefix##read1, 1, false)                                                             \
	PLAIN(prefix##read2, 2, false)                                                             \
	PLAIN(prefix##read4, 4, false)                                                             \
	PLAIN(prefix##read8, 8, false)                                                             \
	PLAIN(prefix##read16, 16, false)                                                           \
	PLAIN(prefix##write1, 1, true)                                                             \
	PLAIN(prefix##write2, 2, true)                                                             \
	PLAIN(prefix##write4, 4, true)                                                             \
	PLAIN(prefix##write8, 8, true)                                                             \
	PLAIN(prefix##write16, 16, true)

PLAIN_SIZES()
PLAIN_SIZES(unaligned_)
PLAIN_SIZES(volatile_)
PLAIN_SIZES(unaligned_volatile_)

void __tsan_read_range(void *address, unsigned long bytes);
void __tsan_read_range(void *address, unsigned long bytes)
{
	plain(address, (unsigned)bytes, false, CODE);
}

void __tsan_write_range(void *address, unsigned long bytes);
void __tsan_write_range(void *address, unsigned long bytes)
{
	plain(address, (unsigned)bytes, true, CODE);
}

static uint64_t load(const volatile void *address, unsigned bytes, int order, const void *code)
{
	struct twt_place place = place_of(address, bytes, code);
	uint64_t value;

	twt_explore_access("loads", place.address, false, code);
	value = twt_memory_load(&place, (enum twt_order)order);
	twt_explore_note(value);
	return value;
}

static void store(volatile void *address, unsigned bytes, uint64_t value, int order,
		  const void *code)
{
	struct twt_place place = place_of(address, bytes, code);

	twt_explore_access("stores", place.address, true, code);
	twt_memory_store(&place, (enum twt_order)order, value);
	twt_explore_note(value);
	twt_explore_stored();
}

static uint64_t update(volatile void *address, unsigned bytes, uint64_t operand, int order,
		       enum twt_update how, const void *code)
{
	struct twt_place place = place_of(address, bytes, code);
	uint64_t value;

	twt_explore_access("updates", place.address, true, code);
	value = twt_memory_update(&place, (enum twt_order)order, how, operand);
	twt_explore_note(value);
	twt_explore_stored();
	return value;
}

static bool compare(volatile void *address, unsigned bytes, uint64_t *expected, uint64_t value,
		    int order, int failing, const void *code)
{
	struct twt_place place = place_of(address, bytes, code);
	bool done;

	twt_explore_access("compares", place.address, true, code);
	done = twt_memory_compare(&place, (enum twt_order)order, (enum twt_order)failing, expected,
				  value);
	twt_explore_note(done ? value : *expected);
	if (done)
		twt_explore_stored();
	return done;
}

#define UPDATE(bits, name, builtin, how)                                                           \
	uint##bits##_t __tsan_atomic##bits##_##name(volatile void *address, uint##bits##_t value,  \
						    int order);                                    \
	uint##bits##_t __tsan_atomic##bits##_##name(volatile void *address, uint##bits##_t value,  \
						    int order)                                     \
	{                                                                                          \
		if (!twt_explore_inside())                                                         \
			return builtin((volatile uint##bits##_t *)address, value,                  \
				       __ATOMIC_SEQ_CST);                                          \
		return (uint##bits##_t)update(address, bits / 8, value, order, how, CODE);         \
	}

#define COMPARE(bits, name)                                                                        \
	int __tsan_atomic##bits##_compare_exchange_##name(volatile void *address, void *expected,  \
							  uint##bits##_t value, int order,         \
							  int failing);                            \
	int __tsan_atomic##bits##_compare_exchange_##name(volatile void *address, void *expected,  \
							  uint##bits##_t value, int order,         \
							  int failing)                             \
	{                                                                                          \
		uint##bits##_t *was = expected;                                                    \
		uint64_t wide = *was;                                                              \
		bool done;                                                                         \
                                                                                                   \
		if (!twt_explore_inside())                                                         \
			return __atomic_compare_exchange_n((volatile uint##bits##_t *)address,     \
							   was, value, false, __ATOMIC_SEQ_CST,    \
							   __ATOMIC_SEQ_CST);                      \
		done = compare(address, bits / 8, &wide, value, order, failing, CODE);             \
		*was = (uint##bits##_t)wide;                                                       \
		return done;                                                                       \
	}

#define ATOMIC(bits)                                                                               \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile void *address, int order);        \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile void *address, int order)         \
	{                                                                                          \
		if (!twt_explore_inside())                                                         \
			return *(const volatile uint##bits##_t *)address;                          \
		return (uint##bits##_t)load(address, bits / 8, order, CODE);                       \
	}                                                                                          \
	void __tsan_atomic##bits##_store(volatile void *address, uint##bits##_t value, int order); \
	void __tsan_atomic##bits##_store(volatile void *address, uint##bits##_t value, int order)  \
	{                                                                                          \
		if (!twt_explore_inside())                                                         \
			*(volatile uint##bits##_t *)address = value;                               \
		else                                                                               \
			store(address, bits / 8, value, order, CODE);                              \
	}                                                                                          \
	UPDATE(bits, exchange, __atomic_exchange_n, TWT_EXCHANGE)                                  \
	UPDATE(bits, fetch_add, __atomic_fetch_add, TWT_ADD)                                       \
	UPDATE(bits, fetch_sub, __atomic_fetch_sub, TWT_SUB)                                       \
	UPDATE(bits, fetch_and, __atomic_fetch_and, TWT_AND)                                       \
	UPDATE(bits, fetch_or, __atomic_fetch_or, TWT_OR)                                          \
	UPDATE(bits, fetch_xor, __atomic_fetch_xor, TWT_XOR)                                       \
	UPDATE(bits, fetch_nand, __atomic_fetch_nand, TWT_NAND)                                    \
	COMPARE(bits, strong)                                                                      \
	COMPARE(bits, weak)

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

/* clang calls this one, and takes what was there for what was expected. */
#define COMPARE_VALUE(bits)                                                                        \
	uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                 \
		volatile void *address, uint##bits##_t expected, uint##bits##_t value, int order,  \
		int failing);                                                                      \
	uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                 \
		volatile void *address, uint##bits##_t expected, uint##bits##_t value, int order,  \
		int failing)                                                                       \
	{                                                                                          \
		(void)__tsan_atomic##bits##_compare_exchange_strong(address, &expected, value,     \
								    order, failing);               \
		return expected;                                                                   \
	}

COMPARE_VALUE(8)
COMPARE_VALUE(16)
COMPARE_VALUE(32)
COMPARE_VALUE(64)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	if (!twt_explore_inside())
		return;
	twt_explore_point("fence", 0, CODE);
	twt_memory_fence(twt_explore_self(), (enum twt_order)order);
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
	(void)order; /* the compiler's alone */
}
