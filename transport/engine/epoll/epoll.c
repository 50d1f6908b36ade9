/*
 * epoll.c - the poller where io_uring cannot be had: an epoll set for each thread, and plain system
 * calls. poller.h has the promises.
 *
 *	send, recvmsg ... --> requests[] --submit--> the system call --> done[] --reap--> the lane
 *	poll, receive     --> watches (epoll_watch.h), epoll_ctl
 *	                         ^
 *	look: epoll_wait --------+--> ready: the poll is over, or recv and the lane gets the bytes
 *
 * A sleeper polls a second set, which holds the first one and the eventfd of wakes. A thread that
 * drives in its place takes the first set out of the second (hush). A poll of the first set alone
 * would not see that.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool_regions.h"
#include "transport/engine/engine.h"
#include "transport/engine/epoll/epoll_notice.h"
#include "transport/engine/epoll/epoll_watch.h"
#include "transport/engine/poller.h"

#define DONE_ENTRIES 1024u /* completions that wait to be reaped; a power of two */
#define EVENTS       64
#define WAKE_KEY     UINT64_MAX
#define SET_KEY      (UINT64_MAX - 1)
/*
 * One look in so many calls epoll_wait, while the lane reads hot connections itself, or as long as
 * requests bring completions without it.
 */
#define LOOKS_BETWEEN    8u
#define LOOKS_BETWEEN_NS 5000u /* a thread that polls rarely calls it each time */

enum operation { NOTHING, SEND, SENDMSG, RECVMSG, SEND_ZEROCOPY };

struct request {
	uint8_t operation;
	int fd, flags;
	void *at; /* what is sent, or the header of the message */
	size_t bytes;
	uint64_t user_data;
};

struct done {
	uint64_t user_data;
	int res;
	uint32_t flags;
};

struct twi_epoll {
	struct twi_ring base;
	struct twi_epoll_watches watches;
	int sleep_fd;
	_Atomic bool hushed; /* the watches have been taken out of sleep_fd */
	uint32_t turns;
	uint64_t looked_ns; /* when it last called epoll_wait, while the lane reads itself */
	bool full;          /* a watch was refused, which is in the log */
	struct request requests[TWI_RING_ENTRIES];
	struct done done[DONE_ENTRIES];
	/*
	 * Moved by the holder of the engine. The sleeper, which does not hold it, looks if they
	 * differ.
	 */
	_Atomic uint32_t done_head, done_tail;
	uint8_t buffer[TWI_RING_BUFFER_BYTES];
};

static struct twi_epoll *epoll_of(struct twi_ring *ring)
{
	return (struct twi_epoll *)(void *)ring;
}

/* ---- completions ---- */

static unsigned ring_ready(const struct twi_ring *base)
{
	const struct twi_epoll *ring = (const struct twi_epoll *)(const void *)base;

	return atomic_load_explicit(&ring->done_tail, memory_order_relaxed) -
	       atomic_load_explicit(&ring->done_head, memory_order_relaxed);
}

/*
 * Each request that is taken has room for its completions, at most two. So they can always be made.
 */
static bool has_room(const struct twi_epoll *ring)
{
	return ring_ready(&ring->base) + 2 * (ring->base.unsubmitted + 1) <= DONE_ENTRIES;
}

static void push_done(struct twi_epoll *ring, uint64_t user_data, int res, uint32_t flags)
{
	uint32_t tail = atomic_load_explicit(&ring->done_tail, memory_order_relaxed);

	twi_assert(ring_ready(&ring->base) < DONE_ENTRIES);
	ring->done[tail % DONE_ENTRIES] = (struct done){ user_data, res, flags };
	atomic_store_explicit(&ring->done_tail, tail + 1, memory_order_relaxed);
	/* The set does not show what completes at once, and a tow_fd has to show it. */
	if (ring->base.watched)
		twi_ring_wake(&ring->base);
}

/*
 * The head moves first, as a completion may lead to this function again. What is added meanwhile
 * waits for the next time.
 */
static unsigned ring_reap(struct twi_ring *base)
{
	struct twi_epoll *ring = epoll_of(base);
	unsigned most = ring_ready(base), count = 0;

	while (count < most && ring_ready(base) > 0) {
		uint32_t head = atomic_load_explicit(&ring->done_head, memory_order_relaxed);
		struct done done = ring->done[head % DONE_ENTRIES];

		atomic_store_explicit(&ring->done_head, head + 1, memory_order_relaxed);
		twi_ring_complete(base->engine, done.user_data, done.res, done.flags, NULL);
		count++;
	}
	return count;
}

