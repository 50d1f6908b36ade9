/*
 * zmq.c - ZeroMQ: a pair of PAIR sockets with one thread for I/O.
 *
 *	peer-zmq server|client tcp://ADDRESS:PORT|ipc://PATH [OP...]
 *
 * A large message is sent from the caller's memory, and read in ZeroMQ's memory.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "bench/peers/programs/exchange.h"
#include "bench/peers/programs/peer.h"

static void *pair;

static void must_succeed(int result, const char *what)
{
	if (result < 0)
		peer_end(1, "%s: %s", what, zmq_strerror(zmq_errno()));
}

/* ZeroMQ calls this when it no longer needs the memory, which stays the caller's. */
static void keep_memory(void *data, void *hint)
{
	(void)data;
	(void)hint;
}

static void pair_send(const void *data, size_t bytes)
{
	zmq_msg_t message;

	if (bytes <= EXCHANGE_COPIED) {
		must_succeed(zmq_send(pair, data, bytes, 0), "zmq_send");
		return;
	}
	must_succeed(zmq_msg_init_data(&message, (void *)(uintptr_t)data, bytes, keep_memory, NULL),
		     "zmq_msg_init_data");
	must_succeed(zmq_msg_send(&message, pair, 0), "zmq_msg_send");
}

static void pair_receive(void *data, size_t bytes)
{
	zmq_msg_t message;

	must_succeed(zmq_msg_init(&message), "zmq_msg_init");
	must_succeed(zmq_msg_recv(&message, pair, 0), "zmq_msg_recv");
	if (zmq_msg_size(&message) != bytes)
		peer_end(1, "a message has %zu bytes, not %zu", zmq_msg_size(&message), bytes);
	if (bytes <= EXCHANGE_COPIED)
		memcpy(data, zmq_msg_data(&message), bytes);
	zmq_msg_close(&message);
}

int main(int argc, char **argv)
{
	static const struct exchange by = { pair_send, pair_receive };
	bool server = argc == 3 && strcmp(argv[1], "server") == 0;
	void *context;

	if (!server && (argc < 3 || strcmp(argv[1], "client") != 0)) {
		fprintf(stderr, "usage: peer-zmq server URL | client URL [OP...]\n");
		return 2;
	}
	peer_begin(server ? 1 : 0, argc - 3, argv + 3, 0);
	context = zmq_ctx_new();
	pair = context != NULL ? zmq_socket(context, ZMQ_PAIR) : NULL;
	must_succeed(pair != NULL ? 0 : -1, "zmq_socket");
	must_succeed(server ? zmq_bind(pair, argv[2]) : zmq_connect(pair, argv[2]), argv[2]);
	if (server)
		exchange_serve(&by);
	else
		exchange_drive(&by);
	zmq_close(pair);
	zmq_ctx_term(context);
	return 0;
}
