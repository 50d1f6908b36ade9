/*
 * nng.c - nng: a pair of PAIR0 sockets.
 *
 *	peer-nng server|client tcp://ADDRESS:PORT|ipc://PATH [OP...]
 *
 * nng sends memory of its own, so each message is copied into it. A large message is read in place.
 */
#include <nng/nng.h>
#include <nng/protocol/pair0/pair.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/peers/programs/exchange.h"
#include "bench/peers/programs/peer.h"

#define DIAL_TRIES 200
#define PAUSE_US   20000

static nng_socket pair;

static void must_succeed(int result, const char *what)
{
	if (result != 0)
		peer_end(1, "%s: %s", what, nng_strerror(result));
}

static void pair_send(const void *data, size_t bytes)
{
	nng_msg *message;

	must_succeed(nng_msg_alloc(&message, bytes), "nng_msg_alloc");
	memcpy(nng_msg_body(message), data, bytes);
	must_succeed(nng_sendmsg(pair, message, 0), "nng_sendmsg");
}

static void pair_receive(void *data, size_t bytes)
{
	nng_msg *message;

	must_succeed(nng_recvmsg(pair, &message, 0), "nng_recvmsg");
	if (nng_msg_len(message) != bytes)
		peer_end(1, "a message has %zu bytes, not %zu", nng_msg_len(message), bytes);
	if (bytes <= EXCHANGE_COPIED)
		memcpy(data, nng_msg_body(message), bytes);
	nng_msg_free(message);
}

static void dial_server(const char *url)
{
	int result = nng_dial(pair, url, NULL, 0);

	for (int tries = 1; result == NNG_ECONNREFUSED && tries < DIAL_TRIES; tries++) {
		usleep(PAUSE_US);
		result = nng_dial(pair, url, NULL, 0);
	}
	must_succeed(result, url);
}

int main(int argc, char **argv)
{
	static const struct exchange by = { pair_send, pair_receive };
	bool server = argc == 3 && strcmp(argv[1], "server") == 0;

	if (!server && (argc < 3 || strcmp(argv[1], "client") != 0)) {
		fprintf(stderr, "usage: peer-nng server URL | client URL [OP...]\n");
		return 2;
	}
	peer_begin(server ? 1 : 0, argc - 3, argv + 3, 0);
	must_succeed(nng_pair0_open(&pair), "nng_pair0_open");
	must_succeed(nng_socket_set_size(pair, NNG_OPT_RECVMAXSZ, 0), "NNG_OPT_RECVMAXSZ");
	if (server)
		must_succeed(nng_listen(pair, argv[2], NULL, 0), argv[2]);
	else
		dial_server(argv[2]);
	if (server)
		exchange_serve(&by);
	else
		exchange_drive(&by);
	usleep(5 * PAUSE_US); /* nng_close drops what it has not sent yet */
	nng_close(pair);
	return 0;
}
