/* trace_signal.c - the handler, which only writes to an eventfd. */
#include "diag/trace/capture/trace_signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/base/signals.h"
#include "diag/trace/capture/trace_writer.h"

struct twi_trace_signal {
	int signal, event_fd;
	struct sigaction before;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards owner and the handler */
static struct twi_trace_signal *owner;
/* For the handler. handler_fd is set before it is installed, and -1 before the fd is closed. */
static _Atomic int handler_fd = -1;
static _Atomic(void (*)(int)) handler_before;
static _Atomic(void (*)(int, siginfo_t *, void *)) handler_before_info;

/* Does only what is safe in a signal handler. */
static void on_signal(int number, siginfo_t *info, void *context)
{
	int kept = errno, fd = atomic_load_explicit(&handler_fd, memory_order_acquire);
	void (*before_info)(int, siginfo_t *, void *) =
		atomic_load_explicit(&handler_before_info, memory_order_relaxed);
	void (*before)(int) = atomic_load_explicit(&handler_before, memory_order_relaxed);
	uint64_t one = 1;
	ssize_t wrote = fd >= 0 ? write(fd, &one, sizeof(one)) : 0;

	(void)wrote; /* if full, it is readable already */
	errno = kept;
	if (before_info != NULL)
		before_info(number, info, context);
	else if (before != NULL)
		before(number);
}

/* The lock is held. */
static int install_handler(struct twi_trace_signal *self)
{
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_RESTART };

	if (owner != NULL)
		return twi_error(TOW_EBUSY,
				 "trace_signal: another runtime of this process has signal %d",
				 owner->signal);
	sigemptyset(&action.sa_mask);
	if (sigaction(self->signal, NULL, &self->before) != 0)
		return twi_error_errno(TOW_EINVAL, errno, "trace_signal = %d", self->signal);
	atomic_store_explicit(&handler_before_info, NULL, memory_order_relaxed);
	atomic_store_explicit(&handler_before, NULL, memory_order_relaxed);
	if ((self->before.sa_flags & SA_SIGINFO) != 0)
		atomic_store_explicit(&handler_before_info, self->before.sa_sigaction,
				      memory_order_relaxed);
	else if (self->before.sa_handler != SIG_DFL && self->before.sa_handler != SIG_IGN)
		atomic_store_explicit(&handler_before, self->before.sa_handler,
				      memory_order_relaxed);
	atomic_store_explicit(&handler_fd, self->event_fd, memory_order_release);
	if (sigaction(self->signal, &action, NULL) != 0) {
		int err = errno;

		atomic_store_explicit(&handler_fd, -1, memory_order_release);
		return twi_error_errno(TOW_EINVAL, err, "trace_signal = %d", self->signal);
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
		if (sigaction(self->signal, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
		    now.sa_sigaction == on_signal)
			sigaction(self->signal, &self->before, NULL);
		atomic_store_explicit(&handler_fd, -1, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
}

int twi_trace_signal_open(struct twi_trace_writer *writer, int signal,
			  struct twi_trace_signal **out)
{
	struct twi_trace_signal *self = calloc(1, sizeof(*self));
	int status;

	*out = NULL;
	if (self == NULL)
		return twi_error(TOW_ENOMEM, "no memory for trace_signal");
	self->signal = signal;
	self->event_fd = twi_trace_writer_listen(writer, signal);
	status = twi_signal_check("trace_signal", signal);
	if (status == TOW_OK) {
		pthread_mutex_lock(&lock);
		status = install_handler(self);
		pthread_mutex_unlock(&lock);
	}
	if (status < 0) {
		free(self);
		return status;
	}
	*out = self;
	return TOW_OK;
}

void twi_trace_signal_close(struct twi_trace_signal *self)
{
	if (self == NULL)
		return;
	uninstall_handler(self);
	free(self);
}
