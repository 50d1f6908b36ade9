/*
 * ras_server.h - serves the clients of NCCL's RAS protocol.
 *
 * One thread and one poll; nothing waits for a client. There are at most RAS_CLIENTS clients, and a
 * further one is disconnected. A client is disconnected after a line of RAS_LINE_BYTES. So is one
 * that sends nothing and reads nothing for RAS_IDLE_S, unless it monitors and has nothing to read.
 * A monitor may leave RAS_EVENT_BYTES of events unread. No further commands are read from a client
 * that leaves as much unread.
 */
#ifndef TOWSTAT_RAS_SERVER_H
#define TOWSTAT_RAS_SERVER_H

#include <poll.h>

#include "tools/towstat/ras_line.h"

#define RAS_CLIENTS     16
#define RAS_IDLE_S      30
#define RAS_EVENT_BYTES (64u << 10)

struct ras_client {
	int fd; /* -1: no client */
	struct ras_session session;
	char line[RAS_LINE_BYTES];
	size_t line_bytes;
	char *out; /* text that waits to be sent */
	size_t out_bytes, out_sent;
	bool ends;       /* disconnect when all of it is sent */
	double active_s; /* when it last sent or read anything */
};

struct ras_server {
	int fd;             /* the listening socket */
	bool accept_paused; /* until the next turn: no descriptor or memory for a client */
	struct ras_client clients[RAS_CLIENTS];
	/* Makes the report for a client; the server frees it. NULL: the client is disconnected. */
	char *(*report)(void *arg, const struct ras_session *session);
	void *arg;
	unsigned long long served, refused, dropped;
};

/* fd is a listening socket that does not block. The server owns it. */
void ras_server_init(struct ras_server *server, int fd);
void ras_server_fini(struct ras_server *server);

/* Fills 1 + RAS_CLIENTS entries to poll. */
void ras_server_polls(const struct ras_server *server, struct pollfd *out);
/* Handles the result of the poll. */
void ras_server_turn(struct ras_server *server, const struct pollfd *polled, double now_s);

/* Sends an event to all clients that monitor these groups of events, in their format. */
void ras_server_tell(struct ras_server *server, unsigned events, const char *text,
		     const char *json);
/* Sends what waits, as far as the sockets take it without blocking. For the end of the program. */
void ras_server_flush(struct ras_server *server);
/* Whether a client monitors. */
bool ras_server_watched(const struct ras_server *server);

#endif
