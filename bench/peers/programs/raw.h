/*
 * raw.h - what this machine gives without a library: bare sockets, a bare ring in shared memory.
 */
#ifndef RAW_H
#define RAW_H

#include <stdbool.h>

#include "bench/peers/programs/exchange.h"

/* tcp:ADDRESS:PORT or unix:PATH: waits for a client, or connects. One connection a process. */
void raw_socket_open(bool server, const char *url);

extern const struct exchange raw_socket;

/* A client here and a server in a child: they spin on a ring each way. Returns the exit status. */
int raw_ring_run(int count, char *const *ops);

#endif
