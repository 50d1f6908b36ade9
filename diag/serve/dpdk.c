/*
 * dpdk.c - the thread of the DPDK telemetry socket; diag/serve/dpdk_reply.c knows what to say.
 *
 *	poll --- listener              a client more, or one too many
 *	     \-- stop                  twi_dpdk_close
 *	     \-- clients               readable: one request, one reply at once
 *	                               owing a reply: only writable is waited for, TWI_DPDK_STUCK_S
 *
 * Nothing here waits for a client. A packet goes whole or not at all, so a reply that finds no room
 * is kept as it is.
 */
#include "diag/serve/dpdk.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <internal/base.h>
#include <towline/stats.h>

#include "diag/base/error.h"
#include "diag/base/thread.h"
#include "diag/record/diag.h"
#include "diag/serve/dpdk_reply.h"
#include "diag/serve/listen.h"
#include "diag/serve/stats_dir.h"

#define STACK_BYTES (512u << 10)
#define NS_PER_S    1000000000ull
#define TICK_MS     250

struct client {
	int fd; /* -1: the place is free */
	uint64_t heard_ns;
	uint64_t owing_ns; /* since when a reply waits for room; 0: none does */
	size_t owed_bytes;
	char *owed;
};

struct twi_dpdk {
	struct twi_diag *diag;
	struct twi_listen listener;
	int stop;
	bool deaf; /* there was no descriptor for a client: the listener rests for a tick */
	pthread_t thread;
	struct client clients[TWI_DPDK_CLIENTS];
	char reply[TWI_DPDK_OUTPUT_MAX];
};

static void hang_up(struct client *client)
{
	close(client->fd);
	free(client->owed);
	*client = (struct client){ .fd = -1 };
}

static bool keep_reply(struct client *client, const char *reply, size_t bytes)
{
	client->owed = malloc(bytes);
	if (client->owed == NULL)
		return false;
	memcpy(client->owed, reply, bytes);
	client->owed_bytes = bytes;
	client->owing_ns = twi_now_ns();
	return true;
}

/* Sends, or keeps what found no room. */
static void say(struct client *client, const char *reply, size_t bytes)
{
	ssize_t sent = send(client->fd, reply, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent >= 0)
		return;
	if ((errno != EAGAIN && errno != ENOBUFS) || !keep_reply(client, reply, bytes))
		hang_up(client);
}

static void say_owed(struct client *client)
{
	ssize_t sent =
		send(client->fd, client->owed, client->owed_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent >= 0) {
		free(client->owed);
		client->owed = NULL;
		client->owing_ns = 0;
	} else if (errno != EAGAIN && errno != ENOBUFS) {
		hang_up(client);
	}
}

/* An empty packet and the end of the stream look the same: both are goodbye. */
static void listen_to(struct twi_dpdk *dpdk, struct client *client)
{
	char request[TWI_DPDK_REQUEST_MAX];
	ssize_t got = recv(client->fd, request, sizeof(request), MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		hang_up(client);
		return;
	}
	client->heard_ns = twi_now_ns();
	twi_count(dpdk->diag, TWI_C_dpdk_requests, 1);
	say(client, dpdk->reply, twi_dpdk_reply(dpdk->diag, request, (size_t)got, dpdk->reply));
}

static bool allowed(int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
	       (peer.uid == 0 || peer.uid == geteuid());
}

/* A free place, or that of who has been silent the longest, if it is long enough; NULL. */
static struct client *place(struct twi_dpdk *dpdk, uint64_t now_ns)
{
	struct client *oldest = &dpdk->clients[0];

	for (unsigned i = 0; i < TWI_DPDK_CLIENTS; i++) {
		struct client *client = &dpdk->clients[i];

		if (client->fd < 0)
			return client;
		if (client->heard_ns < oldest->heard_ns)
			oldest = client;
	}
	if (now_ns - oldest->heard_ns < TWI_DPDK_IDLE_S * NS_PER_S)
		return NULL;
	hang_up(oldest);
	return oldest;
}