/* ---- watches ---- */

/*
 * The kernel takes no more watches, or has no memory. A poll completes as if something had come:
 * its owner looks, finds nothing, and asks again. A receive fails.
 */
static bool refuse_request(struct twi_epoll *ring, enum twi_epoll_kind kind, uint64_t user_data,
			   int err)
{
	if (!ring->full) {
		ring->full = true;
		twi_error_errno(TOW_ESYSTEM, err,
				"epoll_ctl failed; waits poll their connections instead");
		twi_log(ring->base.engine->diag, 2, "%s", tow_error_message());
	}
	if (!has_room(ring))
		return false;
	push_done(ring, user_data, kind == TWI_EPOLL_RECEIVE ? -err : -EAGAIN, 0);
	return true;
}

static void count_calls(struct twi_epoll *ring)
{
	twi_count(ring->base.engine->diag, TWI_C_system_calls, ring->watches.system_calls);
	ring->watches.system_calls = 0;
}

static bool arm_watch(struct twi_ring *base, int fd, enum twi_epoll_kind kind, uint64_t user_data)
{
	struct twi_epoll *ring = epoll_of(base);
	int err = twi_epoll_watch(&ring->watches, fd, kind, user_data);

	return err == 0 || refuse_request(ring, kind, user_data, err);
}

static bool request_poll(struct twi_ring *base, int fd, unsigned events, uint64_t user_data)
{
	return arm_watch(base, fd, (events & POLLOUT) != 0 ? TWI_EPOLL_OUT : TWI_EPOLL_IN,
			 user_data);
}

static bool request_receive(struct twi_ring *base, int fd, uint64_t user_data)
{
	return arm_watch(base, fd, TWI_EPOLL_RECEIVE, user_data);
}

static bool request_cancel(struct twi_ring *base, int fd, uint64_t user_data)
{
	struct twi_epoll *ring = epoll_of(base);
	struct twi_epoll_watch *watch = twi_epoll_of_fd(&ring->watches, fd);

	if (!twi_epoll_awaits(watch, TWI_EPOLL_RECEIVE) ||
	    watch->user_data[TWI_EPOLL_RECEIVE] != user_data || !has_room(ring))
		return false;
	push_done(ring, user_data, -ECANCELED, 0);
	twi_epoll_disarm(watch, TWI_EPOLL_RECEIVE);
	return true;
}

/* ---- requests that are a system call ---- */

static ssize_t run_request(const struct request *request)
{
	switch ((enum operation)request->operation) {
	case SEND:
		return send(request->fd, request->at, request->bytes, request->flags);
	case SENDMSG:
		return sendmsg(request->fd, request->at, request->flags);
	case RECVMSG:
		return recvmsg(request->fd, request->at, request->flags);
	case SEND_ZEROCOPY:
	case NOTHING:
		break;
	}
	return 0;
}

/* Brings two completions, as io_uring does. If the bytes were copied, both are there at once. */
static void run_zerocopy(struct twi_epoll *ring, const struct request *request)
{
	struct twi_engine *engine = ring->base.engine;
	bool later = false;
	ssize_t n;

	if (twi_epoll_notices_open(engine))
		n = twi_epoll_notices_send(engine->epoll_notices, request->fd, request->at,
					   request->bytes, ring->base.index, request->user_data,
					   &later);
	else
		n = send(request->fd, request->at, request->bytes, request->flags);
	push_done(ring, request->user_data, n < 0 ? -errno : (int)n, n < 0 ? 0 : TWI_DONE_MORE);
	if (later)
		arm_watch(&ring->base, request->fd, TWI_EPOLL_NOTICES, 0);
	else if (n >= 0)
		push_done(ring, request->user_data, (int)TWI_DONE_KERNEL_COPY, TWI_DONE_NOTICE);
}

