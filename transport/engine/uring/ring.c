/*
 * ring.c - sets up one thread's io_uring, submits to it, and reaps it. See ring.h.
 *
 * Features are tried, not looked up by version. Set-up flags are dropped one group after the other
 * when the kernel refuses them, and multishot receive is tested on a socket pair.
 */
#include "transport/engine/uring/ring.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/pool/extent.h"
#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/engine/uring/ring_closer.h"

/* Of kernel 6.2; the notification of a zero-copy send says whether the kernel copied. */
#ifndef IORING_SEND_ZC_REPORT_USAGE
#define IORING_SEND_ZC_REPORT_USAGE (1U << 3)
#endif

/* Lanes see the flags of a completion as the kernel wrote them. */
static_assert(TWI_DONE_MORE == IORING_CQE_F_MORE, "flag of a completion");
static_assert(TWI_DONE_NONEMPTY == IORING_CQE_F_SOCK_NONEMPTY, "flag of a completion");
static_assert(TWI_DONE_NOTICE == IORING_CQE_F_NOTIF, "flag of a completion");
#ifdef IORING_NOTIF_USAGE_ZC_COPIED
static_assert(TWI_DONE_KERNEL_COPY == IORING_NOTIF_USAGE_ZC_COPIED, "result of a notification");
#endif

bool twi_uring_plain;

/*
 * Sets whether the kernel signals the eventfd. The holder of the engine may silence a ring whose
 * thread is about to sleep, and liburing's own call is not made for two threads. The word has no
 * other flag.
 */
static void set_notifying(struct twi_ring *base, bool on)
{
	struct twi_uring *ring = twi_uring_of(base);

	if (ring->uring.cq.kflags == NULL)
		return; /* Linux 5.7 and older: it always signals */
	__atomic_store_n(ring->uring.cq.kflags, on ? 0 : IORING_CQ_EVENTFD_DISABLED,
			 __ATOMIC_RELAXED);
}

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

#ifdef __SANITIZE_THREAD__
void twi_uring_order_mappings(void)
{
	static _Atomic uint32_t turns;

	atomic_fetch_add_explicit(&turns, 1, memory_order_acq_rel);
}
#endif

/* liburing makes the descriptor. Where there is no higher one it stays: it takes no writes. */
static void raise_ring(struct io_uring *uring)
{
	int high;

	if (uring->ring_fd >= TWI_FD_LEAST)
		return;
	high = fcntl(uring->ring_fd, F_DUPFD_CLOEXEC, TWI_FD_LEAST);
	if (high < 0)
		return;
	close(uring->ring_fd);
	uring->ring_fd = high;
	uring->enter_ring_fd = high;
}

static int setup_ring(struct twi_uring *ring)
{
	static const unsigned tries[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		0,
	};
	int err = 0;

	for (unsigned i = twi_uring_plain ? 1 : 0; i < twi_array_count(tries); i++) {
		struct io_uring_params params = {
			.flags = tries[i] | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
			.cq_entries = TWI_URING_CQ_ENTRIES,
		};

		err = -io_uring_queue_init_params(TWI_RING_ENTRIES, &ring->uring, &params);
		if (err == 0) {
			raise_ring(&ring->uring);
			twi_uring_order_mappings();
			ring->base.deferred = (tries[i] & IORING_SETUP_DEFER_TASKRUN) != 0;
			return TOW_OK;
		}
		ring->uring.ring_fd = -1; /* liburing clears the structure: 0 is a descriptor */
		if (err != EINVAL)
			break;
	}
	return setup_error(err);
}

static void give_buffer(struct twi_uring *ring, unsigned id)
{
	io_uring_buf_ring_add(ring->buffers,
			      ring->buffer_memory + (size_t)id * TWI_RING_BUFFER_BYTES,
			      TWI_RING_BUFFER_BYTES, (unsigned short)id,
			      io_uring_buf_ring_mask(TWI_URING_BUFFERS), 0);
	io_uring_buf_ring_advance(ring->buffers, 1);
}

