/*
 * raw.h - the speed of this machine without a library: plain sockets, and a plain ring in shared
 * memory.
 */
#ifndef RAW_H
#define RAW_H

#include <stdbool.h>

#include "bench/peers/programs/exchange.h"

/*
 * Waits for a client, or connects, at tcp:ADDRESS:PORT or unix:PATH. One connection for each
 * process.
 */
void raw_socket_open(bool server, const char *url);

extern const struct exchange raw_socket;

/*
 * Runs a client here and a server in a child, which spin on a ring each way. Returns the exit
 * status.
 */
int raw_ring_run(int count, char *const *ops);

#endif