static void ring_submit(struct twi_ring *base)
{
	TWI_UNCANCELED;
	struct twi_epoll *ring = epoll_of(base);

	for (uint32_t i = 0; i < base->unsubmitted; i++) {
		const struct request *request = &ring->requests[i];
		ssize_t n;

		if (request->operation == NOTHING)
			continue;
		twi_count(base->engine->diag, TWI_C_system_calls, 1);
		if (request->operation == SEND_ZEROCOPY) {
			run_zerocopy(ring, request);
			continue;
		}
		n = run_request(request);
		push_done(ring, request->user_data, n < 0 ? -errno : (int)n, 0);
	}
	base->unsubmitted = 0;
}

static bool add_request(struct twi_ring *base, struct request request)
{
	if (base->unsubmitted == TWI_RING_ENTRIES)
		ring_submit(base);
	if (!has_room(epoll_of(base)))
		return false;
	epoll_of(base)->requests[base->unsubmitted++] = request;
	return true;
}

static bool request_send(struct twi_ring *base, int fd, const void *data, size_t bytes, int flags,
			 uint64_t user_data)
{
	return add_request(base, (struct request){ SEND, fd, flags, (void *)(uintptr_t)data, bytes,
						   user_data });
}

static bool request_sendmsg(struct twi_ring *base, int fd, const struct msghdr *message, int flags,
			    uint64_t user_data)
{
	return add_request(base, (struct request){ SENDMSG, fd, flags, (void *)(uintptr_t)message,
						   0, user_data });
}

static bool request_recvmsg(struct twi_ring *base, int fd, struct msghdr *message, int flags,
			    uint64_t user_data)
{
	return add_request(base, (struct request){ RECVMSG, fd, flags, message, 0, user_data });
}

static bool request_send_zerocopy(struct twi_ring *base, int fd, const void *data, size_t bytes,
				  int slot, uint64_t user_data)
{
	(void)slot; /* nothing is registered here */
	return add_request(base, (struct request){ SEND_ZEROCOPY, fd, MSG_DONTWAIT | MSG_NOSIGNAL,
						   (void *)(uintptr_t)data, bytes, user_data });
}

static void ring_forget(struct twi_ring *base, int fd)
{
	struct twi_epoll *ring = epoll_of(base);

	for (uint32_t i = 0; i < base->unsubmitted; i++) {
		if (ring->requests[i].fd == fd)
			ring->requests[i].operation = NOTHING;
	}
	twi_epoll_unwatch(&ring->watches, fd);
}

/* ---- what has come ---- */

static unsigned end_poll(struct twi_epoll *ring, uint64_t key, enum twi_epoll_kind kind, int res)
{
	struct twi_epoll_watch *watch = twi_epoll_find(&ring->watches, key);

	if (!twi_epoll_awaits(watch, kind))
		return 0;
	twi_epoll_disarm(watch, kind);
	twi_ring_complete(ring->base.engine, watch->user_data[kind], res, 0, NULL);
	return 1;
}