/* The buffers that multishot receives land in, and the ring that hands them to the kernel. */
static int setup_buffers(struct twi_uring *ring)
{
	size_t bytes = (size_t)TWI_URING_BUFFERS * TWI_RING_BUFFER_BYTES;
	size_t head = 4096;
	struct io_uring_buf_reg reg = {
		.ring_entries = TWI_URING_BUFFERS,
		.bgid = TWI_URING_BUFFER_GROUP,
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
	for (unsigned i = 0; i < TWI_URING_BUFFERS; i++)
		give_buffer(ring, i);
	return TOW_OK;
}

/*
 * Looks for the requests that a ring must have. A plain ring has no other test of them (open_ring).
 */
static int probe_opcodes(struct twi_uring *ring)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(&ring->uring);
	bool enough = probe != NULL && io_uring_opcode_supported(probe, IORING_OP_SEND) &&
		      io_uring_opcode_supported(probe, IORING_OP_SENDMSG) &&
		      io_uring_opcode_supported(probe, IORING_OP_RECVMSG);

	ring->base.zerocopy = probe != NULL && io_uring_opcode_supported(probe, IORING_OP_SEND_ZC);
	io_uring_free_probe(probe);
	if (!enough && !ring->base.deferred)
		return twi_error(TOW_ENOTSUP, "this kernel's io_uring cannot send and receive");
	return TOW_OK;
}

static void ring_submit(struct twi_ring *base)
{
	struct twi_uring *ring = twi_uring_of(base);

	twi_count(base->engine->diag, TWI_C_system_calls, 1);
	/* EBUSY and EAGAIN leave the requests in the queue: the next poll takes them along. A
	 * request that the kernel refuses at once ends a batch early: the rest goes after it. */
	while (io_uring_submit(&ring->uring) > 0 && io_uring_sq_ready(&ring->uring) > 0)
		;
	base->unsubmitted = io_uring_sq_ready(&ring->uring);
}

/* A cleared request; submits those before it when the queue is full. NULL only when that fails. */
static struct io_uring_sqe *next_request(struct twi_ring *base)
{
	struct twi_uring *ring = twi_uring_of(base);
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);

	if (twi_unlikely(sqe == NULL)) {
		twi_ring_submit(base);
		sqe = io_uring_get_sqe(&ring->uring);
		if (sqe == NULL)
			return NULL;
	}
	base->unsubmitted++;
	return sqe;
}

static bool request_poll(struct twi_ring *base, int fd, unsigned events, uint64_t user_data)
{
	struct io_uring_sqe *sqe = next_request(base);

	if (sqe == NULL)
		return false;
	io_uring_prep_poll_add(sqe, fd, events);
	sqe->user_data = user_data;
	return true;
}

static bool request_receive(struct twi_ring *base, int fd, uint64_t user_data)
{
	struct io_uring_sqe *sqe = next_request(base);

	if (sqe == NULL)
		return false;
	io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = TWI_URING_BUFFER_GROUP;
	sqe->user_data = user_data;
	return true;
}

static bool request_cancel(struct twi_ring *base, int fd, uint64_t user_data)
{
	struct io_uring_sqe *sqe = next_request(base);

	(void)fd;
	if (sqe == NULL)
		return false;
	io_uring_prep_cancel64(sqe, user_data, 0);
	sqe->user_data = 0; /* owner 0 is no lane: the completion is ignored */
	return true;
}

static bool request_send(struct twi_ring *base, int fd, const void *data, size_t bytes, int flags,
			 uint64_t user_data)
{
	struct io_uring_sqe *sqe = next_request(base);

	if (sqe == NULL)
		return false;
	io_uring_prep_send(sqe, fd, data, bytes, flags);
	sqe->user_data = user_data;
	return true;
}

