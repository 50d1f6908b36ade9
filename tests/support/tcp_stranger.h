/*
 * tcp_stranger.h - a connection to an endpoint of the tcp lane that speaks the handshake by hand.
 */
#ifndef TWT_TCP_STRANGER_H
#define TWT_TCP_STRANGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <towline/towline.h>

/* tcp://127.0.0.1:PORT; the descriptor. */
int twt_stranger_connect(const char *address);

/* Goes through the proofs of a job without a key, while `runtime` is driven. */
void twt_stranger_prove(int fd, struct tow_runtime *runtime);

void twt_stranger_say(int fd, const void *data, size_t bytes);

/* Drives `runtime` until it ends the connection; false when it does not within 5 s. */
bool twt_stranger_ended(int fd, struct tow_runtime *runtime);

#endif
