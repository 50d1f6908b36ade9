/*
 * store_server.c - accepts connections to the store, and serves them. See store_server.h.
 */
#include "transport/job/store_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/base/thread.h"
#include "diag/base/words.h"
#include "diag/record/diag.h"
#include "transport/job/bootstrap.h"
#include "transport/job/store.h"
#include "transport/job/store_wire.h"

#define MARK_LISTEN UINT32_MAX
#define MARK_WAKE   (UINT32_MAX - 1)
#define NOBODY      UINT32_MAX
#define REST_NS     100000000ull  /* pause before the next accept when there is no room */
#define SAY_NS      1000000000ull /* time between two refusals in the log */
#define GAP_NS      1000000000ull /* a gap takes at most this of a stranger's time (awake_ns) */

struct connection {
	int fd; /* -1: free */
	bool broken;
	bool writing;    /* epoll also watches for EPOLLOUT */
	bool stranger;   /* it may be dropped for another connection */
	uint32_t client; /* the store's client; NOBODY: it has not proved itself */
	uint64_t since_ns;
	uint64_t until_ns; /* deadline of a stranger, in the server's awake_ns */
	struct twi_wire wire;
};

struct twi_store_server {
	pthread_t thread;
	int listen_fd, epoll_fd, wake_fd;
	uint16_t port;
	bool any;
	_Atomic uint64_t stop_ns; /* UINT64_MAX: none; else the latest end. Release, acquire */
	_Atomic int failed;       /* below 0: rank 0 has failed, for the reason in `failure` */
	char failure[TWI_STORE_TEXT];
	struct twi_store *store;
	struct connection *connections;
	uint32_t *by_client; /* connections by the store's client */
	uint32_t count, strangers, clients_max;
	uint64_t accept_again_ns; /* 0: the listening socket is armed */
	/*
	 * How long the thread has been awake, by which strangers are timed. In a gap the thread has
	 * no CPU and cannot serve them, so it counts as GAP_NS at most. While there are strangers,
	 * the thread reads the clock more often than that.
	 */
	uint64_t awake_ns, looked_ns; /* looked_ns: when the clock was last read for it */
	uint64_t logged_ns, unlogged; /* the last logged refusal, and later ones not logged */
	struct twi_job_key key;
	struct twi_diag *diag;
	char job[TWI_JOB_BYTES];
};

uint16_t twi_store_server_port(const struct twi_store_server *server)
{
	return server->port;
}

bool twi_store_server_any(const struct twi_store_server *server)
{
	return server->any;
}

static int watch_fd(struct twi_store_server *server, int fd, uint32_t mark, uint32_t events,
		    int how)
{
	struct epoll_event event = { .events = events, .data.u32 = mark };

	if (epoll_ctl(server->epoll_fd, how, fd, &event) < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "epoll_ctl for the job's store");
	return TOW_OK;
}

static void drop_connection(struct twi_store_server *server, uint32_t index)
{
	struct connection *connection = &server->connections[index];

	if (connection->client != NOBODY) {
		server->by_client[connection->client] = NOBODY;
		twi_store_leave(server->store, connection->client, twi_net_now());
	}
	server->strangers -= connection->stranger;
	close(connection->fd);
	twi_wire_fini(&connection->wire);
	connection->fd = -1;
}

/* Logs a refusal, at most once a second: strangers may come as often as they like. */
static void log_refusal(struct twi_store_server *server, const char *who, const char *why)
{
	uint64_t now = twi_net_now();

	if (server->logged_ns != 0 && now - server->logged_ns < SAY_NS) {
		server->unlogged++;
		return;
	}
	if (server->unlogged > 0)
		twi_log(server->diag, 2, "store: %.64s was refused: %.128s (and %llu more)", who,
			why, (unsigned long long)server->unlogged);
	else
		twi_log(server->diag, 2, "store: %.64s was refused: %.160s", who, why);
	server->logged_ns = now;
	server->unlogged = 0;
}