static void welcome(struct twi_dpdk *dpdk)
{
	uint64_t now = twi_now_ns();
	int fd = accept4(dpdk->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct client *client;

	if (fd < 0) {
		dpdk->deaf =
			errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
		return;
	}
	client = allowed(fd) ? place(dpdk, now) : NULL;
	if (client == NULL) {
		twi_count(dpdk->diag, TWI_C_dpdk_refused, 1);
		close(fd);
		return;
	}
	*client = (struct client){ .fd = fd, .heard_ns = now };
	say(client, dpdk->reply, twi_dpdk_greet(dpdk->reply));
}

static void drop_stuck(struct twi_dpdk *dpdk)
{
	uint64_t now = twi_now_ns();

	for (unsigned i = 0; i < TWI_DPDK_CLIENTS; i++) {
		struct client *client = &dpdk->clients[i];

		if (client->fd < 0 || client->owing_ns == 0 ||
		    now - client->owing_ns < TWI_DPDK_STUCK_S * NS_PER_S)
			continue;
		twi_count(dpdk->diag, TWI_C_dpdk_dropped, 1);
		hang_up(client);
	}
}

static bool turn(struct twi_dpdk *dpdk)
{
	struct pollfd polled[TWI_DPDK_CLIENTS + 2] = {
		{ .fd = dpdk->stop, .events = POLLIN },
		{ .fd = dpdk->deaf ? -1 : dpdk->listener.fd, .events = POLLIN },
	};
	bool ticks = dpdk->deaf;

	for (unsigned i = 0; i < TWI_DPDK_CLIENTS; i++) {
		const struct client *client = &dpdk->clients[i];

		polled[i + 2].fd = client->fd;
		polled[i + 2].events = client->owing_ns != 0 ? POLLOUT : POLLIN;
		ticks |= client->fd >= 0 && client->owing_ns != 0;
	}
	dpdk->deaf = false;
	if (poll(polled, TWI_DPDK_CLIENTS + 2, ticks ? TICK_MS : -1) < 0 && errno != EINTR)
		return false;
	if (polled[0].revents != 0)
		return false;
	for (unsigned i = 0; i < TWI_DPDK_CLIENTS; i++) {
		struct client *client = &dpdk->clients[i];

		if (client->fd < 0 || polled[i + 2].revents == 0)
			continue;
		if (client->owing_ns != 0)
			say_owed(client);
		else
			listen_to(dpdk, client);
	}
	drop_stuck(dpdk);
	if (polled[1].revents != 0)
		welcome(dpdk);
	return true;
}

static void *work(void *arg)
{
	while (turn(arg))
		continue;
	return NULL;
}

static int start(struct twi_dpdk *dpdk)
{
	int err = twi_thread_start(&dpdk->thread, "tow-dpdk", STACK_BYTES, work, dpdk);

	if (err == 0)
		return TOW_OK;
	return twi_error_errno(TOW_ESYSTEM, err, "no thread for the telemetry socket '%s'",
			       dpdk->listener.path);
}

/* A path of the user's, cut into its folder and its file. */
static int open_path(const char *path, struct twi_listen *out)
{
	char dir[sizeof(out->path)];
	const char *slash = strrchr(path, '/');
	struct twi_listen_name name = {
		.dir = dir, .end = "", .type = SOCK_SEQPACKET, .colon = true
	};

	if (path[0] != '/' || slash == path || slash[1] == '\0' || strlen(path) >= sizeof(dir))
		return twi_error(TOW_EINVAL,
				 "dpdk_telemetry '%.120s' is neither auto nor an absolute path of "
				 "a file, at most %zu bytes",
				 path, sizeof(dir) - 1);
	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	name.stem = slash + 1;
	return twi_listen_open(&name, out);
}

static int open_listener(const char *where, const char *dir, const char *job, int64_t rank,
			 struct twi_listen *out)
{
	char own[256], stem[TWI_LISTEN_STEM_BYTES];
	struct twi_listen_name name = {
		.dir = dir, .stem = stem, .end = ".dpdk", .type = SOCK_SEQPACKET
	};
	int status;

	if (strcmp(where, "auto") != 0)
		return open_path(where, out);
	if (dir == NULL || dir[0] == '\0') {
		unsigned index = 0;

		status = twi_stats_dir_find(NULL, &index, own, sizeof(own));
		if (status < 0)
			return status;
		name.dir = own;
	}
	status = twi_listen_stem(job, rank, stem);
	return status == TOW_OK ? twi_listen_open(&name, out) : status;
}

int twi_dpdk_open(struct twi_diag *diag, const char *where, const char *dir, const char *job,
		  int64_t rank, struct twi_dpdk **out)
{
	struct twi_dpdk *dpdk = calloc(1, sizeof(*dpdk));
	int status;

	*out = NULL;
	if (dpdk == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the telemetry socket");
	dpdk->diag = diag;
	for (unsigned i = 0; i < TWI_DPDK_CLIENTS; i++)
		dpdk->clients[i].fd = -1;
	status = open_listener(where, dir, job != NULL ? job : "towline", rank, &dpdk->listener);
	if (status < 0) {
		free(dpdk);
		return status;
	}
	dpdk->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	status = dpdk->stop < 0 ? twi_error_errno(TOW_ESYSTEM, errno, "eventfd for '%s'",
						  dpdk->listener.path)
				: start(dpdk);
	if (status == TOW_OK) {
		*out = dpdk;
		return TOW_OK;
	}
	twi_listen_unlink(&dpdk->listener);
	close(dpdk->listener.fd);
	if (dpdk->stop >= 0)
		close(dpdk->stop);
	free(dpdk);
	return status;
}

void twi_dpdk_close(struct twi_dpdk *dpdk)
{
	const uint64_t one = 1;

	if (dpdk == NULL)
		return;
	twi_listen_unlink(&dpdk->listener);
	while (write(dpdk->stop, &one, sizeof(one)) < 0 && errno == EINTR)
		continue;
	pthread_join(dpdk->thread, NULL);
	for (unsigned i = 0; i < TWI_DPDK_CLIENTS; i++) {
		if (dpdk->clients[i].fd >= 0)
			hang_up(&dpdk->clients[i]);
	}
	close(dpdk->listener.fd);
	close(dpdk->stop);
	free(dpdk);
}

const char *twi_dpdk_path(const struct twi_dpdk *dpdk)
{
	return dpdk != NULL ? dpdk->listener.path : "";
}
