/*
 * trace_signal.c - the handler, which only writes to an eventfd, and the thread behind it.
 */
#include "diag/trace/capture/trace_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/base/signals.h"
#include "diag/base/thread.h"
#include "diag/record/diag.h"
#include "diag/trace/capture/trace_capture.h"
#include "diag/trace/export/export.h"

struct twi_trace_signal {
	struct twi_diag *diag;
	struct twi_trace_signal_options options;
	int stop_fd, event_fd;
	pthread_t thread;
	struct sigaction before;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of who has the handler */
static struct twi_trace_signal *owner;
/* What the handler looks at: set before it is installed, and -1 before what it names goes. */
static _Atomic int handler_fd = -1;
static _Atomic(void (*)(int)) handler_before;
static _Atomic(void (*)(int, siginfo_t *, void *)) handler_before_info;

/* Only what is safe in a signal handler. */
static void on_signal(int number, siginfo_t *info, void *context)
{
	int kept = errno, fd = atomic_load_explicit(&handler_fd, memory_order_acquire);
	void (*before_info)(int, siginfo_t *, void *) =
		atomic_load_explicit(&handler_before_info, memory_order_relaxed);
	void (*before)(int) = atomic_load_explicit(&handler_before, memory_order_relaxed);
	uint64_t one = 1;
	ssize_t wrote = fd >= 0 ? write(fd, &one, sizeof(one)) : 0;

	(void)wrote; /* full: it is readable as it is */
	errno = kept;
	if (before_info != NULL)
		before_info(number, info, context);
	else if (before != NULL)
		before(number);
}

static int make_dirs(char *path)
{
	for (char *at = path + 1; *at != '\0'; at++) {
		if (*at != '/')
			continue;
		*at = '\0';
		if (mkdir(path, 0777) != 0 && errno != EEXIST)
			return twi_error_errno(TOW_ESYSTEM, errno, "mkdir '%s'", path);
		*at = '/';
	}
	return TOW_OK;
}

static int write_file(const char *path, const char *bytes, size_t count)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
	size_t done = 0;

	if (fd < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "open '%s'", path);
	while (done < count) {
		ssize_t wrote = write(fd, bytes + done, count - done);

		if (wrote < 0 && errno != EINTR) {
			int err = errno;

			close(fd);
			unlink(path);
			return twi_error_errno(TOW_ESYSTEM, err, "write '%s'", path);
		}
		done += wrote > 0 ? (size_t)wrote : 0;
	}
	return close(fd) == 0 ? TOW_OK : twi_error_errno(TOW_ESYSTEM, errno, "close '%s'", path);
}

/* Under another name until it is whole: who looks for traces finds no half of one. */
static int save_trace(const struct twi_trace_signal *self, const struct twi_trace *trace)
{
	const struct twi_trace_rank *rank = &trace->ranks[0];
	const char *dir = self->options.dir[0] != '\0' ? self->options.dir : ".";
	char path[700], part[720], stamp[32];
	time_t now = time(NULL);
	struct tm when;
	size_t count;
	char *bytes;
	int status = twi_export_xspace(trace, &bytes, &count);

	if (status < 0)
		return status;
	gmtime_r(&now, &when);
	strftime(stamp, sizeof(stamp), "%Y_%m_%d_%H_%M_%S", &when);
	snprintf(path, sizeof(path), "%.300s/plugins/profile/%s/%.255s-%lld.xplane.pb", dir, stamp,
		 rank->host, (long long)rank->rank);
	snprintf(part, sizeof(part), "%s.%ld", path, (long)getpid());
	status = make_dirs(path);
	if (status == TOW_OK)
		status = write_file(part, bytes, count);
	free(bytes);
	if (status == TOW_OK && rename(part, path) != 0)
		status = twi_error_errno(TOW_ESYSTEM, errno, "rename '%s'", path);
	if (status == TOW_OK)
		twi_log(self->diag, 3, "trace: %zu bytes in '%s'", count, path);
	return status;
}

/* True: it is time to stop. */
static bool stops_within(const struct twi_trace_signal *self, int64_t ms)
{
	struct pollfd polled = { .fd = self->stop_fd, .events = POLLIN };

	return poll(&polled, 1, (int)ms) != 0;
}

static void capture_window(const struct twi_trace_signal *self)
{
	struct twi_trace_capture *running;
	struct twi_trace trace = { 0 };
	int status = twi_trace_capture_start(self->diag, &running);

	if (status == TOW_OK) {
		bool stopped = stops_within(self, (int64_t)self->options.seconds * 1000);

		status = twi_trace_capture_finish(running, stopped ? NULL : &trace);
		if (status == TOW_OK && !stopped)
			status = save_trace(self, &trace);
	}
	if (status < 0)
		twi_log(self->diag, 2, "trace by signal %d: %.200s", self->options.signal,
			tow_error_message());
	twi_trace_fini(&trace);
}

