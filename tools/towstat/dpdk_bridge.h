/*
 * dpdk_bridge.h - one runtime, told to clients of DPDK's telemetry.
 *
 *	clients (SOCK_SEQPACKET)        bridge                     runtime's stats socket (HTTP)
 *	   /towline/counters  ------->  parses  ---- GET /v1/counters ---->
 *	   {"/towline/...":{}} <------  flattens, cuts  <------ JSON -------
 *
 * At most DPDK_CLIENTS clients, each of whom must be the same user or root. A client has one
 * request under way at most: it is not heard until it has read the reply, and is hung up on when it
 * does not read for DPDK_STUCK_MS. When all places are taken, a client that has been silent for
 * DPDK_IDLE_MS gives way to a new one; if there is none, the new one is refused. A runtime that
 * does not answer costs a request `timeout_ms`, and its reply is null.
 *
 * Nothing here waits: the owner polls what bridge_poll names and calls bridge_turn.
 */
#ifndef TOWSTAT_DPDK_BRIDGE_H
#define TOWSTAT_DPDK_BRIDGE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/common/http_unix.h"
#include "tools/common/runtimes.h"
#include "tools/towstat/dpdk_listen.h"
#include "tools/towstat/dpdk_reply.h"

#define DPDK_CLIENTS   10
#define DPDK_STUCK_MS  2000
#define DPDK_IDLE_MS   60000
#define DPDK_BYTES_MAX (8u << 20) /* of a runtime's document */
#define DPDK_POLLED    (1 + 2 * DPDK_CLIENTS)
#define DPDK_TICK_MS   250  /* while a client waits or does not read */
#define DPDK_LOOK_MS   1000 /* else: whether the runtime still lives */

struct dpdk_client {
	int fd; /* -1: the place is free */
	long long heard_ms;
	struct dpdk_request request;
	bool asking, listing; /* for the request's document; for the list of documents before it */
	struct http_ask ask;
	char *owed; /* a reply that found no room */
	size_t owed_bytes;
	long long owing_ms; /* since when */
};

struct dpdk_bridge {
	struct runtime_entry runtime;
	struct dpdk_listener listener;
	struct dpdk_documents documents; /* as last heard */
	struct dpdk_client clients[DPDK_CLIENTS];
	long long timeout_ms, looked_ms;
	bool deaf; /* there was no descriptor for a client: the listener rests for a tick */
	bool gone; /* the runtime has ended; nobody is served any more */
	unsigned long long replies, refused, dropped;
	char reply[DPDK_OUTPUT_MAX];
};

/* Opens the socket. 0, or -1 with why not in error_out. */
int bridge_open(struct dpdk_bridge *bridge, const struct runtime_entry *runtime, const char *dir,
		const char *prefix, char *error_out, size_t error_size);

/* Ends its clients and takes the socket away. After a failed bridge_open, too; then a no-op. */
void bridge_close(struct dpdk_bridge *bridge);

/* Fills DPDK_POLLED places, and lowers *timeout_ms to when its next turn is due. */
void bridge_poll(const struct dpdk_bridge *bridge, struct pollfd *out, int *timeout_ms);

/* Does what those places say is ready, and what is due. */
void bridge_turn(struct dpdk_bridge *bridge, const struct pollfd *polled);

#endif
