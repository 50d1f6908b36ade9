/*
 * store_port.h - a port of loopback for a job's store, that nobody else gets while the test runs.
 */
#ifndef TWT_STORE_PORT_H
#define TWT_STORE_PORT_H

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

/*
 * Bound without listening: who listens there later has to allow its address's reuse, as the store
 * does. Returns the socket; the port is kept until it is closed.
 */
int twt_store_port(char *text, size_t room);

#endif
