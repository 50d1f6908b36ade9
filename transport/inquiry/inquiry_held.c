/*
 * inquiry_held.c - measures holds of the process; inquiry_held.h has the concept.
 */
#include "transport/inquiry/inquiry_held.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/clock.h"
#include "diag/base/fd.h"
#include "transport/engine/cpu_log.h"

#define SECOND_NS 1000000000ull
#define MS_NS     1000000ull

static struct twi_state_held *row_of(struct twi_held_log *log, uint64_t second)
{
	struct twi_held_row *row = &log->rows[second % TWI_STATE_HELD];

	if (row->second != second + 1)
		*row = (struct twi_held_row){ .second = second + 1 };
	return &row->held;
}

void twi_held_note(struct twi_held_log *log, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t last = to_ns / SECOND_NS, first = from_ns / SECOND_NS;

	/* There are no rows for earlier seconds. */
	if (last - first >= TWI_STATE_HELD)
		first = last - (TWI_STATE_HELD - 1);
	for (uint64_t second = first; second <= last; second++) {
		uint64_t begin = twi_max(from_ns, second * SECOND_NS);
		uint64_t end = twi_min(to_ns, (second + 1) * SECOND_NS);

		struct twi_state_held *row = row_of(log, second);
		uint64_t ms = row->ms + (end - twi_min(begin, end)) / MS_NS;

		row->ms = (uint16_t)twi_min(ms, 1000u);
	}
	if (row_of(log, last)->times < UINT16_MAX)
		row_of(log, last)->times++;
}

void twi_held_tell(const struct twi_held_log *log, uint64_t now_ns, struct twi_rank_state *out)
{
	uint64_t newest = now_ns / SECOND_NS;

	out->held_count = 0;
	for (uint32_t i = 0; i < TWI_STATE_HELD && i <= newest; i++) {
		uint64_t second = newest - i;
		const struct twi_held_row *row = &log->rows[second % TWI_STATE_HELD];

		out->held[i] = (struct twi_state_held){ 0 };
		if (row->second != second + 1)
			continue;
		out->held[i] = row->held;
		out->held_count = i + 1;
	}
}

/* --- the thread that watches --- */

int twi_held_open(struct twi_held_watch *watch, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	int err = 0;

	*watch = (struct twi_held_watch){ .set = twi_fd_high(epoll_create1(EPOLL_CLOEXEC)) };
	if (watch->set < 0)
		return errno;
	if (epoll_ctl(watch->set, EPOLL_CTL_ADD, fd, &event) != 0) {
		err = errno;
		twi_held_close(watch);
	}
	return err;
}

void twi_held_close(struct twi_held_watch *watch)
{
	if (watch->set >= 0)
		close(watch->set);
	watch->set = -1;
}

/* Returns for how long the calling thread has been runnable without a CPU so far. */
static uint64_t runnable_wait_ns(void)
{
	uint64_t ran, waited = 0;
	char tid[16];

	snprintf(tid, sizeof(tid), "%d", gettid());
	return twi_cpu_read(tid, &ran, &waited) ? waited : 0;
}

/*
 * Measures a hold. A sleep ends at its tick's end at the latest, so the process was held at least
 * since then. A shorter hold is a tool that inspects the process, and costs little. Time without a
 * CPU is no hold. If the thread got a CPU only after the tick's end, epoll_wait returns no EINTR,
 * and only a long delay counts.
 */
static void measure_tick(uint64_t began_ns, uint64_t waited_before_ns, bool interrupted,
			 struct twi_held_time *out)
{
	uint64_t now = twi_now_ns(), least = interrupted ? 1 : TWI_HELD_LEAST_MS * MS_NS, waited;

	*out = (struct twi_held_time){ 0 };
	if (now < began_ns + TWI_HELD_TICK_MS * MS_NS + least)
		return;
	waited = runnable_wait_ns();
	waited = waited > waited_before_ns ? waited - waited_before_ns : 0;
	if (now < began_ns + TWI_HELD_TICK_MS * MS_NS + waited + least)
		return;
	/* The begin is somewhere within the tick. */
	out->from_ns = began_ns + TWI_HELD_TICK_MS * MS_NS / 2 + waited;
	out->to_ns = now;
}

/* Sleeps once, and returns the result of epoll_wait. */
static int sleep_once(struct twi_held_watch *watch, int ms, struct twi_held_time *out)
{
	uint64_t began = twi_now_ns(), waited;
	bool ticks = began < watch->ticks_ns, interrupted;
	struct epoll_event event;
	int n;

	waited = ticks ? runnable_wait_ns() : 0;
	n = epoll_wait(watch->set, &event, 1, ms);
	interrupted = n < 0 && errno == EINTR;
	if (ticks)
		measure_tick(began, waited, interrupted, out);
	else if (interrupted)
		out->from_ns = out->to_ns = twi_now_ns();
	if (interrupted || out->to_ns != 0)
		watch->ticks_ns = twi_now_ns() + TWI_HELD_TICKS;
	return n;
}

bool twi_held_wait(struct twi_held_watch *watch, int timeout_ms, struct twi_held_time *out)
{
	uint64_t end = timeout_ms < 0 ? UINT64_MAX : twi_now_ns() + MS_NS * (uint64_t)timeout_ms;

	*out = (struct twi_held_time){ 0 };
	for (;;) {
		uint64_t now = twi_now_ns(), left = end - twi_min(end, now);
		int ms = end == UINT64_MAX ? -1 : (int)((left + MS_NS - 1) / MS_NS), n;

		if (now < watch->ticks_ns && (ms < 0 || ms > (int)TWI_HELD_TICK_MS))
			ms = TWI_HELD_TICK_MS;
		n = sleep_once(watch, ms, out);
		if (n != 0 || out->to_ns != 0 || twi_now_ns() >= end)
			return n > 0;
	}
}
