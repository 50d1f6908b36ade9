/*
 * ring.c - set-up, submission and reaping of one thread's io_uring. See ring.h.
 *
 * Features are tried, not looked up by version: set-up flags are dropped one group after the other
 * when the kernel refuses them, and multishot receive is tested on a socket pair.
 */
#include "transport/uring/ring.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "diag/counter.h"
#include "diag/diag.h"
#include "diag/error.h"
#include "memreg/extent.h"
#include "memreg/pool.h"
#include "transport/engine.h"

static int setup_error(int err)
{
	switch (err) {
	case ENOSYS:
	case EINVAL:
		return twi_error_errno(TOW_ENOTSUP, err, "this kernel has no usable io_uring");
	case EPERM:
	case EACCES:
		return twi_error_errno(
			TOW_EPERM, err,
			"io_uring is forbidden here; sysctl kernel.io_uring_disabled=0, "
			"or allow io_uring_setup in the container's seccomp profile");
	case ENOMEM:
		return twi_error_errno(TOW_ENOMEM, err,
				       "io_uring_setup; raise RLIMIT_MEMLOCK (ulimit -l)");
	default:
		return twi_error_errno(TOW_ESYSTEM, err, "io_uring_setup");
	}
}

static int setup(struct twi_ring *ring)
{
	static const unsigned tries[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		0,
	};
	int err = 0;

	for (unsigned i = 0; i < twi_array_count(tries); i++) {
		struct io_uring_params params = {
			.flags = tries[i] | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
			.cq_entries = TWI_RING_CQ_ENTRIES,
		};

		err = -io_uring_queue_init_params(TWI_RING_ENTRIES, &ring->uring, &params);
		if (err == 0) {
			ring->setup_flags = tries[i];
			ring->deferred = (tries[i] & IORING_SETUP_DEFER_TASKRUN) != 0;
			/* Best effort: it saves the look-up of the ring's file in each call. */
			io_uring_register_ring_fd(&ring->uring);
			return TOW_OK;
		}
		ring->uring.ring_fd = -1; /* liburing clears the structure: 0 is a descriptor */
		if (err != EINVAL)
			break;
	}
	return setup_error(err);
}

static void give_buffer(struct twi_ring *ring, unsigned id)
{
	io_uring_buf_ring_add(ring->buffers,
			      ring->buffer_memory + (size_t)id * TWI_RING_BUFFER_BYTES,
			      TWI_RING_BUFFER_BYTES, (unsigned short)id,
			      io_uring_buf_ring_mask(TWI_RING_BUFFERS), 0);
	io_uring_buf_ring_advance(ring->buffers, 1);
}

/* The buffers that multishot receives land in, and the ring that hands them to the kernel. */
static int setup_buffers(struct twi_ring *ring)
{
	size_t bytes = (size_t)TWI_RING_BUFFERS * TWI_RING_BUFFER_BYTES;
	size_t head = 4096;
	struct io_uring_buf_reg reg = {
		.ring_entries = TWI_RING_BUFFERS,
		.bgid = TWI_RING_BUFFER_GROUP,
	};
	uint8_t *memory = mmap(NULL, head + bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int err;

	if (memory == MAP_FAILED)
		return twi_error_errno(TOW_ENOMEM, errno, "receive buffers of %zu bytes", bytes);
	madvise(memory, head + bytes, MADV_DONTFORK);
	ring->buffers = (struct io_uring_buf_ring *)(void *)memory;
	ring->buffer_memory = memory + head;
	reg.ring_addr = (uint64_t)(uintptr_t)memory;
	err = -io_uring_register_buf_ring(&ring->uring, &reg, 0);
	if (err != 0)
		return twi_error_errno(TOW_ENOTSUP, err,
				       "this kernel's io_uring has no provided-buffer rings");
	io_uring_buf_ring_init(ring->buffers);
	for (unsigned i = 0; i < TWI_RING_BUFFERS; i++)
		give_buffer(ring, i);
	return TOW_OK;
}

static void probe_opcodes(struct twi_ring *ring)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(&ring->uring);

	ring->zerocopy = probe != NULL && io_uring_opcode_supported(probe, IORING_OP_SEND_ZC);
	io_uring_free_probe(probe);
}

int twi_ring_probe(struct twi_ring *ring)
{
	struct io_uring_cqe *cqe = NULL;
	struct io_uring_sqe *sqe;
	int pair[2], res = -EINVAL;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "socketpair");
	sqe = twi_ring_sqe(ring);
	io_uring_prep_recv_multishot(sqe, pair[0], NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = TWI_RING_BUFFER_GROUP;
	ring->unsubmitted = 0;
	if (send(pair[1], "", 1, MSG_NOSIGNAL) == 1 && shutdown(pair[1], SHUT_WR) == 0 &&
	    io_uring_submit_and_wait(&ring->uring, 1) >= 0 &&
	    io_uring_peek_cqe(&ring->uring, &cqe) == 0) {
		res = cqe->res;
		/* Both completions: the byte, and the end of the stream that ends the request. */
		while (io_uring_wait_cqe(&ring->uring, &cqe) == 0) {
			bool more = (cqe->flags & IORING_CQE_F_MORE) != 0;

			if ((cqe->flags & IORING_CQE_F_BUFFER) != 0)
				give_buffer(ring, cqe->flags >> IORING_CQE_BUFFER_SHIFT);
			io_uring_cqe_seen(&ring->uring, cqe);
			if (!more)
				break;
		}
	}
	close(pair[0]);
	close(pair[1]);
	if (res != 1)
		return twi_error_errno(TOW_ENOTSUP, -res,
				       "this kernel's io_uring has no multishot receive");
	return TOW_OK;
}

