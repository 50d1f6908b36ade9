/*
 * exchange.h - times two processes that exchange messages through any pair of send and receive.
 *
 * The client drives: it sends an order, and both sides do it. Only at the end of a stream does the
 * server answer, with the CPU time that the stream took there.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <stddef.h>

/* Both return when the message is sent or received. They end the program on an error. */
struct exchange {
	void (*send)(const void *data, size_t bytes);
	void (*receive)(void *data, size_t bytes);
};

/* Messages up to this size are copied where a peer has memory of its own. */
#define EXCHANGE_COPIED 4096u

void exchange_serve(const struct exchange *by);
void exchange_drive(const struct exchange *by);

#endif
