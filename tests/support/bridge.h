/*
 * bridge.h - stands between a browser and a server on the loopback address, and keeps what was
 * asked. Include after twt.h.
 */
#ifndef TWT_BRIDGE_H
#define TWT_BRIDGE_H

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TWT_BRIDGE_PIPES 16
#define TWT_BRIDGE_ASKED (256u << 10)

struct twt_bridge {
	struct sockaddr_in to;
	int fd;
	unsigned port;
	atomic_bool stop;
	pthread_t thread;
	struct {
		int near, far; /* -1, -1: free */
	} pipes[TWT_BRIDGE_PIPES];
	size_t asked;
	char text[TWT_BRIDGE_ASKED]; /* what browsers sent, one after the other */
};

/* to: 127.0.0.1:PORT */
void twt_bridge_open(struct twt_bridge *b, const char *to);

void twt_bridge_close(struct twt_bridge *b);

#endif
