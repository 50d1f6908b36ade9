/*
 * ras_server.h - clients of NCCL's RAS protocol: what they say, and what goes to them.
 *
 * One thread, one poll; nothing waits for a client. Bounds: RAS_CLIENTS at a time, the next one is
 * hung up on; a line of RAS_LINE_BYTES; RAS_IDLE_S without a line, or without reading what is
 * there for it; RAS_EVENT_BYTES of events that a monitor has not read.
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
	char *out; /* what is on its way */
	size_t out_bytes, out_sent;
	bool ends;       /* when all of it has gone */
	double active_s; /* when it said or read something last */
};

struct ras_server {
	int fd; /* it listens */
	struct ras_client clients[RAS_CLIENTS];
	/* The report for a client, the server's to free; NULL: the client is hung up on. */
	char *(*report)(void *arg, const struct ras_session *session);
	void *arg;
	unsigned long long served, refused, dropped;
};

/* fd listens, without blocking; the server's. */
void ras_server_init(struct ras_server *server, int fd);
void ras_server_fini(struct ras_server *server);

/* What it wants to be polled for: 1 + RAS_CLIENTS of them. */
void ras_server_polls(const struct ras_server *server, struct pollfd *out);
/* And what has come of it. */
void ras_server_turn(struct ras_server *server, const struct pollfd *polled, double now_s);

/* To all that monitor these events, by their format. */
void ras_server_tell(struct ras_server *server, unsigned events, const char *text,
		     const char *json);
/* Before the end: what is on its way goes as far as it can without waiting. */
void ras_server_flush(struct ras_server *server);
/* Somebody monitors. */
bool ras_server_watched(const struct ras_server *server);

#endif
