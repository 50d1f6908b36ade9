/*
 * engine_fd.c - opens and closes the descriptor of a thread, and sets its timer. See engine_fd.h.
 */
#include "transport/engine/engine_fd.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/poller.h"

static int add_fd(int epoll_fd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int open_fds(struct twi_fd *watch, const struct twi_ring *ring)
{
	int epoll_fd = twi_fd_high(epoll_create1(EPOLL_CLOEXEC));
	int timer_fd = twi_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
	    err;

	if (epoll_fd >= 0 && timer_fd >= 0 && add_fd(epoll_fd, timer_fd) == 0 &&
	    add_fd(epoll_fd, ring->ready_fd) == 0) {
		*watch = (struct twi_fd){ true, epoll_fd, timer_fd, UINT64_MAX };
		return TOW_OK;
	}
	err = errno;
	if (epoll_fd >= 0)
		close(epoll_fd);
	if (timer_fd >= 0)
		close(timer_fd);
	return twi_error_errno(TOW_ESYSTEM, err, "tow_fd: epoll and timerfd");
}

int twi_fd_open(struct twi_engine *engine, int *fd_out)
{
	struct twi_ring *ring = engine->ring;
	struct twi_fd *watch = &engine->fds[ring->index];

	twi_assert_held(engine);
	if (!ring->watched) {
		int status = open_fds(watch, ring);

		if (status < 0)
			return status;
		ring->watched = true;
		/* For good: a thread with a descriptor may sleep on it at any time. */
		atomic_fetch_add_explicit(&engine->sleepers, 1, memory_order_seq_cst);
		twi_engine_count(engine->watchers, 1);
		atomic_store_explicit(&ring->sleeping, 1, memory_order_seq_cst);
		/* From now on its descriptor shows every completion, and all that is due. */
		ring->poller->watch(ring);
	}
	*fd_out = watch->epoll_fd;
	return TOW_OK;
}

void twi_fd_close(struct twi_engine *engine, unsigned index)
{
	struct twi_fd *watch = &engine->fds[index];

	if (!watch->open)
		return;
	atomic_fetch_sub_explicit(&engine->sleepers, 1, memory_order_relaxed);
	twi_engine_count(engine->watchers, (uint32_t)-1);
	close(watch->epoll_fd);
	close(watch->timer_fd);
	*watch = (struct twi_fd){ 0 };
}

void twi_fd_clear(struct twi_engine *engine, struct twi_ring *ring)
{
	struct twi_fd *watch = &engine->fds[ring->index];
	uint64_t expired;

	if (!ring->watched)
		return;
	twi_ring_clear(ring);
	if (watch->at_ns != UINT64_MAX &&
	    read(watch->timer_fd, &expired, sizeof(expired)) == (ssize_t)sizeof(expired))
		watch->at_ns = UINT64_MAX;
}

/*
 * Sets the timer to `at_ns` of the engine's clock; a past time is now. Clocks drift, so the timer
 * gets a relative time.
 */
static void set_timer(struct twi_fd *watch, uint64_t at_ns, uint64_t now_ns)
{
	uint64_t in_ns = at_ns > now_ns ? at_ns - now_ns : 1;
	struct itimerspec when = { .it_value = { .tv_sec = (time_t)(in_ns / 1000000000u),
						 .tv_nsec = (long)(in_ns % 1000000000u) } };

	timerfd_settime(watch->timer_fd, 0, &when, NULL);
	watch->at_ns = at_ns;
}

void twi_fd_set(struct twi_engine *engine)
{
	uint64_t next = twi_engine_next_deadline(engine, UINT64_MAX);

	twi_assert_held(engine);
	if (next == UINT64_MAX)
		return;
	next = twi_max(next, 1); /* 0: at once */
	for (unsigned i = 0; i < TWI_RING_SLOTS; i++) {
		struct twi_fd *watch = &engine->fds[i];

		if (watch->open && next < watch->at_ns)
			set_timer(watch, next, twi_engine_clock(engine));
	}
}
