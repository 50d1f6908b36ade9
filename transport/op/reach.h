/*
 * reach.h - whether this process can read, or write, a piece of the program's memory.
 *
 * Where the kernel moves payload it says EFAULT of memory that is unmapped, protected, or beyond
 * the end of its file. Where the library reads or writes payload itself (it encrypts, it makes a
 * checksum, it copies into its staging) the same memory would end the process; so it asks here
 * before. What another thread unmaps between the question and the access still ends it.
 *
 * Budget: one system call, 0.3 us and 16 ns for each page, which it faults in; only where bad
 * memory is met more of them.
 */
#ifndef TWI_REACH_H
#define TWI_REACH_H

#include <stdbool.h>
#include <stdint.h>

/* How many of `bytes` from `at` on can be read (write: written). */
uint64_t twi_reach(const void *at, uint64_t bytes, bool write);

/*
 * The same of the first and the last page alone, where all of them would cost a good part of what
 * is done with the memory: it is unmapped or protected as a whole, or its file has become shorter.
 */
uint64_t twi_reach_ends(const void *at, uint64_t bytes, bool write);

/* Payload of message seq that was found good, for who moves it in small pieces. */
struct twi_reached {
	uint64_t seq;
	uintptr_t from, to;
};

/*
 * Whether `bytes` at `at`, of a message whose memory ends at `end`, can be read or written. Asks
 * once for each MiB; the pieces of a message come in order.
 */
bool twi_reached(struct twi_reached *known, uint64_t seq, const void *at, uint64_t bytes,
		 const void *end, bool write);

#endif
