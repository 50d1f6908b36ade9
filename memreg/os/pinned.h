/*
 * pinned.h - memory of this process that the kernel may not move: ours, and what others pinned.
 *
 * VmPin in /proc/self/status is the sum over the whole process, whoever pinned: io_uring, RDMA,
 * devices. /proc/self/fdinfo of an io_uring lists its registered buffers:
 *
 *	UserBufs:	2
 *	    0: 0x7f0790caa000/1048576        "address/length", or <none> for an empty slot
 *
 * Whose they are is told by their addresses: what lies in our regions is Towline's. A ring that has
 * taken over another's buffers (IORING_REGISTER_CLONE_BUFFERS) lists them though they are pinned
 * once, so the same bytes in two rings may count once or twice. The sum decides:
 *
 *	by_towline = total - bytes elsewhere, but at least our bytes counted once, at most each time
 *	by_others  = total - by_towline
 *
 * Where a kernel does not list addresses, our registered bytes are taken for by_towline.
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
	bool listed; /* the kernel lists its buffers; false: it was in use, or the kernel is old */
	uint64_t slots, buffers;
	uint64_t bytes;      /* of its buffers, in whole base pages */
	uint64_t here_bytes; /* of these: in our regions */
};

struct twi_pinned {
	bool known;      /* VmPin is there */
	uint64_t total;  /* VmPin */
	uint64_t locked; /* VmLck: by mlock, of the whole process */
	uint64_t by_towline, by_others;
	bool exact; /* every ring was listed; else our registered bytes were taken */
	uint32_t rings, rings_left_out;
	struct twi_pinned_ring ring[TWI_PINNED_RINGS];
};

/* What a parser of fdinfo is told of one buffer. */
typedef void twi_pinned_visit(void *arg, uint64_t address, uint64_t bytes);

/*
 * Reads one ring's fdinfo: `listed`, `slots` and `buffers` of ring_out; visits each buffer. False
 * when the text has no UserBufs, or fewer buffers than these.
 */
bool twi_pinned_parse(const char *fdinfo, struct twi_pinned_ring *ring_out, twi_pinned_visit *visit,
		      void *arg);

/* The rule above. once, each: bytes of ours; elsewhere: of others' buffers. */
uint64_t twi_pinned_ours(uint64_t total, uint64_t once, uint64_t each, uint64_t elsewhere);

/*
 * Looks. `span`: our regions, none of which overlap; span_bytes_out, unless NULL, gets how much of
 * each is registered with some ring (counted once). `registered` is for kernels that list nothing.
 */
void twi_pinned_read(const struct twi_address_range *span, size_t spans, uint64_t registered,
		     struct twi_pinned *out, uint64_t *span_bytes_out);

#endif
