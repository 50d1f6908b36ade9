/* trace_writer.c - see trace_writer.h. */
#include "diag/trace/capture/trace_writer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/base/thread.h"
#include "diag/record/diag.h"
#include "diag/trace/capture/trace_capture.h"

#define EVENT_FIRED (1ull << 32) /* the lower bits count signals */

/* The owner of the trigger. Only one side leaves each state. */
enum slot {
	SLOT_FREE,    /* no owner */
	SLOT_CLAIMED, /* the caller that fills it */
	SLOT_FIRED,   /* the thread, until the file is written */
};

struct twi_trace_writer {
	struct twi_diag *diag;
	struct twi_trace_writer_options options;
	int stop_fd, event_fd;
	bool running;
	pthread_t thread;
	_Atomic int signal; /* 0: none */
	/* A release hands over the trigger and the bounds; an acquire takes them. */
	_Atomic uint32_t slot;
	struct twi_trace_trigger trigger;
	struct twi_trace_bounds bounds;
};

bool twi_trace_bounds_take(struct twi_trace_bounds *bounds, uint64_t now_ns)
{
	if (bounds->begun >= TWI_TRIGGERED_MAX || now_ns < bounds->next_ns)
		return false;
	bounds->begun++;
	bounds->next_ns = now_ns + TWI_TRIGGERED_APART_NS;
	return true;
}

/* Waits for the end of the capture's time, or until the writer stops. */
static void wait_for_end(const struct twi_trace_writer *self)
{
	struct pollfd polled = { .fd = self->stop_fd, .events = POLLIN };

	poll(&polled, 1, (int)self->options.seconds * 1000);
}

static void capture_window(struct twi_trace_writer *self, const struct twi_trace_trigger *trigger)
{
	struct twi_trace trace = { 0 };
	struct twi_trace_capture *running;
	char path[TWI_TRACE_PATH];
	size_t count;
	int status = twi_trace_capture_start_since(self->diag, trigger->since_ns, &running);

	if (status == TOW_OK) {
		if (trigger->since_ns != 0)
			twi_count(self->diag, TWI_C_triggered_captures, 1);
		wait_for_end(self);
		status = twi_trace_capture_finish(running, &trace);
	}
	if (status == TOW_OK)
		status = twi_trace_file_write(&trace, self->options.dir, trigger->session, path,
					      &count);
	if (status == TOW_OK)
		twi_log(self->diag, 3, "trace of %s: %zu bytes in '%s'", trigger->why, count, path);
	else
		twi_log(self->diag, 2, "trace of %s: %.200s", trigger->why, tow_error_message());
	twi_trace_fini(&trace);
}

static void serve_signal(struct twi_trace_writer *self)
{
	struct twi_trace_trigger trigger = { .since_ns = 0 };

	snprintf(trigger.why, sizeof(trigger.why), "signal %d", atomic_load(&self->signal));
	twi_trace_session_at("", (uint64_t)time(NULL), trigger.session);
	capture_window(self, &trigger);
}

static void serve_trigger(struct twi_trace_writer *self)
{
	if (atomic_load_explicit(&self->slot, memory_order_acquire) != SLOT_FIRED)
		return;
	capture_window(self, &self->trigger);
	atomic_store_explicit(&self->slot, SLOT_FREE, memory_order_release);
}

static void *writer_work(void *arg)
{
	struct twi_trace_writer *self = arg;

	for (;;) {
		struct pollfd polled[2] = { { .fd = self->stop_fd, .events = POLLIN },
					    { .fd = self->event_fd, .events = POLLIN } };
		uint64_t told;

		if (poll(polled, 2, -1) < 0)
			continue;
		if (read(self->event_fd, &told, sizeof(told)) != (ssize_t)sizeof(told))
			told = 0;
		if (told >= EVENT_FIRED)
			serve_trigger(self);
		if (told % EVENT_FIRED != 0)
			serve_signal(self);
		/* Serves these events first: the last step of a job may be the slow one. */
		if (polled[0].revents != 0)
			return NULL;
	}
}

static void tell_thread(int fd, uint64_t event)
{
	ssize_t wrote = write(fd, &event, sizeof(event));

	(void)wrote; /* if full, it is readable already */
}

struct twi_trace_trigger *twi_trace_writer_claim(struct twi_trace_writer *self)
{
	uint32_t state = SLOT_FREE;

	if (self == NULL)
		return NULL;
	if (atomic_compare_exchange_strong_explicit(&self->slot, &state, SLOT_CLAIMED,
						    memory_order_acquire, memory_order_relaxed)) {
		if (twi_trace_bounds_take(&self->bounds, twi_now_ns()))
			return &self->trigger;
		atomic_store_explicit(&self->slot, SLOT_FREE, memory_order_release);
	}
	twi_count(self->diag, TWI_C_triggers_passed_over, 1);
	return NULL;
}

void twi_trace_writer_fire(struct twi_trace_writer *self)
{
	atomic_store_explicit(&self->slot, SLOT_FIRED, memory_order_release);
	tell_thread(self->event_fd, EVENT_FIRED);
}

int twi_trace_writer_listen(struct twi_trace_writer *self, int signal)
{
	atomic_store(&self->signal, signal);
	return self->event_fd;
}

static int start_thread(struct twi_trace_writer *self)
{
	int err;

	self->stop_fd = twi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	self->event_fd = twi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (self->stop_fd < 0 || self->event_fd < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "eventfd for traces");
	err = twi_thread_start(&self->thread, NULL, 0, writer_work, self);
	if (err != 0)
		return twi_error_errno(TOW_ESYSTEM, err, "a thread that writes traces");
	self->running = true;
	return TOW_OK;
}

int twi_trace_writer_open(struct twi_diag *diag, const struct twi_trace_writer_options *options,
			  struct twi_trace_writer **out)
{
	struct twi_trace_writer *self = calloc(1, sizeof(*self));
	int status;

	*out = NULL;
	if (self == NULL)
		return twi_error(TOW_ENOMEM, "no memory to write traces");
	self->diag = diag;
	self->options = *options;
	status = start_thread(self);
	if (status < 0) {
		twi_trace_writer_close(self);
		return status;
	}
	*out = self;
	return TOW_OK;
}

void twi_trace_writer_stop(struct twi_trace_writer *self)
{
	if (self == NULL || !self->running)
		return;
	tell_thread(self->stop_fd, 1);
	pthread_join(self->thread, NULL);
	self->running = false;
}

void twi_trace_writer_close(struct twi_trace_writer *self)
{
	if (self == NULL)
		return;
	twi_trace_writer_stop(self);
	if (self->stop_fd >= 0)
		close(self->stop_fd);
	if (self->event_fd >= 0)
		close(self->event_fd);
	free(self);
}
