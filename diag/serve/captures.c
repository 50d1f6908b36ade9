/*
 * captures.c - a table of captures, and a thread that polls until one is due or its client is gone.
 *
 * FREE -> BEGUN (the server's) -> WAITING (the thread's) -> DONE (the server's, woken) -> FREE.
 * A client is gone when it has closed its end of the socket, even if only for sending. MHD would
 * not answer such a client after a suspension either.
 */
#include "diag/serve/captures.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/base/thread.h"

enum run_state { RUN_FREE, RUN_BEGUN, RUN_WAITING, RUN_DONE };

struct twi_capture_run {
	enum run_state state;
	struct twi_capture capture;
	void *session, *who;
	int fd;
	uint64_t due_ns;
	int status;
	char *bytes;
	size_t count;
	const char *content_type;
	char why[256];
};

struct twi_captures {
	pthread_mutex_t lock;
	void (*wake)(void *who);
	pthread_t thread;
	bool threaded, stopping;
	int event_fd; /* written to wake the thread */
	struct twi_capture_run runs[TWI_CAPTURES_MAX];
};

int twi_captures_create(void (*wake)(void *who), struct twi_captures **out)
{
	struct twi_captures *captures = calloc(1, sizeof(*captures));

	*out = NULL;
	if (captures == NULL)
		return twi_error(TOW_ENOMEM, "no memory for captures");
	captures->event_fd = twi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (captures->event_fd < 0) {
		int err = errno;

		free(captures);
		return twi_error_errno(TOW_ESYSTEM, err, "eventfd for captures");
	}
	pthread_mutex_init(&captures->lock, NULL);
	captures->wake = wake;
	*out = captures;
	return TOW_OK;
}

static void nudge_thread(struct twi_captures *captures)
{
	uint64_t one = 1;
	ssize_t wrote = write(captures->event_fd, &one, sizeof(one));

	(void)wrote; /* if full, it is readable already */
}

/* Finishes a waiting run, or ends it without a result. No lock: no other thread has the run. */
static void finish_run(struct twi_capture_run *run, bool wanted)
{
	run->bytes = NULL;
	run->count = 0;
	run->status = run->capture.finish(run->capture.arg, run->session,
					  wanted ? &run->bytes : NULL, wanted ? &run->count : NULL);
	run->why[0] = '\0';
	if (wanted && run->status < 0)
		snprintf(run->why, sizeof(run->why), "%s", tow_error_message());
	if (!wanted)
		run->status = TOW_ECANCELED;
}

/* Takes a run from WAITING to DONE. */
static void complete_run(struct twi_captures *captures, struct twi_capture_run *run, bool wanted)
{
	void *who = run->who;

	finish_run(run, wanted);
	pthread_mutex_lock(&captures->lock);
	run->state = RUN_DONE;
	pthread_mutex_unlock(&captures->lock);
	captures->wake(who); /* from here on the server owns the run */
}

/* Fills the set for poll and returns the timeout. at[i] is the run that polled[i] belongs to. */
static int prepare_poll(struct twi_captures *captures, struct pollfd *polled, unsigned *at,
			unsigned *count_out)
{
	uint64_t now = twi_now_ns(), due = UINT64_MAX;
	unsigned count = 1;

	polled[0] = (struct pollfd){ .fd = captures->event_fd, .events = POLLIN };
	pthread_mutex_lock(&captures->lock);
	for (unsigned i = 0; i < TWI_CAPTURES_MAX; i++) {
		const struct twi_capture_run *run = &captures->runs[i];

		if (run->state != RUN_WAITING)
			continue;
		due = twi_min(due, run->due_ns);
		at[count] = i;
		polled[count++] = (struct pollfd){ .fd = run->fd, .events = POLLRDHUP };
	}
	if (captures->stopping)
		due = 0;
	pthread_mutex_unlock(&captures->lock);
	*count_out = count;
	if (due == UINT64_MAX)
		return -1;
	return due <= now ? 0 : (int)((due - now) / 1000000 + 1);
}

static bool is_stopping(struct twi_captures *captures)
{
	bool stopping;

	pthread_mutex_lock(&captures->lock);
	stopping = captures->stopping;
	pthread_mutex_unlock(&captures->lock);
	return stopping;
}