static bool request_sendmsg(struct twi_ring *base, int fd, const struct msghdr *message, int flags,
			    uint64_t user_data)
{
	struct io_uring_sqe *sqe = next_request(base);

	if (sqe == NULL)
		return false;
	io_uring_prep_sendmsg(sqe, fd, message, (unsigned)flags);
	sqe->user_data = user_data;
	return true;
}

static bool request_recvmsg(struct twi_ring *base, int fd, struct msghdr *message, int flags,
			    uint64_t user_data)
{
	struct io_uring_sqe *sqe = next_request(base);

	if (sqe == NULL)
		return false;
	io_uring_prep_recvmsg(sqe, fd, message, (unsigned)flags);
	sqe->user_data = user_data;
	return true;
}

static bool request_send_zerocopy(struct twi_ring *base, int fd, const void *data, size_t bytes,
				  int slot, uint64_t user_data)
{
	struct io_uring_sqe *sqe = next_request(base);

	if (sqe == NULL)
		return false;
	io_uring_prep_send_zc_fixed(sqe, fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
				    IORING_SEND_ZC_REPORT_USAGE, (unsigned)slot);
	sqe->user_data = user_data;
	return true;
}

/* Tests on a socket pair what the lanes cannot do without. */
static int probe_ring(struct twi_uring *ring)
{
	struct io_uring_cqe *cqe = NULL;
	int pair[2], res = -EINVAL;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "socketpair");
	request_receive(&ring->base, pair[0], 0);
	ring->base.unsubmitted = 0;
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

static void ring_destroy(struct twi_ring *base)
{
	struct twi_uring *ring = twi_uring_of(base);

	if (ring->uring.ring_fd < 0 || !twi_uring_closer_take(base->engine, ring))
		twi_uring_close(ring);
}

static int open_ring(struct twi_uring *ring)
{
	int status = setup_ring(ring);

	/*
	 * A ring that is not deferred receives nothing into buffers. It has none, and no test of
	 * that.
	 */
	if (status == TOW_OK && ring->base.deferred)
		status = setup_buffers(ring);
	if (status == TOW_OK && ring->base.deferred)
		status = probe_ring(ring);
	if (status < 0)
		return status;
	status = -io_uring_register_eventfd(&ring->uring, ring->base.wake_fd);
	if (status != 0)
		return twi_error_errno(TOW_ESYSTEM, status, "io_uring_register_eventfd");
	set_notifying(&ring->base, false);
	return probe_opcodes(ring);
}