/* Receives one piece. The rest comes with the next look, after the other streams' turn. */
static unsigned receive_piece(struct twi_epoll *ring, uint64_t key)
{
	struct twi_epoll_watch *watch = twi_epoll_find(&ring->watches, key);
	ssize_t n;

	if (!twi_epoll_awaits(watch, TWI_EPOLL_RECEIVE))
		return 0;
	twi_count(ring->base.engine->diag, TWI_C_system_calls, 1);
	n = recv(twi_epoll_fd_of(key), ring->buffer, sizeof(ring->buffer), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0; /* another thread has read it */
	if (n <= 0)
		twi_epoll_disarm(watch, TWI_EPOLL_RECEIVE);
	twi_ring_complete(ring->base.engine, watch->user_data[TWI_EPOLL_RECEIVE],
			  n < 0 ? -errno : (int)n, n > 0 ? TWI_DONE_MORE : 0, ring->buffer);
	return 1;
}

/* Reads notices of zero-copy sends, whichever ring has sent. They come as errors. */
static unsigned read_notices(struct twi_epoll *ring, uint64_t key)
{
	struct twi_epoll_notices *notices = ring->base.engine->epoll_notices;
	int fd = twi_epoll_fd_of(key);
	struct twi_epoll_watch *watch;
	unsigned count = 0;

	if (notices != NULL && twi_epoll_notices_due(notices, fd)) {
		ring_reap(&ring->base); /* a send's own completion comes before its notice */
		count = twi_epoll_notices_read(notices, ring->base.engine, fd);
	}
	watch = twi_epoll_find(&ring->watches, key);
	if (watch != NULL && (notices == NULL || !twi_epoll_notices_due(notices, fd)))
		twi_epoll_disarm(watch, TWI_EPOLL_NOTICES);
	return count;
}

static unsigned handle_event(struct twi_epoll *ring, const struct epoll_event *event)
{
	uint64_t key = event->data.u64;
	bool end = (event->events & (EPOLLERR | EPOLLHUP)) != 0;
	unsigned count = 0;

	if ((event->events & EPOLLERR) != 0 && twi_epoll_find(&ring->watches, key) != NULL) {
		count = read_notices(ring, key);
		end = count == 0 || (event->events & EPOLLHUP) != 0; /* a real error shows again */
	}
	if (end || (event->events & EPOLLIN) != 0) {
		count += receive_piece(ring, key);
		count += end_poll(ring, key, TWI_EPOLL_IN, (int)event->events);
	}
	if (end || (event->events & EPOLLOUT) != 0)
		count += end_poll(ring, key, TWI_EPOLL_OUT, (int)event->events);
	if (count == 0)
		twi_epoll_unlist(&ring->watches, key);
	return count;
}

static unsigned wait_events(struct twi_epoll *ring)
{
	struct epoll_event events[EVENTS];
	unsigned count = 0;
	int n;

	twi_count(ring->base.engine->diag, TWI_C_system_calls, 1);
	n = epoll_wait(ring->watches.epoll_fd, events, EVENTS, 0);
	for (int i = 0; i < n; i++) {
		if (events[i].data.u64 != WAKE_KEY)
			count += handle_event(ring, &events[i]);
		else if (!ring->base.watched) /* a tow_fd stays ready until its thread clears it */
			twi_ring_drain(&ring->base);
	}
	return count;
}

/* May a look go without epoll_wait? The turns since the last one were few and short. */
static bool may_skip_look(struct twi_epoll *ring)
{
	bool few = ++ring->turns % LOOKS_BETWEEN != 0;
	uint64_t now;

	if (ring->base.engine->read_directly == 0)
		return few;
	now = twi_engine_batch_now(ring->base.engine);
	if (few && now - ring->looked_ns < LOOKS_BETWEEN_NS)
		return true;
	ring->looked_ns = now;
	return false;
}

static unsigned ring_look(struct twi_ring *base)
{
	struct twi_epoll *ring = epoll_of(base);
	unsigned count;

	twi_ring_submit(base);
	count = ring_reap(base);
	if ((count > 0 || base->engine->read_directly > 0) && may_skip_look(ring))
		return count;
	count += wait_events(ring);
	count_calls(ring);
	if (base->engine->epoll_notices != NULL)
		count += twi_epoll_notices_linger(base->engine->epoll_notices, base->engine);
	return count + ring_reap(base);
}

static bool has_work(const struct twi_ring *base)
{
	const struct twi_epoll *ring = (const struct twi_epoll *)(const void *)base;
	struct pollfd fd = { .fd = ring->watches.epoll_fd, .events = POLLIN };

	return ring_ready(base) > 0 || poll(&fd, 1, 0) == 1;
}

/* Sets whether arrivals for the ring end its thread's sleep. */
static void listen_for_watches(struct twi_epoll *ring, bool on)
{
	struct epoll_event event = { .events = on ? EPOLLIN : 0, .data.u64 = SET_KEY };

	twi_count(ring->base.engine->diag, TWI_C_system_calls, 1);
	epoll_ctl(ring->sleep_fd, EPOLL_CTL_MOD, ring->watches.epoll_fd, &event);
}

static void sleep_on(struct twi_ring *base, uint64_t timeout_ns)
{
	struct twi_epoll *ring = epoll_of(base);
	struct pollfd fd = { .fd = ring->sleep_fd, .events = POLLIN };
	struct timespec ts = {
		.tv_sec = (time_t)(timeout_ns / 1000000000u),
		.tv_nsec = (long)(timeout_ns % 1000000000u),
	};

	twi_count(base->engine->diag, TWI_C_wait_sleeps, 1);
	if (atomic_exchange_explicit(&ring->hushed, false, memory_order_acquire))
		listen_for_watches(ring, true);
	if (ring_ready(base) > 0)
		return;
	/* A wake that came before this poll is in the set as well. */
	if (ppoll(&fd, 1, timeout_ns == UINT64_MAX ? NULL : &ts, NULL) == 1)
		twi_ring_drain(base);
}

static void watch_all(struct twi_ring *base)
{
	(void)base; /* the set is always up to date */
}

/*
 * `hushed` is set last. A sleeper that has missed it sleeps on as it should, and its next sleep
 * finds it.
 */
static void ring_hush(struct twi_ring *base)
{
	struct twi_epoll *ring = epoll_of(base);

	if (base->watched)
		return;
	listen_for_watches(ring, false);
	atomic_store_explicit(&ring->hushed, true, memory_order_release);
}

/* ---- the ring ---- */

static void ring_destroy(struct twi_ring *base)
{
	struct twi_epoll *ring = epoll_of(base);

	twi_epoll_notices_drop(base->engine, base->index);
	if (ring->sleep_fd >= 0)
		close(ring->sleep_fd);
	if (ring->watches.epoll_fd >= 0)
		close(ring->watches.epoll_fd);
	twi_ring_fini(base);
	free(ring->watches.rows);
	free(ring);
}

static bool add_to_set(int epoll_fd, int fd, uint64_t key)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = key };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static int open_sets(struct twi_epoll *ring)
{
	ring->watches.epoll_fd = twi_fd_high(epoll_create1(EPOLL_CLOEXEC));
	ring->sleep_fd = twi_fd_high(epoll_create1(EPOLL_CLOEXEC));
	if (ring->watches.epoll_fd < 0 || ring->sleep_fd < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "epoll_create1");
	if (!add_to_set(ring->watches.epoll_fd, ring->base.wake_fd, WAKE_KEY) ||
	    !add_to_set(ring->sleep_fd, ring->base.wake_fd, WAKE_KEY) ||
	    !add_to_set(ring->sleep_fd, ring->watches.epoll_fd, SET_KEY))
		return twi_error_errno(TOW_ESYSTEM, errno, "epoll_ctl");
	ring->base.ready_fd = ring->watches.epoll_fd;
	return TOW_OK;
}