static void *captures_work(void *arg)
{
	struct twi_captures *captures = arg;
	struct pollfd polled[TWI_CAPTURES_MAX + 1];
	unsigned at[TWI_CAPTURES_MAX + 1], count;

	while (!is_stopping(captures)) {
		int timeout = prepare_poll(captures, polled, at, &count);
		int ready = poll(polled, count, timeout);
		uint64_t told, now = twi_now_ns();

		while (read(captures->event_fd, &told, sizeof(told)) > 0)
			continue;
		for (unsigned i = 1; i < count && !is_stopping(captures); i++) {
			struct twi_capture_run *run = &captures->runs[at[i]];
			bool gone = ready > 0 && polled[i].revents != 0;

			if (gone || run->due_ns <= now)
				complete_run(captures, run, !gone);
		}
	}
	/* From now on, twi_captures_wait itself ends the runs that it gets. */
	prepare_poll(captures, polled, at, &count);
	for (unsigned i = 1; i < count; i++)
		complete_run(captures, &captures->runs[at[i]], false);
	return NULL;
}

/* The lock is held. */
static int start_thread(struct twi_captures *captures)
{
	int err;

	if (captures->threaded)
		return TOW_OK;
	err = twi_thread_start(&captures->thread, NULL, 0, captures_work, captures);
	if (err != 0)
		return twi_error_errno(TOW_ESYSTEM, err, "a thread for captures");
	captures->threaded = true;
	return TOW_OK;
}

/* Takes a slot, in state BEGUN; NULL: all are taken. The lock is held. */
static struct twi_capture_run *take_place(struct twi_captures *captures)
{
	for (unsigned i = 0; i < TWI_CAPTURES_MAX; i++) {
		if (captures->runs[i].state != RUN_FREE)
			continue;
		captures->runs[i] = (struct twi_capture_run){ .state = RUN_BEGUN };
		return &captures->runs[i];
	}
	return NULL;
}

int twi_captures_begin(struct twi_captures *captures, const struct twi_capture *capture,
		       const struct twi_http_wish *wish, int fd, void *who,
		       struct twi_capture_run **out)
{
	struct twi_capture_run *run = NULL;
	uint64_t wait_ns = 0;
	int status;

	*out = NULL;
	pthread_mutex_lock(&captures->lock);
	status = captures->stopping ? twi_error(TOW_ECLOSED, "the stats socket is being closed")
				    : start_thread(captures);
	if (status == TOW_OK) {
		run = take_place(captures);
		if (run == NULL)
			status = twi_error(TOW_EBUSY, "%d captures are under way already",
					   TWI_CAPTURES_MAX);
	}
	pthread_mutex_unlock(&captures->lock);
	if (run == NULL)
		return status;
	run->capture = *capture;
	run->fd = fd;
	run->who = who;
	run->content_type = capture->content_type;
	status = capture->start(capture->arg, wish->seconds, &run->session, &wait_ns);
	if (status == TOW_OK && capture->formats != NULL) {
		run->content_type = capture->formats[wish->format].content_type;
		status = capture->choose(capture->arg, run->session, wish->format);
		if (status < 0)
			capture->finish(capture->arg, run->session, NULL, NULL);
	}
	if (status < 0) {
		twi_captures_end(captures, run);
		return status;
	}
	run->due_ns = twi_now_ns() + wait_ns;
	*out = run;
	return TOW_OK;
}

void twi_captures_wait(struct twi_captures *captures, struct twi_capture_run *run)
{
	bool stopping;

	pthread_mutex_lock(&captures->lock);
	run->state = RUN_WAITING;
	stopping = captures->stopping;
	/* While stopping, the thread may not read the table again. */
	if (stopping)
		run->state = RUN_BEGUN;
	pthread_mutex_unlock(&captures->lock);
	if (stopping)
		complete_run(captures, run, false);
	else
		nudge_thread(captures);
}

int twi_captures_take(struct twi_capture_run *run, char **bytes_out, size_t *count_out)
{
	*bytes_out = run->bytes;
	*count_out = run->count;
	run->bytes = NULL;
	return run->status;
}

const char *twi_captures_type(const struct twi_capture_run *run)
{
	return run->content_type;
}

const char *twi_captures_why(const struct twi_capture_run *run)
{
	return run->why;
}

void twi_captures_end(struct twi_captures *captures, struct twi_capture_run *run)
{
	free(run->bytes);
	pthread_mutex_lock(&captures->lock);
	run->bytes = NULL;
	run->state = RUN_FREE;
	pthread_mutex_unlock(&captures->lock);
}

void twi_captures_stop(struct twi_captures *captures)
{
	bool threaded;

	pthread_mutex_lock(&captures->lock);
	captures->stopping = true;
	threaded = captures->threaded;
	captures->threaded = false;
	pthread_mutex_unlock(&captures->lock);
	if (!threaded)
		return;
	nudge_thread(captures);
	pthread_join(captures->thread, NULL);
}

void twi_captures_destroy(struct twi_captures *captures)
{
	if (captures == NULL)
		return;
	pthread_mutex_destroy(&captures->lock);
	close(captures->event_fd);
	free(captures);
}