int twi_ring_create(struct twi_engine *engine, struct twi_ring **out)
{
	struct twi_ring *ring = calloc(1, sizeof(*ring));
	int status;

	if (ring == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a ring");
	ring->engine = engine;
	ring->mark = twi_thread_mark();
	ring->uring.ring_fd = -1;
	ring->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	status = ring->wake_fd < 0 ? twi_error_errno(TOW_ESYSTEM, errno, "eventfd") : setup(ring);
	if (status == TOW_OK)
		status = setup_buffers(ring);
	if (status == TOW_OK)
		status = twi_ring_probe(ring);
	if (status < 0) {
		twi_ring_destroy(ring);
		return status;
	}
	status = -io_uring_register_eventfd(&ring->uring, ring->wake_fd);
	if (status != 0) {
		status = twi_error_errno(TOW_ESYSTEM, status, "io_uring_register_eventfd");
		twi_ring_destroy(ring);
		return status;
	}
	io_uring_cq_eventfd_toggle(&ring->uring, false);
	probe_opcodes(ring);
	*out = ring;
	return TOW_OK;
}

void twi_ring_destroy(struct twi_ring *ring)
{
	if (ring->uring.ring_fd >= 0)
		io_uring_queue_exit(&ring->uring);
	if (ring->buffers != NULL)
		munmap(ring->buffers, 4096 + (size_t)TWI_RING_BUFFERS * TWI_RING_BUFFER_BYTES);
	if (ring->wake_fd >= 0)
		close(ring->wake_fd);
	free(ring);
}

struct io_uring_sqe *twi_ring_sqe(struct twi_ring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);

	if (twi_unlikely(sqe == NULL)) {
		twi_ring_submit(ring);
		sqe = io_uring_get_sqe(&ring->uring);
		if (sqe == NULL)
			return NULL;
	}
	ring->unsubmitted++;
	return sqe;
}

void twi_ring_submit(struct twi_ring *ring)
{
	if (ring->unsubmitted == 0)
		return;
	twi_count(ring->engine->diag, TWI_C_system_calls, 1);
	/* EBUSY and EAGAIN leave the requests in the queue: the next poll takes them along. A
	 * request that the kernel refuses at once ends a batch early: the rest goes after it. */
	while (io_uring_submit(&ring->uring) > 0 && io_uring_sq_ready(&ring->uring) > 0)
		;
	ring->unsubmitted = io_uring_sq_ready(&ring->uring);
}

unsigned twi_ring_reap(struct twi_ring *ring)
{
	struct twi_engine *engine = ring->engine;
	struct io_uring_cqe *cqe;
	unsigned head, count = 0;

	io_uring_for_each_cqe(&ring->uring, head, cqe)
	{
		uint64_t user_data = cqe->user_data;
		unsigned lane = (unsigned)(user_data >> 56);
		bool buffered = (cqe->flags & IORING_CQE_F_BUFFER) != 0;
		unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
		const uint8_t *data = NULL;

		if (buffered)
			data = ring->buffer_memory + (size_t)id * TWI_RING_BUFFER_BYTES;
		if (lane > 0 && lane <= TWI_LANE_COUNT && engine->lanes[lane - 1] != NULL)
			engine->lanes[lane - 1]->ops->completed(engine->lanes[lane - 1], user_data,
								cqe->res, cqe->flags, data);
		if (buffered)
			give_buffer(ring, id);
		count++;
	}
	if (count > 0)
		io_uring_cq_advance(&ring->uring, count);
	return count;
}

unsigned twi_ring_poll(struct twi_ring *ring)
{
	unsigned flags = IO_URING_READ_ONCE(*ring->uring.sq.kflags);

	if (ring->unsubmitted > 0 || (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0) {
		twi_count(ring->engine->diag, TWI_C_system_calls, 1);
		io_uring_submit_and_get_events(&ring->uring);
		ring->unsubmitted = io_uring_sq_ready(&ring->uring);
	}
	return twi_ring_reap(ring);
}

bool twi_ring_has_work(const struct twi_ring *ring)
{
	unsigned flags = IO_URING_READ_ONCE(*ring->uring.sq.kflags);
	unsigned head = __atomic_load_n(ring->uring.cq.khead, __ATOMIC_RELAXED);

	return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0 ||
	       __atomic_load_n(ring->uring.cq.ktail, __ATOMIC_ACQUIRE) != head;
}

void twi_ring_sleep(struct twi_ring *ring, uint64_t timeout_ns)
{
	struct pollfd fd = { .fd = ring->wake_fd, .events = POLLIN };
	struct timespec ts = {
		.tv_sec = (time_t)(timeout_ns / 1000000000u),
		.tv_nsec = (long)(timeout_ns % 1000000000u),
	};
	uint64_t drained;

	twi_count(ring->engine->diag, TWI_C_wait_sleeps, 1);
	io_uring_cq_eventfd_toggle(&ring->uring, true);
	/* The kernel signals from now on; what came before it looked is in the flags or the queue.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (!twi_ring_has_work(ring))
		ppoll(&fd, 1, timeout_ns == UINT64_MAX ? NULL : &ts, NULL);
	if (!ring->watched)
		io_uring_cq_eventfd_toggle(&ring->uring, false);
	if ((fd.revents & POLLIN) != 0)
		(void)!read(ring->wake_fd, &drained, sizeof(drained));
}

void twi_ring_clear(struct twi_ring *ring)
{
	uint64_t drained;

	if (ring->watched)
		(void)!read(ring->wake_fd, &drained, sizeof(drained));
}

void twi_ring_wake(struct twi_ring *ring)
{
	uint64_t one = 1;

	(void)!write(ring->wake_fd, &one, sizeof(one));
}