static int ring_create(struct twi_engine *engine, struct twi_ring **out)
{
	struct twi_uring *ring = calloc(1, sizeof(*ring));
	int status;

	if (ring == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a ring");
	ring->uring.ring_fd = -1;
	ring->base.have = ring->have;
	status = twi_ring_init(&ring->base, &twi_poller_uring, engine);
	if (status == TOW_OK)
		status = open_ring(ring);
	if (status < 0) {
		ring_destroy(&ring->base);
		return status;
	}
	*out = &ring->base;
	return TOW_OK;
}

/*
 * Saves the look-up of the ring's file in each call. The thread holds that file open until it ends.
 */
static void ring_keep(struct twi_ring *base)
{
	/*
	 * Only for deferred rings, which have a single issuer. Another thread that closes a ring
	 * without one would unregister its own.
	 */
	if (base->deferred)
		io_uring_register_ring_fd(&twi_uring_of(base)->uring); /* best effort */
}

static unsigned ring_reap(struct twi_ring *base)
{
	struct twi_uring *ring = twi_uring_of(base);
	struct twi_engine *engine = base->engine;
	struct io_uring_cqe *cqe;
	unsigned head, count = 0;

	io_uring_for_each_cqe(&ring->uring, head, cqe)
	{
		bool buffered = (cqe->flags & IORING_CQE_F_BUFFER) != 0;
		unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
		const uint8_t *data = NULL;

		if (buffered)
			data = ring->buffer_memory + (size_t)id * TWI_RING_BUFFER_BYTES;
		twi_ring_complete(engine, cqe->user_data, cqe->res, cqe->flags, data);
		if (buffered)
			give_buffer(ring, id);
		count++;
	}
	if (count > 0)
		io_uring_cq_advance(&ring->uring, count);
	return count;
}

static unsigned ring_look(struct twi_ring *base)
{
	struct twi_uring *ring = twi_uring_of(base);
	unsigned flags = IO_URING_READ_ONCE(*ring->uring.sq.kflags);

	if (base->unsubmitted > 0 || (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0) {
		twi_count(base->engine->diag, TWI_C_system_calls, 1);
		io_uring_submit_and_get_events(&ring->uring);
		base->unsubmitted = io_uring_sq_ready(&ring->uring);
	}
	return ring_reap(base);
}

static unsigned ring_ready(const struct twi_ring *base)
{
	const struct twi_uring *ring = (const struct twi_uring *)(const void *)base;

	return io_uring_cq_ready(&ring->uring);
}

/* The ring's sleeper calls it without the engine, whose holder may be reaping the ring now. */
static bool has_work(const struct twi_ring *base)
{
	const struct twi_uring *ring = (const struct twi_uring *)(const void *)base;
	unsigned flags = IO_URING_READ_ONCE(*ring->uring.sq.kflags);
	unsigned head = __atomic_load_n(ring->uring.cq.khead, __ATOMIC_RELAXED);

	return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0 ||
	       __atomic_load_n(ring->uring.cq.ktail, __ATOMIC_ACQUIRE) != head;
}

/*
 * Sleeps on the ring's eventfd, which the kernel signals while it is asked to. A poll of the ring's
 * own descriptor is not woken by deferred work (seen on 6.18).
 */
static void sleep_on(struct twi_ring *base, uint64_t timeout_ns)
{
	struct pollfd fd = { .fd = base->wake_fd, .events = POLLIN };
	struct timespec ts = {
		.tv_sec = (time_t)(timeout_ns / 1000000000u),
		.tv_nsec = (long)(timeout_ns % 1000000000u),
	};

	twi_count(base->engine->diag, TWI_C_wait_sleeps, 1);
	set_notifying(base, true);
	/* The kernel signals from now on; what came before is in the flags or the queue. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!has_work(base))
		ppoll(&fd, 1, timeout_ns == UINT64_MAX ? NULL : &ts, NULL);
	if (!base->watched)
		set_notifying(base, false);
	if ((fd.revents & POLLIN) != 0)
		twi_ring_drain(base);
}

/* Makes the kernel signal every completion and all deferred work. */
static void ring_watch(struct twi_ring *base)
{
	set_notifying(base, true);
}

static void ring_hush(struct twi_ring *base)
{
	if (!base->watched)
		set_notifying(base, false);
}

/* A request names its file, not its descriptor: there is nothing to forget. */
static void ring_forget(struct twi_ring *base, int fd)
{
	(void)base, (void)fd;
}

const struct twi_poller twi_poller_uring = {
	.name = "io_uring",
	.registrar = &twi_uring_registrar,
	.create = ring_create,
	.destroy = ring_destroy,
	.keep = ring_keep,
	.poll = request_poll,
	.receive = request_receive,
	.cancel = request_cancel,
	.send = request_send,
	.sendmsg = request_sendmsg,
	.recvmsg = request_recvmsg,
	.send_zerocopy = request_send_zerocopy,
	.submit = ring_submit,
	.look = ring_look,
	.reap = ring_reap,
	.ready = ring_ready,
	.has_work = has_work,
	.sleep = sleep_on,
	.watch = ring_watch,
	.hush = ring_hush,
	.sync = twi_uring_sync,
	.forget = ring_forget,
	.fini = twi_uring_closer_end,
};
