/*
 * explore_memory.h - what the memory of explored threads holds: of each atomic location the stores
 * that a load may still return, and who may have raced for the plain ones. See explore.h.
 *
 * A thread's clock says how much of each thread happens before what it does next. A store that
 * releases carries the clock of its thread, and a load that acquires joins it to its own. A load
 * may return the last store, and any older one that nothing hides: that is, no newer one was
 * stored or read by what happens before the load, or before a seq_cst fence that comes earlier than
 * one of its own thread. So there are two clocks: `before` orders plain accesses, `floor` hides
 * stores, and seq_cst fences move the second one alone.
 */
#ifndef TWT_EXPLORE_MEMORY_H
#define TWT_EXPLORE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The orders as the compiler numbers them for the functions of ThreadSanitizer. */
enum twt_order {
	TWT_RELAXED,
	TWT_CONSUME,
	TWT_ACQUIRE,
	TWT_RELEASE,
	TWT_ACQ_REL,
	TWT_SEQ_CST,
};

/* How an update makes the next value. */
enum twt_update { TWT_EXCHANGE, TWT_ADD, TWT_SUB, TWT_AND, TWT_OR, TWT_XOR, TWT_NAND };

/* A place in memory, accessed by a thread at a place in the code. */
struct twt_place {
	unsigned thread;
	uintptr_t address;
	unsigned bytes;
	const void *code;
};

/* Everything is forgotten; the memory is as it is. */
void twt_memory_begin(unsigned threads);

uint64_t twt_memory_load(const struct twt_place *place, enum twt_order order);
void twt_memory_store(const struct twt_place *place, enum twt_order order, uint64_t value);
/* Returns the value before. */
uint64_t twt_memory_update(const struct twt_place *place, enum twt_order order,
			   enum twt_update update, uint64_t operand);
/* True: it was `*expected`, and is `value`. Else *expected is what it was. */
bool twt_memory_compare(const struct twt_place *place, enum twt_order order, enum twt_order failing,
			uint64_t *expected, uint64_t value);
void twt_memory_fence(unsigned thread, enum twt_order order);
/* Every thread passes a seq_cst fence where it stands: what membarrier(2) does. */
void twt_memory_fence_all(void);

/* A plain access, of any size. */
void twt_memory_plain(const struct twt_place *place, bool write);

/* By explore.c: which of `options` stores a load returns; 0 is the last one. */
unsigned twt_explore_choose_store(unsigned options);

#endif
