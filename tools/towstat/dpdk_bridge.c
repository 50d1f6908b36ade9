/*
 * dpdk_bridge.c - the connections of the bridge. See dpdk_bridge.h; dpdk_reply.c makes the replies.
 *
 *	a client:   free -- connects --> asking -- the document has come --> idle or pending
 *	            idle -- a request --> asking       pending -- it reads --> idle
 *
 * A packet is sent whole or not at all, so a reply without room in the socket is kept as a whole.
 */
#include "tools/towstat/dpdk_bridge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void hang_up(struct dpdk_client *client)
{
	http_ask_fini(&client->ask);
	close(client->fd);
	free(client->pending_reply);
	*client = (struct dpdk_client){ .fd = -1 };
}

static bool keep_reply(struct dpdk_client *client, const char *reply, size_t bytes)
{
	client->pending_reply = malloc(bytes);
	if (client->pending_reply == NULL)
		return false;
	memcpy(client->pending_reply, reply, bytes);
	client->pending_bytes = bytes;
	client->pending_since_ms = http_now_ms();
	return true;
}

/* Sends the reply, or keeps it when the socket has no room. */
static void send_reply(struct dpdk_bridge *bridge, struct dpdk_client *client, size_t bytes)
{
	ssize_t sent;

	if (bytes == 0) { /* no greeting: the runtime did not answer */
		hang_up(client);
		return;
	}
	bridge->replies += client->request.kind != DPDK_GREETING;
	sent = send(client->fd, bridge->reply, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0 &&
	    ((errno != EAGAIN && errno != ENOBUFS) || !keep_reply(client, bridge->reply, bytes)))
		hang_up(client);
}

static void send_pending_reply(struct dpdk_client *client)
{
	ssize_t sent = send(client->fd, client->pending_reply, client->pending_bytes,
			    MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent < 0 && errno != EAGAIN && errno != ENOBUFS) {
		hang_up(client);
	} else if (sent >= 0) {
		free(client->pending_reply);
		client->pending_reply = NULL;
	}
}

/* Answers a request. text NULL: the runtime has no such document, or did not answer. */
static void answer_client(struct dpdk_bridge *bridge, struct dpdk_client *client, const char *text,
			  size_t bytes)
{
	client->asking = false;
	send_reply(bridge, client,
		   dpdk_reply(&client->request, &bridge->documents, text, bytes, bridge->reply));
}

static void take_document(struct dpdk_bridge *bridge, struct dpdk_client *client);

static void ask_runtime(struct dpdk_bridge *bridge, struct dpdk_client *client, const char *path)
{
	client->asking = true;
	http_ask_start(&client->ask, bridge->runtime.path, path, http_now_ms() + bridge->timeout_ms,
		       DPDK_BYTES_MAX);
	if (client->ask.state != HTTP_SENDING && client->ask.state != HTTP_READING)
		take_document(bridge, client);
}

/*
 * Goes on when the list of documents has come, which must have the request's command. Runtimes open
 * and close documents, so the list is fetched again for each command that is not on it.
 */
static void take_list(struct dpdk_bridge *bridge, struct dpdk_client *client)
{
	client->listing = false;
	if (dpdk_documents_have(&bridge->documents, client->request.command))
		ask_runtime(bridge, client, client->request.path);
	else
		answer_client(bridge, client, NULL, 0);
}

/* Handles the end of an ask, with or without a document. */
static void take_document(struct dpdk_bridge *bridge, struct dpdk_client *client)
{
	const struct http_answer *got = &client->ask.answer;
	bool good = client->ask.state == HTTP_DONE && got->status == 200;
	bool list = client->listing || client->request.kind == DPDK_LIST ||
		    client->request.kind == DPDK_HELP;

	if (client->ask.state == HTTP_FAILED && http_ask_is_gone(&client->ask))
		bridge->gone = true;
	if (list && good)
		dpdk_documents_read(got->body, got->bytes, &bridge->documents);
	if (client->listing)
		take_list(bridge, client);
	else
		answer_client(bridge, client, good ? got->body : NULL, good ? got->bytes : 0);
	if (!client->asking)
		http_ask_fini(&client->ask);
}

static void serve_client(struct dpdk_bridge *bridge, struct dpdk_client *client)
{
	const struct dpdk_request *request = &client->request;

	client->listing = request->kind == DPDK_DOCUMENT &&
			  !dpdk_documents_have(&bridge->documents, request->command);
	if (client->listing)
		ask_runtime(bridge, client, DPDK_LIST_PATH);
	else if (request->path[0] != '\0')
		ask_runtime(bridge, client, request->path);
	else
		answer_client(bridge, client, NULL, 0);
}

/* Reads a request. An empty packet looks like the end of the stream, so both end the client. */
static void read_request(struct dpdk_bridge *bridge, struct dpdk_client *client)
{
	char request[DPDK_REQUEST_MAX];
	ssize_t got = recv(client->fd, request, sizeof(request), MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		hang_up(client);
		return;
	}
	client->heard_ms = http_now_ms();
	dpdk_request_parse(request, (size_t)got, &client->request);
	serve_client(bridge, client);
}