static int ring_create(struct twi_engine *engine, struct twi_ring **out)
{
	struct twi_epoll *ring = calloc(1, sizeof(*ring));
	int status;

	if (ring == NULL)
		return twi_error(TOW_ENOMEM, "no memory for an epoll set");
	ring->watches.epoll_fd = ring->sleep_fd = -1;
	ring->base.index = TWI_RING_SLOTS; /* none yet: a failure drops no other ring's notices */
	ring->base.deferred = true;
	ring->base.any_memory = true;
	ring->base.zerocopy = twi_epoll_notices_probe();
	status = twi_ring_init(&ring->base, &twi_poller_epoll, engine);
	if (status == TOW_OK)
		status = open_sets(ring);
	if (status < 0) {
		ring_destroy(&ring->base);
		return status;
	}
	*out = &ring->base;
	return TOW_OK;
}

/*
 * Plain system calls need no registration. /v1/pool is to say so, with the reason, under the name
 * of the poller that is missing. strict_premap makes the open fail for it.
 */
static int registrar_add(void *ctx, const struct twi_region *region)
{
	const struct twi_ring *ring = ctx;
	const char *refusal = ring->engine->poller_refusal;

	(void)region;
	return twi_error(TOW_ENOTSUP, "epoll moves the connections, and registers no memory: %s",
			 refusal[0] != '\0' ? refusal : "poller=epoll");
}

static void registrar_remove(void *ctx, const struct twi_region *region)
{
	(void)ctx, (void)region; /* add has accepted none */
}

static const struct twi_registrar registrar = {
	.name = "io_uring",
	.add = registrar_add,
	.remove = registrar_remove,
};

static void ring_keep(struct twi_ring *base)
{
	(void)base; /* nothing of it is bound to its thread */
}

static void keep_in_step(struct twi_ring *base)
{
	base->regions_version = twi_pool_regions_version(base->engine->pool);
}

const struct twi_poller twi_poller_epoll = {
	.name = "epoll",
	.registrar = &registrar,
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
	.watch = watch_all,
	.hush = ring_hush,
	.sync = keep_in_step,
	.forget = ring_forget,
	.gone = twi_epoll_notices_forget,
	.fini = twi_epoll_notices_close,
};
