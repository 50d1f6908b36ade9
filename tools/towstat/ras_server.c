/*
 * ras_server.c - see ras_server.h.
 */
#include "tools/towstat/ras_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REPLY_BYTES 512

void ras_server_init(struct ras_server *server, int fd)
{
	server->fd = fd;
	for (size_t i = 0; i < RAS_CLIENTS; i++)
		server->clients[i].fd = -1;
}

static void drop_client(struct ras_client *client)
{
	close(client->fd);
	free(client->out);
	*client = (struct ras_client){ .fd = -1 };
}

void ras_server_fini(struct ras_server *server)
{
	for (size_t i = 0; i < RAS_CLIENTS; i++) {
		if (server->clients[i].fd >= 0)
			drop_client(&server->clients[i]);
	}
	close(server->fd);
	server->fd = -1;
}

void ras_server_polls(const struct ras_server *server, struct pollfd *out)
{
	out[0] = (struct pollfd){ server->accept_paused ? -1 : server->fd, POLLIN, 0 };
	for (size_t i = 0; i < RAS_CLIENTS; i++) {
		const struct ras_client *client = &server->clients[i];
		size_t left = client->out_bytes - client->out_sent;
		short events = client->ends || left > RAS_EVENT_BYTES ? 0 : POLLIN;

		if (left > 0)
			events |= POLLOUT;
		out[1 + i] = (struct pollfd){ client->fd, events, 0 };
	}
}

/* Appends to the text that waits to be sent. -1: no memory. */
static int queue_text(struct ras_client *client, const char *text)
{
	size_t left = client->out_bytes - client->out_sent, bytes = strlen(text);
	char *more = malloc(left + bytes + 1);

	if (more == NULL)
		return -1;
	if (left > 0)
		memcpy(more, client->out + client->out_sent, left);
	memcpy(more + left, text, bytes + 1);
	free(client->out);
	client->out = more;
	client->out_bytes = left + bytes;
	client->out_sent = 0;
	return 0;
}

/* Answers a line. -1: the connection ends. */
static int take_line(struct ras_server *server, struct ras_client *client, const char *line)
{
	char reply[REPLY_BYTES], *report;
	int status;

	if (ras_line_take(&client->session, line, reply, sizeof(reply)) == RAS_REPLIES)
		return queue_text(client, reply);
	report = server->report(server->arg, &client->session);
	if (report == NULL)
		return -1;
	status = queue_text(client, report);
	free(report);
	client->ends = true;
	server->served++;
	return status;
}

/* Takes all whole lines. The rest stays. */
static int take_lines(struct ras_server *server, struct ras_client *client)
{
	char *at = client->line, *end = client->line + client->line_bytes, *newline;

	while (!client->ends && (newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
		*newline = '\0';
		if (newline > at && newline[-1] == '\r')
			newline[-1] = '\0';
		if (take_line(server, client, at) != 0)
			return -1;
		at = newline + 1;
	}
	client->line_bytes = (size_t)(end - at);
	memmove(client->line, at, client->line_bytes);
	return client->line_bytes < sizeof(client->line) || client->ends ? 0 : -1;
}

static int read_client(struct ras_server *server, struct ras_client *client, double now_s)
{
	ssize_t got = recv(client->fd, client->line + client->line_bytes,
			   sizeof(client->line) - client->line_bytes, MSG_DONTWAIT);

	if (got == 0)
		return -1;
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	client->line_bytes += (size_t)got;
	client->active_s = now_s;
	return take_lines(server, client);
}

static int write_client(struct ras_client *client, double now_s)
{
	while (client->out_sent < client->out_bytes) {
		ssize_t sent =
			send(client->fd, client->out + client->out_sent,
			     client->out_bytes - client->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		client->out_sent += (size_t)sent;
		client->active_s = now_s;
	}
	return client->ends ? -1 : 0;
}

static void accept_client(struct ras_server *server, double now_s)
{
	int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		/* The connection waits on, and poll would return at once. */
		server->accept_paused =
			errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
		return;
	}
	for (size_t i = 0; i < RAS_CLIENTS; i++) {
		struct ras_client *client = &server->clients[i];

		if (client->fd >= 0)
			continue;
		client->fd = fd;
		client->active_s = now_s;
		ras_session_init(&client->session);
		return;
	}
	server->refused++;
	close(fd);
}

/* A client that monitors may be silent for any time, but it must read. */
static bool is_idle(const struct ras_client *client, double now_s)
{
	bool owes = client->out_sent < client->out_bytes;

	return now_s - client->active_s > RAS_IDLE_S && (owes || client->session.events == 0);
}

void ras_server_turn(struct ras_server *server, const struct pollfd *polled, double now_s)
{
	server->accept_paused = false;
	for (size_t i = 0; i < RAS_CLIENTS; i++) {
		struct ras_client *client = &server->clients[i];
		short came = polled[1 + i].revents;
		int status = 0;

		if (client->fd < 0)
			continue;
		if ((came & (POLLIN | POLLHUP | POLLERR)) != 0 && !client->ends)
			status = read_client(server, client, now_s);
		if (status == 0 && client->out_sent < client->out_bytes)
			status = write_client(client, now_s);
		if (status == 0 && (came & (POLLHUP | POLLERR)) != 0 && client->ends)
			status = -1;
		if (status == 0 && is_idle(client, now_s)) {
			server->dropped++;
			status = -1;
		}
		if (status != 0)
			drop_client(client);
	}
	if ((polled[0].revents & POLLIN) != 0)
		accept_client(server, now_s);
}

void ras_server_tell(struct ras_server *server, unsigned events, const char *text, const char *json)
{
	for (size_t i = 0; i < RAS_CLIENTS; i++) {
		struct ras_client *client = &server->clients[i];

		if (client->fd < 0 || (client->session.events & events) == 0)
			continue;
		if (client->out_bytes - client->out_sent > RAS_EVENT_BYTES ||
		    queue_text(client, client->session.json ? json : text) != 0) {
			server->dropped++;
			drop_client(client);
		}
	}
}

void ras_server_flush(struct ras_server *server)
{
	for (size_t i = 0; i < RAS_CLIENTS; i++) {
		if (server->clients[i].fd >= 0)
			write_client(&server->clients[i], 0);
	}
}

bool ras_server_watched(const struct ras_server *server)
{
	for (size_t i = 0; i < RAS_CLIENTS; i++) {
		if (server->clients[i].fd >= 0 && server->clients[i].session.events != 0)
			return true;
	}
	return false;
}
