/*
 * dpdk_bridge.h - serves one runtime to clients of DPDK's telemetry.
 *
 *	clients (SOCK_SEQPACKET)        bridge                     runtime's stats socket (HTTP)
 *	   /towline/counters  ------->  parses  ---- GET /v1/counters ---->
 *	   {"/towline/...":{}} <------  flattens, cuts  <------ JSON -------
 *
 * There are at most DPDK_CLIENTS clients, each of the same user or of root. A client has at most
 * one request under way. Its next request is not read before it has read the reply. A client that
 * does not read for DPDK_STUCK_MS is disconnected.
 *
 * When all slots are taken, a new client replaces the client that has been silent for the longest
 * time. If that time is below DPDK_IDLE_MS, the new client is refused. A runtime that does not
 * answer costs a request `timeout_ms`, and the reply is null.
 *
 * No function here blocks: the owner polls the descriptors of bridge_poll and calls bridge_turn.
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
#define DPDK_BYTES_MAX (8u << 20) /* bound of a runtime's document */
#define DPDK_POLLED    (1 + 2 * DPDK_CLIENTS)
#define DPDK_TICK_MS   250  /* between two turns while a client waits or does not read */
#define DPDK_LOOK_MS   1000 /* otherwise: between two looks whether the runtime lives */

struct dpdk_client {
	int fd; /* -1: the slot is free */
	long long heard_ms;
	struct dpdk_request request;
	bool asking, listing; /* listing: the ask is for the list of documents first */
	struct http_ask ask;
	char *pending_reply; /* a reply that the socket had no room for */
	size_t pending_bytes;
	long long pending_since_ms; /* since when it waits */
};

struct dpdk_bridge {
	struct runtime_entry runtime;
	struct dpdk_listener listener;
	struct dpdk_documents documents; /* as last received */
	struct dpdk_client clients[DPDK_CLIENTS];
	long long timeout_ms, looked_ms;
	bool accept_paused; /* until the next turn: no descriptor was left for a client */
	bool gone;          /* the runtime has ended; no client is served any more */
	unsigned long long replies, refused, dropped;
	char reply[DPDK_OUTPUT_MAX];
};

/* Opens the socket. Returns 0, or -1 with the reason in error_out. */
int bridge_open(struct dpdk_bridge *bridge, const struct runtime_entry *runtime, const char *dir,
		const char *prefix, char *error_out, size_t error_size);

/*
 * Disconnects the clients and removes the socket. Call it after a failed bridge_open too; it then
 * does nothing.
 */
void bridge_close(struct dpdk_bridge *bridge);

/* Fills DPDK_POLLED entries, and lowers *timeout_ms to the time until the next turn. */
void bridge_poll(const struct dpdk_bridge *bridge, struct pollfd *out, int *timeout_ms);

/* Handles the ready descriptors of `polled`, and the work that is due. */
void bridge_turn(struct dpdk_bridge *bridge, const struct pollfd *polled);

#endif
