/*
 * proxy.h - a TCP proxy on a thread of the test, which can break what goes through it.
 *
 *	connector --- twt_proxy.address ---> [proxy] ---> the real address
 *
 *	twt_proxy_cut(&p, n)       resets the n-th connection that came (TWT_PROXY_ALL: all), both
 *	                           ends
 *	twt_proxy_end(&p, n)       ends it in order, both ends, and drops what is in between
 *	twt_proxy_stall(&p, true)  nothing is taken or given any more, connections stay: a black
 *	                           hole. false: it heals, and TCP brings what was held up
 *	twt_proxy_bytes(&p, n)     how many bytes have gone through the n-th connection
 *
 * Connections are counted in the order in which they came, from 0, for ever. IPv4 and loopback.
 */
#ifndef TWT_PROXY_H
#define TWT_PROXY_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define TWT_PROXY_PAIRS 64
#define TWT_PROXY_ALL   (-1)
#define TWT_PROXY_BUF   (256 << 10)

/* One direction: what was read from `from` and not yet written to `to`. */
struct twt_proxy_way {
	size_t head, tail;
	bool ended; /* no more comes */
	bool told;  /* and the other end knows */
	bool drops; /* what comes is read, and goes nowhere */
	uint8_t *data;
};

struct twt_proxy_pair {
	int fds[2]; /* -1: free. [0] the one that came, [1] ours */
	int number;
	struct twt_proxy_way ways[2]; /* [i]: from fds[i] to the other */
};

struct twt_proxy {
	char address[64]; /* tcp://127.0.0.1:PORT */
	int listen_fd, wake_fd;
	struct sockaddr_in to;
	pthread_t thread;
	pthread_mutex_t lock;
	void (*tap)(uint8_t *at, size_t bytes); /* sees, and may change, all that goes through */
	_Atomic bool stop, stalled;
	_Atomic size_t
		largest; /* who brings more at once is reset, and none of it goes on; 0: none */
	_Atomic int came;
	_Atomic uint64_t bytes[1024];
	struct twt_proxy_pair pairs[TWT_PROXY_PAIRS];
};

/* `to`: tcp://127.0.0.1:PORT; tap: may be NULL. Aborts when it cannot be made. */
void twt_proxy_open(struct twt_proxy *p, const char *to, void (*tap)(uint8_t *at, size_t bytes));

/* Resets a connection. False: there is none of that number any more (or yet). */
bool twt_proxy_cut(struct twt_proxy *p, int number);

/* The same with an end of each stream, as a proxy does that is shut down. */
bool twt_proxy_end(struct twt_proxy *p, int number);

void twt_proxy_stall(struct twt_proxy *p, bool stalled);

uint64_t twt_proxy_bytes(struct twt_proxy *p, int number);

void twt_proxy_close(struct twt_proxy *p);

#endif