/* Ends a connection that is not of the job. The thread's error is the reason. */
static void refuse_connection(struct twi_store_server *server, uint32_t index)
{
	const struct connection *connection = &server->connections[index];
	char who[TOW_ADDRESS_MAX] = "a connection";

	if (connection->client == NOBODY ||
	    !twi_store_is_member(server->store, connection->client)) {
		twi_store_refused(server->store, tow_error_message());
		if (server->diag != NULL) {
			twi_net_remote(connection->fd, who);
			twi_count(server->diag, TWI_C_store_refused, 1);
			log_refusal(server, who, tow_error_message());
		}
	}
	drop_connection(server, index);
}

/* Sends the queued bytes. False: the connection is broken. */
static bool flush_connection(struct twi_store_server *server, uint32_t index)
{
	struct connection *connection = &server->connections[index];
	const uint8_t *out;
	size_t count;
	bool more;

	while ((out = twi_wire_out(&connection->wire, &count)) != NULL) {
		ssize_t sent = send(connection->fd, out, count, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno != EAGAIN)
			return false;
		if (sent < 0)
			break;
		twi_wire_sent(&connection->wire, (size_t)sent);
	}
	more = out != NULL;
	if (more != connection->writing) {
		connection->writing = more;
		if (watch_fd(server, connection->fd, index, EPOLLIN | (more ? EPOLLOUT : 0),
			     EPOLL_CTL_MOD) < 0)
			return false;
	}
	return true;
}

static void on_reply(void *arg, uint32_t client, const struct twi_store_frame *frame)
{
	struct twi_store_server *server = arg;
	uint32_t index = server->by_client[client];
	struct connection *connection;

	if (index == NOBODY)
		return;
	connection = &server->connections[index];
	/* It is dropped later, as the store is in the middle of a request. */
	if (twi_wire_put(&connection->wire, frame) < 0 || !flush_connection(server, index))
		connection->broken = true;
}

/* A stranger has proved itself: makes it a client of the store. */
static int admit_connection(struct twi_store_server *server, uint32_t index)
{
	struct connection *connection = &server->connections[index];
	uint32_t client = twi_store_enter(server->store);

	if (client == UINT32_MAX)
		return twi_error(TOW_EBUSY, "the store has %u connections already",
				 server->clients_max);
	connection->client = client;
	server->by_client[client] = index;
	return TOW_OK;
}

/*
 * A connection that has proved the key is no stranger any more. Without a key, one that the store
 * knows as a rank is none.
 */
static void promote_connection(struct twi_store_server *server, struct connection *connection)
{
	if (!connection->stranger || connection->client == NOBODY ||
	    !(server->key.set || twi_store_is_member(server->store, connection->client)))
		return;
	connection->stranger = false;
	server->strangers--;
}

static int serve_frames(struct twi_store_server *server, uint32_t index)
{
	struct connection *connection = &server->connections[index];
	struct twi_store_frame frame;
	int status;

	if (connection->wire.ready && connection->client == NOBODY) {
		status = admit_connection(server, index);
		if (status < 0)
			return status;
	}
	while ((status = twi_wire_next(&connection->wire, &frame)) == TOW_OK) {
		status =
			twi_store_request(server->store, connection->client, &frame, twi_net_now());
		promote_connection(server, connection);
		if (status < 0)
			return status;
	}
	promote_connection(server, connection);
	return status;
}

/* Receives and serves bytes. A stranger that has not proved the key costs no other buffer. */
static void serve_connection(struct twi_store_server *server, uint32_t index)
{
	struct connection *connection = &server->connections[index];
	uint8_t bytes[16384];
	ssize_t got = recv(connection->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	int status;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		drop_connection(server, index);
		return;
	}
	status = twi_wire_feed(&connection->wire, bytes, (size_t)got);
	if (status == TOW_OK)
		status = serve_frames(server, index);
	if (!flush_connection(server, index))
		drop_connection(server, index);
	else if (status < 0)
		refuse_connection(server, index);
}

