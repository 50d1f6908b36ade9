/*
 * pinned.h - memory of this process that the kernel may not move, and the share of this runtime.
 *
 * VmPin in /proc/self/status is the sum over the whole process: io_uring, RDMA, devices.
 * /proc/self/fdinfo of an io_uring lists its registered buffers:
 *
 *	UserBufs:	2
 *	    0: 0x7f0790caa000/1048576        "address/length", or <none> for an empty slot
 *
 * A buffer is Towline's if it lies in our regions. A ring can take over another ring's buffers
 * (IORING_REGISTER_CLONE_BUFFERS). Both rings then list them, though they are pinned once. So bytes
 * in two rings may count once or twice. The sum decides:
 *
 *	by_towline = total - bytes elsewhere, but at least our bytes counted once, at most each time
 *	by_others  = total - by_towline
 *
 * Where a kernel lists no addresses, by_towline is the bytes that we have registered.
 */
#ifndef TWI_PINNED_H
#define TWI_PINNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memreg/os/procfs.h"

#define TWI_PINNED_RINGS 64

struct twi_pinned_ring {
	int fd;
	bool listed; /* the kernel lists its buffers; false: the ring is in use, or an old kernel */
	uint64_t slots, buffers;
	uint64_t bytes;      /* size of its buffers, in whole base pages */
	uint64_t here_bytes; /* the part of them in our regions */
};

struct twi_pinned {
	bool known;      /* the kernel reports VmPin */
	uint64_t total;  /* VmPin */
	uint64_t locked; /* VmLck: locked by mlock, in the whole process */
	uint64_t by_towline, by_others;
	bool exact; /* every ring was listed; else by_towline is what we have registered */
	uint32_t rings, rings_left_out;
	struct twi_pinned_ring ring[TWI_PINNED_RINGS];
};

/* The parser of fdinfo calls it for each buffer. */
typedef void twi_pinned_visit(void *arg, uint64_t address, uint64_t bytes);

/*
 * Parses one ring's fdinfo to `listed`, `slots` and `buffers` of ring_out, and visits each buffer.
 * False: the text has no UserBufs, or fewer lines than slots.
 */
bool twi_pinned_parse(const char *fdinfo, struct twi_pinned_ring *ring_out, twi_pinned_visit *visit,
		      void *arg);

/* Applies the rule above. once, each: our registered bytes; elsewhere: bytes of other buffers. */
uint64_t twi_pinned_ours(uint64_t total, uint64_t once, uint64_t each, uint64_t elsewhere);

/*
 * Reads the kernel's figures. `span` are our regions, which do not overlap. span_bytes_out, unless
 * NULL, gets the registered bytes of each region, counted once. `registered` is used where the
 * kernel lists no buffers.
 */
void twi_pinned_read(const struct twi_address_range *span, size_t spans, uint64_t registered,
		     struct twi_pinned *out, uint64_t *span_bytes_out);

#endif