static void *signal_work(void *arg)
{
	struct twi_trace_signal *self = arg;

	for (;;) {
		struct pollfd polled[2] = { { .fd = self->stop_fd, .events = POLLIN },
					    { .fd = self->event_fd, .events = POLLIN } };
		uint64_t told;

		if (poll(polled, 2, -1) < 0)
			continue;
		if (polled[0].revents != 0)
			return NULL;
		if (polled[1].revents != 0 &&
		    read(self->event_fd, &told, sizeof(told)) == (ssize_t)sizeof(told))
			capture_window(self);
	}
}

static int start_thread(struct twi_trace_signal *self)
{
	int err = twi_thread_start(&self->thread, NULL, 0, signal_work, self);

	return err == 0 ? TOW_OK : twi_error_errno(TOW_ESYSTEM, err, "a thread for trace_signal");
}

/* The lock is held. */
static int install_handler(struct twi_trace_signal *self)
{
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_RESTART };

	if (owner != NULL)
		return twi_error(TOW_EBUSY,
				 "trace_signal: another runtime of this process has signal %d",
				 owner->options.signal);
	sigemptyset(&action.sa_mask);
	if (sigaction(self->options.signal, NULL, &self->before) != 0)
		return twi_error_errno(TOW_EINVAL, errno, "trace_signal = %d",
				       self->options.signal);
	atomic_store_explicit(&handler_before_info, NULL, memory_order_relaxed);
	atomic_store_explicit(&handler_before, NULL, memory_order_relaxed);
	if ((self->before.sa_flags & SA_SIGINFO) != 0)
		atomic_store_explicit(&handler_before_info, self->before.sa_sigaction,
				      memory_order_relaxed);
	else if (self->before.sa_handler != SIG_DFL && self->before.sa_handler != SIG_IGN)
		atomic_store_explicit(&handler_before, self->before.sa_handler,
				      memory_order_relaxed);
	atomic_store_explicit(&handler_fd, self->event_fd, memory_order_release);
	if (sigaction(self->options.signal, &action, NULL) != 0) {
		int err = errno;

		atomic_store_explicit(&handler_fd, -1, memory_order_release);
		return twi_error_errno(TOW_EINVAL, err, "trace_signal = %d", self->options.signal);
	}
	owner = self;
	return TOW_OK;
}

static void uninstall_handler(struct twi_trace_signal *self)
{
	struct sigaction now;

	pthread_mutex_lock(&lock);
	if (owner == self) {
		owner = NULL;
		if (sigaction(self->options.signal, NULL, &now) == 0 &&
		    (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_signal)
			sigaction(self->options.signal, &self->before, NULL);
		atomic_store_explicit(&handler_fd, -1, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
}

static void free_signal(struct twi_trace_signal *self)
{
	if (self->stop_fd >= 0)
		close(self->stop_fd);
	if (self->event_fd >= 0)
		close(self->event_fd);
	free(self);
}

int twi_trace_signal_open(struct twi_diag *diag, const struct twi_trace_signal_options *options,
			  struct twi_trace_signal **out)
{
	struct twi_trace_signal *self = calloc(1, sizeof(*self));
	int status = TOW_OK;

	*out = NULL;
	if (self == NULL)
		return twi_error(TOW_ENOMEM, "no memory for trace_signal");
	self->diag = diag;
	self->options = *options;
	self->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	self->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (self->stop_fd < 0 || self->event_fd < 0)
		status = twi_error_errno(TOW_ESYSTEM, errno, "eventfd for trace_signal");
	if (status == TOW_OK)
		status = twi_signal_check("trace_signal", self->options.signal);
	if (status == TOW_OK) {
		pthread_mutex_lock(&lock);
		status = install_handler(self);
		pthread_mutex_unlock(&lock);
	}
	if (status == TOW_OK)
		status = start_thread(self);
	if (status < 0) {
		uninstall_handler(self);
		free_signal(self);
		return status;
	}
	*out = self;
	return TOW_OK;
}

void twi_trace_signal_close(struct twi_trace_signal *self)
{
	uint64_t one = 1;
	ssize_t wrote;

	if (self == NULL)
		return;
	uninstall_handler(self);
	wrote = write(self->stop_fd, &one, sizeof(one));
	(void)wrote;
	pthread_join(self->thread, NULL);
	free_signal(self);
}
