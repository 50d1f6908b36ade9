/*
 * exchange.h - how two processes are timed that exchange messages by whatever sends and receives.
 *
 * The client drives: it sends an order, then both do what the order says. At the end of a stream,
 * and not before, the server answers with the CPU time that the stream took it.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <stddef.h>

/* Both return when the message is sent, or is here; they end the program where they cannot. */
struct exchange {
	void (*send)(const void *data, size_t bytes);
	void (*receive)(void *data, size_t bytes);
};

/* Messages up to this are copied where a peer gives or wants memory of its own. */
#define EXCHANGE_COPIED 4096u

void exchange_serve(const struct exchange *by);
void exchange_drive(const struct exchange *by);

#endif
