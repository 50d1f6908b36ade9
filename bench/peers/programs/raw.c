/*
 * raw.c - the speed of this machine without a library, which no library can exceed:
 *
 *	peer-raw shm [OP...]             two processes that spin on shared memory
 *	peer-raw server ADDRESS          two processes over a socket, tcp:IPV4:PORT or unix:PATH;
 *	peer-raw client ADDRESS [OP...]  they sleep in recv, or spin with RAW_SPIN=1
 *
 * OP is one of lat, bw, bw_spread, rate.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "bench/peers/programs/exchange.h"
#include "bench/peers/programs/peer.h"
#include "bench/peers/programs/raw.h"

int main(int argc, char **argv)
{
	bool server = argc == 3 && strcmp(argv[1], "server") == 0;

	if (argc >= 2 && strcmp(argv[1], "shm") == 0)
		return raw_ring_run(argc - 2, argv + 2);
	if (!server && (argc < 3 || strcmp(argv[1], "client") != 0)) {
		fprintf(stderr,
			"usage: peer-raw shm [OP...] | server ADDRESS | client ADDRESS [OP...]\n");
		return 2;
	}
	peer_begin(server ? 1 : 0, argc - 3, argv + 3, 0);
	raw_socket_open(server, argv[2]);
	if (server)
		exchange_serve(&raw_socket);
	else
		exchange_drive(&raw_socket);
	return 0;
}
