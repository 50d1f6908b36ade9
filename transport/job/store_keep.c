/*
 * store_keep.c - keeps an idle client connected. See store_keep.h.
 */
#include "transport/job/store_keep.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/base/thread.h"
#include "diag/record/diag.h"
#include "transport/job/store.h"

#define ATTEMPT_NS (1000ull * 1000000) /* a request waits for the lock that long */
#define PAUSE_MS   50                  /* between attempts: requests may go ahead */
#define BLIND_MS   1000                /* there is no descriptor to wait with */

/* Makes the connection anew, unless a request has done it. *fd_out: to wait for its end, or -1. */
static int keep_connected(struct twi_store_keep *keep, int *fd_out)
{
	const struct twi_until until = { twi_net_now() + ATTEMPT_NS, keep->stop_fd, NULL };
	int status;

	pthread_mutex_lock(keep->lock);
	status = twi_store_client_mend(keep->client, &until);
	*fd_out = status == TOW_OK ? twi_store_client_copy(keep->client) : -1;
	pthread_mutex_unlock(keep->lock);
	return status;
}

/* Sleeps until the connection ends. False: the thread is to end. */
static bool await_end(const struct twi_store_keep *keep, int fd, int pause_ms)
{
	struct pollfd fds[2] = { { .fd = keep->stop_fd, .events = POLLIN },
				 { .fd = fd, .events = POLLRDHUP } };

	while (poll(fds, 2, fd >= 0 ? -1 : pause_ms) < 0 && errno == EINTR)
		;
	return fds[0].revents == 0;
}

static void *keep_run(void *arg)
{
	struct twi_store_keep *keep = arg;
	uint64_t since_ns = 0;
	int fd = -1, status = TOW_OK;

	for (bool first = true;
	     first || await_end(keep, fd, status == TOW_OK ? BLIND_MS : PAUSE_MS); first = false) {
		if (fd >= 0)
			close(fd);
		if (since_ns == 0)
			since_ns = twi_net_now();
		status = keep_connected(keep, &fd);
		if (status == TOW_OK)
			since_ns = 0;
		else if (status == TOW_ECANCELED ||
			 (status != TOW_EDEADLINE && status != TOW_EREFUSED) ||
			 twi_net_now() - since_ns >= TWI_STORE_GRACE_NS)
			break;
	}
	if (fd >= 0)
		close(fd);
	if (status < 0 && status != TOW_ECANCELED)
		twi_log(keep->diag, 2, "the connection to the job's store broke: %s",
			tow_error_message());
	return NULL;
}

void twi_store_keep_start(struct twi_store_keep *keep, struct twi_store_client *client,
			  pthread_mutex_t *lock, struct twi_diag *diag)
{
	int err;

	*keep = (struct twi_store_keep){ .client = client, .lock = lock, .diag = diag };
	keep->stop_fd = twi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	err = keep->stop_fd < 0 ? errno : 0;
	if (err == 0)
		err = twi_thread_start(&keep->thread, "tow-keep", 0, keep_run, keep);
	keep->runs = err == 0;
	if (err == 0)
		return;
	if (keep->stop_fd >= 0)
		close(keep->stop_fd);
	twi_log(diag, 2,
		"the job's store takes this rank for gone if its connection breaks while the rank "
		"asks for nothing: there is no thread to make another one (%s)",
		strerror(err));
}

void twi_store_keep_stop(struct twi_store_keep *keep)
{
	const uint64_t one = 1;

	if (!keep->runs)
		return;
	while (write(keep->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(keep->thread, NULL);
	close(keep->stop_fd);
	keep->runs = false;
}
