/* poller.c - chooses the poller of a thread, and has what all pollers share. See poller.h. */
#include "transport/engine/poller.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/lanes/lane.h"

static const struct twi_poller *const pollers[] = { &twi_poller_uring, &twi_poller_epoll };

/* io_uring cannot be had: keeps the message of the failure as the reason, and logs it once. */
static void note_refusal(struct twi_engine *engine)
{
	bool first = engine->poller_refusal[0] == '\0';

	snprintf(engine->poller_refusal, sizeof(engine->poller_refusal), "%s", tow_error_message());
	if (first)
		twi_log(engine->diag, 2, "epoll is used in place of io_uring: %s",
			engine->poller_refusal);
}

int twi_ring_create(struct twi_engine *engine, struct twi_ring **out)
{
	bool since_poll = twi_error_thread.since_poll;
	int before = twi_error_thread.status, status;
	char message[TWI_ERROR_BYTES];

	if (engine->knobs.poller == TWI_POLLER_EPOLL)
		return twi_poller_epoll.create(engine, out);
	snprintf(message, sizeof(message), "%s", tow_error_message());
	status = twi_poller_uring.create(engine, out);
	if (status == TOW_OK || engine->knobs.poller == TWI_POLLER_URING)
		return status;
	note_refusal(engine);
	/* This failure fails no call: the thread's message stays as it was. */
	twi_error(before, "%s", message);
	twi_error_thread.since_poll = since_poll;
	return twi_poller_epoll.create(engine, out);
}

/* The ring in which everything is armed now, else any. */
static const struct twi_ring *present_ring(const struct twi_engine *engine)
{
	if (engine->armed_ring != NULL)
		return engine->armed_ring;
	for (unsigned i = 0; i < TWI_RING_SLOTS; i++) {
		if (engine->rings[i] != NULL)
			return engine->rings[i];
	}
	return NULL;
}

void twi_poller_describe(const struct twi_engine *engine, struct twi_emit *emit)
{
	const struct twi_ring *ring = present_ring(engine);
	const char *why = "poller=auto: io_uring is there";

	if (ring == NULL)
		return;
	if (engine->knobs.poller == TWI_POLLER_URING)
		why = "poller=io_uring";
	else if (engine->knobs.poller == TWI_POLLER_EPOLL)
		why = "poller=epoll";
	else if (ring->poller == &twi_poller_epoll)
		why = engine->poller_refusal;
	twi_emit_str(emit, "poller", ring->poller->name);
	twi_emit_str(emit, "poller_why", why);
}

int twi_ring_init(struct twi_ring *ring, const struct twi_poller *poller, struct twi_engine *engine)
{
	ring->poller = poller;
	ring->engine = engine;
	ring->mark = twi_thread_mark();
	ring->wake_fd = twi_fd_high(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	ring->ready_fd = ring->wake_fd;
	return ring->wake_fd < 0 ? twi_error_errno(TOW_ESYSTEM, errno, "eventfd") : TOW_OK;
}

void twi_ring_fini(struct twi_ring *ring)
{
	if (ring->wake_fd >= 0)
		close(ring->wake_fd);
}

void twi_ring_wake(struct twi_ring *ring)
{
	TWI_UNCANCELED;
	uint64_t one = 1;

	(void)!write(ring->wake_fd, &one, sizeof(one));
}

void twi_ring_drain(struct twi_ring *ring)
{
	TWI_UNCANCELED;
	uint64_t drained;

	(void)!read(ring->wake_fd, &drained, sizeof(drained));
}

void twi_ring_clear(struct twi_ring *ring)
{
	if (ring->watched)
		twi_ring_drain(ring);
}

void twi_ring_forget(struct twi_engine *engine, int fd)
{
	twi_assert_held(engine);
	for (unsigned i = 0; i < TWI_RING_SLOTS; i++) {
		if (engine->rings[i] != NULL)
			engine->rings[i]->poller->forget(engine->rings[i], fd);
	}
	for (unsigned i = 0; i < twi_array_count(pollers); i++) {
		if (pollers[i]->gone != NULL)
			pollers[i]->gone(engine, fd);
	}
}

void twi_pollers_fini(struct twi_engine *engine)
{
	for (unsigned i = 0; i < twi_array_count(pollers); i++) {
		if (pollers[i]->fini != NULL)
			pollers[i]->fini(engine);
	}
}

void twi_ring_complete(struct twi_engine *engine, uint64_t user_data, int res, uint32_t flags,
		       const void *data)
{
	unsigned lane = (unsigned)(user_data >> 56);

	if (lane == TWI_RING_PROCESSES)
		twi_processes_completed(engine, user_data);
	else if (lane > 0 && lane <= TWI_LANE_COUNT && engine->lanes[lane - 1] != NULL)
		engine->lanes[lane - 1]->ops->completed(engine->lanes[lane - 1], user_data, res,
							flags, data);
}