static void pause_accepting(struct twi_store_server *server, uint64_t until_ns)
{
	server->accept_again_ns = until_ns;
	watch_fd(server, server->listen_fd, MARK_LISTEN, 0, EPOLL_CTL_MOD);
}

/*
 * Makes room by dropping the oldest stranger. False: none may be dropped; with when to try again.
 */
static bool evict_stranger(struct twi_store_server *server, uint64_t now, uint64_t *retry_ns_out)
{
	uint32_t oldest = NOBODY;

	for (uint32_t i = 0; i < server->count; i++) {
		const struct connection *connection = &server->connections[i];

		if (connection->fd >= 0 && connection->stranger &&
		    (oldest == NOBODY ||
		     connection->since_ns < server->connections[oldest].since_ns))
			oldest = i;
	}
	*retry_ns_out = now + REST_NS;
	if (oldest == NOBODY)
		return false;
	*retry_ns_out = server->connections[oldest].since_ns + TWI_STORE_EVICT_NS;
	if (now < *retry_ns_out)
		return false;
	if (server->diag != NULL)
		twi_count(server->diag, TWI_C_store_evicted, 1);
	drop_connection(server, oldest);
	return true;
}

static uint32_t free_connection(const struct twi_store_server *server)
{
	for (uint32_t i = 0; i < server->count; i++) {
		if (server->connections[i].fd < 0)
			return i;
	}
	return NOBODY;
}

static void count_awake(struct twi_store_server *server, uint64_t now)
{
	server->awake_ns += twi_min(now - server->looked_ns, GAP_NS);
	server->looked_ns = now;
}

static void greet_connection(struct twi_store_server *server, uint32_t index, int fd, uint64_t now)
{
	struct connection *connection = &server->connections[index];

	connection->fd = fd;
	connection->client = NOBODY;
	connection->broken = connection->writing = false;
	connection->stranger = true;
	connection->since_ns = now;
	count_awake(server, now);
	connection->until_ns = server->awake_ns + TWI_STORE_STRANGER_NS;
	server->strangers++;
	twi_wire_init(&connection->wire, &server->key, false);
	if (twi_wire_begin(&connection->wire) < 0 ||
	    watch_fd(server, fd, index, EPOLLIN, EPOLL_CTL_ADD) < 0 ||
	    !flush_connection(server, index))
		drop_connection(server, index);
}

