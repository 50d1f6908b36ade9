/*
 * onlook.h - sees for itself what becomes of payload: by the tap of a loop NIC, and by looking at
 * each request on its way to the kernel. Include it in exactly one file of a program.
 */
#ifndef TWT_ONLOOK_H
#define TWT_ONLOOK_H

#include <dlfcn.h>
#include <liburing.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/op/op.h"

/* What has been seen since it was cleared. */
static struct seen {
	const uint8_t *out; /* the buffer that is sent; NULL: nobody looks */
	uint64_t bytes;
	uint64_t staged[2]; /* by send and by receive, bytes */
	uint64_t plain, zerocopy;
} seen;

static bool within(const void *p, const uint8_t *at, uint64_t bytes)
{
	return (uintptr_t)p - (uintptr_t)at < bytes;
}

static void tap(void *arg, const struct tow_op *op, const void *memory, size_t bytes)
{
	(void)arg;
	if (!within(memory, op->data, op->bytes))
		seen.staged[op->kind == TWI_OP_RECV] += bytes;
}

static void look_at(const struct io_uring_sqe *sqe)
{
	const struct msghdr *msg = (const struct msghdr *)(uintptr_t)sqe->addr;

	if (seen.out == NULL)
		return;
	if (sqe->opcode == IORING_OP_SEND_ZC &&
	    within((void *)(uintptr_t)sqe->addr, seen.out, seen.bytes))
		seen.zerocopy++;
	if (sqe->opcode != IORING_OP_SENDMSG)
		return;
	for (size_t i = 0; i < msg->msg_iovlen; i++)
		seen.plain += within(msg->msg_iov[i].iov_base, seen.out, seen.bytes);
}

static int pass_on(struct io_uring *ring, const char *name)
{
	union {
		void *found;
		int (*call)(struct io_uring *);
	} real = { dlsym(RTLD_NEXT, name) };

	for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++)
		look_at(&ring->sq.sqes[i & *ring->sq.kring_mask]);
	return real.call(ring);
}

int io_uring_submit(struct io_uring *ring)
{
	return pass_on(ring, "io_uring_submit");
}

int io_uring_submit_and_get_events(struct io_uring *ring)
{
	return pass_on(ring, "io_uring_submit_and_get_events");
}

#endif
