/*
 * reach.h - whether this process can read, or write, a piece of the program's memory.
 *
 * When the kernel moves payload, it returns EFAULT for memory that is unmapped, protected, or
 * beyond the end of its file. When the library reads or writes payload itself, the same memory
 * would end the process. So before it encrypts, computes a checksum or copies into its staging, the
 * library asks here. If another thread unmaps the memory between the question and the access, the
 * process still ends.
 *
 * Budget: one system call of 0.3 us, and 16 ns for each page, which it faults in. There are more
 * system calls only where the kernel refuses that one.
 */
#ifndef TWI_REACH_H
#define TWI_REACH_H

#include <stdbool.h>
#include <stdint.h>

/* How many of `bytes` from `at` on can be read (write: written). */
uint64_t twi_reach(const void *at, uint64_t bytes, bool write);

/*
 * The same for the first and the last page only, where a check of all pages would cost a good part
 * of the work on the memory. It relies on this: bad memory is unmapped or protected as a whole, or
 * its file has become shorter.
 */
uint64_t twi_reach_ends(const void *at, uint64_t bytes, bool write);

/* Payload of message seq that was found good, for code that moves it in small pieces. */
struct twi_access_checked {
	uint64_t seq;
	uintptr_t from, to;
};

/*
 * Whether `bytes` at `at`, of a message whose memory ends at `end`, can be read or written. It asks
 * once for each MiB. The pieces of a message must come in order.
 */
bool twi_access_check(struct twi_access_checked *known, uint64_t seq, const void *at,
		      uint64_t bytes, const void *end, bool write);

/*
 * Whether the range is readable memory without a file: no load from it can end the process. maps:
 * what twi_reach_maps returned, which may be -1: the caller closes it. The kernel is asked
 * for the mappings (0.5 us, at any size), not for the pages. False also where it cannot say so,
 * which is before Linux 6.11 and without /proc.
 */
int twi_reach_maps(void);
bool twi_reach_plain(int maps, const void *at, uint64_t bytes);

#endif