static bool is_shortage(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

/* Accepts one connection. epoll reports the listening socket again while there are more. */
static void take_connection(struct twi_store_server *server)
{
	uint64_t now = twi_net_now(), retry_ns;
	uint32_t index;
	int fd;

	if (server->strangers >= TWI_STORE_STRANGERS && !evict_stranger(server, now, &retry_ns)) {
		pause_accepting(server, retry_ns);
		return;
	}
	index = free_connection(server);
	if (index == NOBODY) {
		pause_accepting(server, now + REST_NS);
		return;
	}
	fd = twi_fd_high(accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	if (fd >= 0)
		greet_connection(server, index, fd, now);
	else if (is_shortage(errno) && !evict_stranger(server, now, &retry_ns))
		pause_accepting(server, retry_ns);
}

/* Drops broken connections, and strangers whose time is over. Returns when to look again. */
static uint64_t sweep_connections(struct twi_store_server *server)
{
	uint64_t now = twi_net_now(), next = twi_store_expire(server->store, now);

	count_awake(server, now);
	for (uint32_t i = 0; i < server->count; i++) {
		struct connection *connection = &server->connections[i];

		if (connection->fd < 0)
			continue;
		if (connection->broken) {
			drop_connection(server, i);
		} else if (connection->stranger) {
			if (server->awake_ns >= connection->until_ns) {
				twi_error(TOW_EDEADLINE, "it did not prove itself in time");
				refuse_connection(server, i);
			} else {
				uint64_t left = connection->until_ns - server->awake_ns;

				next = twi_min(next, now + twi_min(left, GAP_NS / 2));
			}
		}
	}
	if (server->accept_again_ns != 0 && now >= server->accept_again_ns) {
		server->accept_again_ns = 0;
		watch_fd(server, server->listen_fd, MARK_LISTEN, EPOLLIN, EPOLL_CTL_MOD);
	}
	return server->accept_again_ns != 0 ? twi_min(next, server->accept_again_ns) : next;
}

static bool is_over(struct twi_store_server *server, uint64_t *until_ns)
{
	/* acquire: pairs with the release in twi_store_server_stop */
	uint64_t stop = atomic_load_explicit(&server->stop_ns, memory_order_acquire), now, again_ns;
	bool over;

	*until_ns = stop;
	if (stop == UINT64_MAX)
		return false;
	now = twi_net_now();
	over = now >= stop || twi_store_is_done(server->store, now, &again_ns);
	if (!over)
		*until_ns = twi_min(stop, again_ns);
	return over;
}

/* Passes a failure of rank 0 to the store. */
static void take_failure(struct twi_store_server *server)
{
	/* acquire: pairs with the release in twi_store_server_fail */
	int status = atomic_load_explicit(&server->failed, memory_order_acquire);

	if (status < 0 && !twi_store_failed(server->store))
		twi_store_fail(server->store, twi_error(status, "%s", server->failure), false);
}

static void *server_run(void *arg)
{
	struct twi_store_server *server = arg;
	struct epoll_event events[64];
	uint64_t stop, next;
	bool listen_ready;

	while (!is_over(server, &stop)) {
		int count;

		take_failure(server);
		next = twi_min(sweep_connections(server), stop);
		count = epoll_wait(server->epoll_fd, events, (int)twi_array_count(events),
				   next == UINT64_MAX ? -1 : twi_net_left_ms(next));
		listen_ready = false;
		for (int i = 0; i < count; i++) {
			uint32_t mark = events[i].data.u32;
			uint64_t woken;

			if (mark == MARK_LISTEN)
				listen_ready = true;
			else if (mark == MARK_WAKE)
				while (read(server->wake_fd, &woken, sizeof(woken)) > 0)
					;
			else if (server->connections[mark].fd >= 0)
				serve_connection(server, mark);
		}
		/*
		 * This is last, so that a stranger that has just sent something is not dropped as
		 * one that has not.
		 */
		if (listen_ready)
			take_connection(server);
	}
	return NULL;
}

static void destroy_server(struct twi_store_server *server)
{
	for (uint32_t i = 0; server->connections != NULL && i < server->count; i++) {
		if (server->connections[i].fd >= 0)
			drop_connection(server, i);
	}
	twi_store_destroy(server->store);
	if (server->listen_fd >= 0)
		close(server->listen_fd);
	if (server->epoll_fd >= 0)
		close(server->epoll_fd);
	if (server->wake_fd >= 0)
		close(server->wake_fd);
	twi_job_key_wipe(&server->key);
	free(server->connections);
	free(server->by_client);
	free(server);
}

/* Logs late members. The first gather is that of tow_group_open, whose members are the ranks. */
static void on_late(void *arg, const char *key, const char *missing, uint64_t waited_ns)
{
	const struct twi_store_server *server = arg;
	bool open = strcmp(key, "open") == 0, one = strpbrk(missing, ",- ") == NULL;
	bool meet = strcmp(key, "meet") == 0;
	char waited[TWI_WORDS_BYTES];

	twi_words_ns(waited_ns, waited);
	twi_log(server->diag, 2, "waiting for %s%s %s for %s %s", open || meet ? "rank" : "member",
		one ? "" : "s", missing, waited,
		open   ? "to open the group"
		: meet ? "to make a group"
		       : "to split the group");
}

static int make_tables(struct twi_store_server *server, const struct twi_store_serve *serve)
{
	struct twi_store_config config = { .world_size = serve->world_size,
					   .restarts = serve->restarts,
					   .job = server->job,
					   .reply = on_reply,
					   .late = serve->diag != NULL ? on_late : NULL,
					   .late_ns = serve->late_ns,
					   .arg = server };

	/* Without a key strangers are clients of the store, too. */
	server->clients_max = 2 * serve->world_size + 64 + TWI_STORE_STRANGERS;
	server->count = server->clients_max + TWI_STORE_STRANGERS;
	server->connections = calloc(server->count, sizeof(server->connections[0]));
	server->by_client = calloc(server->clients_max, sizeof(server->by_client[0]));
	for (uint32_t i = 0; server->connections != NULL && i < server->count; i++)
		server->connections[i].fd = -1;
	if (server->connections == NULL || server->by_client == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the store of %u ranks",
				 serve->world_size);
	for (uint32_t i = 0; i < server->clients_max; i++)
		server->by_client[i] = NOBODY;
	config.clients_max = server->clients_max;
	if (getrandom(&config.session, sizeof(config.session), 0) != sizeof(config.session))
		return twi_error_errno(TOW_ESYSTEM, errno, "getrandom");
	return twi_store_create(&config, &server->store);
}

static int make_descriptors(struct twi_store_server *server)
{
	int status;

	server->epoll_fd = twi_fd_high(epoll_create1(EPOLL_CLOEXEC));
	if (server->epoll_fd < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "epoll_create1 for the job's store");
	server->wake_fd = twi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (server->wake_fd < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "eventfd for the job's store");
	status = watch_fd(server, server->listen_fd, MARK_LISTEN, EPOLLIN, EPOLL_CTL_ADD);
	return status < 0 ? status
			  : watch_fd(server, server->wake_fd, MARK_WAKE, EPOLLIN, EPOLL_CTL_ADD);
}

static int start_thread(struct twi_store_server *server)
{
	int err = twi_thread_start(&server->thread, "tow-store", 0, server_run, server);

	return err == 0 ? TOW_OK
			: twi_error_errno(TOW_ESYSTEM, err, "a thread for the job's store");
}

int twi_store_server_start(const struct twi_store_serve *serve, const struct twi_until *until,
			   struct twi_store_server **out)
{
	struct twi_store_server *server = calloc(1, sizeof(*server));
	char host[TOW_ADDRESS_MAX];
	int status;

	*out = NULL;
	if (server == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the job's store");
	server->listen_fd = server->epoll_fd = server->wake_fd = -1;
	server->key = *serve->key;
	server->diag = serve->diag;
	atomic_init(&server->stop_ns, UINT64_MAX);
	snprintf(server->job, sizeof(server->job), "%s", serve->job);
	status = make_tables(server, serve);
	if (status == TOW_OK)
		status = twi_net_listen(serve->address, until, &server->listen_fd, &server->any);
	if (status == TOW_OK && !twi_net_local(server->listen_fd, host, &server->port))
		status = twi_error_errno(TOW_ESYSTEM, errno, "getsockname for the job's store");
	if (status == TOW_OK)
		status = make_descriptors(server);
	if (status == TOW_OK)
		status = start_thread(server);
	if (status < 0) {
		destroy_server(server);
		return status;
	}
	*out = server;
	return TOW_OK;
}

static void wake_thread(struct twi_store_server *server)
{
	uint64_t one = 1;

	while (write(server->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void twi_store_server_fail(struct twi_store_server *server, int status, const char *text)
{
	snprintf(server->failure, sizeof(server->failure), "%s", text);
	/* release: pairs with the acquire in take_failure */
	atomic_store_explicit(&server->failed, status, memory_order_release);
	wake_thread(server);
}

void twi_store_server_stop(struct twi_store_server *server, uint64_t linger_ns)
{
	if (server == NULL)
		return;
	/* release: pairs with the acquire in is_over */
	atomic_store_explicit(&server->stop_ns, twi_net_now() + linger_ns, memory_order_release);
	wake_thread(server);
	pthread_join(server->thread, NULL);
	destroy_server(server);
}