static bool is_allowed(int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
	       (peer.uid == 0 || peer.uid == geteuid());
}

/*
 * A free slot, or that of the client that has been silent the longest. NULL: that was not long
 * enough.
 */
static struct dpdk_client *client_place(struct dpdk_bridge *bridge, long long now_ms)
{
	struct dpdk_client *oldest = &bridge->clients[0];

	for (unsigned i = 0; i < DPDK_CLIENTS; i++) {
		struct dpdk_client *client = &bridge->clients[i];

		if (client->fd < 0)
			return client;
		if (client->heard_ms < oldest->heard_ms)
			oldest = client;
	}
	if (now_ms - oldest->heard_ms < DPDK_IDLE_MS)
		return NULL;
	hang_up(oldest);
	return oldest;
}

static void accept_client(struct dpdk_bridge *bridge)
{
	long long now = http_now_ms();
	int fd = accept4(bridge->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct dpdk_client *client;

	if (fd < 0) {
		bridge->accept_paused =
			errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
		return;
	}
	client = is_allowed(fd) ? client_place(bridge, now) : NULL;
	if (client == NULL) {
		bridge->refused++;
		close(fd);
		return;
	}
	*client = (struct dpdk_client){ .fd = fd, .heard_ms = now };
	dpdk_request_greeting(&client->request);
	serve_client(bridge, client);
}

int bridge_open(struct dpdk_bridge *bridge, const struct runtime_entry *runtime, const char *dir,
		const char *prefix, char *error_out, size_t error_size)
{
	bridge->runtime = *runtime;
	for (unsigned i = 0; i < DPDK_CLIENTS; i++)
		bridge->clients[i].fd = -1;
	return dpdk_listen(dir, prefix, &bridge->listener, error_out, error_size);
}

void bridge_close(struct dpdk_bridge *bridge)
{
	if (bridge->listener.fd < 0)
		return;
	dpdk_listener_close(&bridge->listener);
	for (unsigned i = 0; i < DPDK_CLIENTS; i++) {
		if (bridge->clients[i].fd >= 0)
			hang_up(&bridge->clients[i]);
	}
}

void bridge_poll(const struct dpdk_bridge *bridge, struct pollfd *out, int *timeout_ms)
{
	bool ticks = bridge->accept_paused;

	out[0] = (struct pollfd){ bridge->accept_paused ? -1 : bridge->listener.fd, POLLIN, 0 };
	for (unsigned i = 0; i < DPDK_CLIENTS; i++) {
		const struct dpdk_client *client = &bridge->clients[i];
		short events = client->pending_reply != NULL ? POLLOUT
			       : client->asking              ? 0
							     : POLLIN;

		out[1 + 2 * i] = (struct pollfd){ client->fd, events, 0 };
		out[2 + 2 * i] = (struct pollfd){ -1, 0, 0 };
		if (client->fd >= 0 && client->asking && http_ask_waits(&client->ask, &events))
			out[2 + 2 * i] = (struct pollfd){ client->ask.fd, events, 0 };
		ticks |= client->fd >= 0 && (client->asking || client->pending_reply != NULL);
	}
	if (*timeout_ms > (ticks ? DPDK_TICK_MS : DPDK_LOOK_MS))
		*timeout_ms = ticks ? DPDK_TICK_MS : DPDK_LOOK_MS;
}

/*
 * Handles one client. `own` has the events of its socket. The ask is stepped without an event too,
 * as its time may be up.
 */
static void turn_client(struct dpdk_bridge *bridge, struct dpdk_client *client, short own)
{
	if (client->asking) {
		http_ask_step(&client->ask);
		if (client->ask.state == HTTP_DONE || client->ask.state == HTTP_FAILED)
			take_document(bridge, client);
		else if ((own & (POLLHUP | POLLERR)) != 0)
			hang_up(client);
	} else if (client->pending_reply != NULL) {
		if (own != 0)
			send_pending_reply(client);
		if (client->fd >= 0 && client->pending_reply != NULL &&
		    http_now_ms() - client->pending_since_ms >= DPDK_STUCK_MS) {
			bridge->dropped++;
			hang_up(client);
		}
	} else if (own != 0) {
		read_request(bridge, client);
	}
}

/* A killed runtime leaves its socket; one that has closed does not. */
static bool has_ended(const char *socket_path)
{
	return http_is_live(socket_path) == 0 ||
	       (access(socket_path, F_OK) != 0 && errno == ENOENT);
}

void bridge_turn(struct dpdk_bridge *bridge, const struct pollfd *polled)
{
	long long now = http_now_ms();

	bridge->accept_paused = false;
	for (unsigned i = 0; i < DPDK_CLIENTS; i++) {
		if (bridge->clients[i].fd >= 0)
			turn_client(bridge, &bridge->clients[i], polled[1 + 2 * i].revents);
	}
	if (polled[0].revents != 0)
		accept_client(bridge);
	if (now - bridge->looked_ms >= DPDK_LOOK_MS) {
		bridge->looked_ms = now;
		bridge->gone |= has_ended(bridge->runtime.path);
	}
}
