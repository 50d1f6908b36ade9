/*
 * tcp_seal.h - encrypted streams: between the session and the socket there is a staging buffer of
 * sealed records each way. tcp_seal.c draws it.
 */
#ifndef TWI_TCP_SEAL_H
#define TWI_TCP_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "transport/security/auth.h"

struct twi_tcp_lane;
struct twi_tcp_seal;
struct twi_tcp_stream;

/* Of an exchange that is done and encrypts. TOW_OK, TOW_ENOMEM. */
int twi_tcp_seal_create(struct twi_tcp_stream *stream, struct twi_auth *auth);
/* NULL: does nothing. */
void twi_tcp_seal_destroy(struct twi_tcp_seal *seal);

/* The words of the handshake, one record each. */
size_t twi_tcp_seal_hello(struct twi_tcp_seal *seal, uint8_t *out, const uint8_t *plain,
			  size_t bytes);
int twi_tcp_open_hello(struct twi_tcp_seal *seal, uint8_t *plain_out, const uint8_t *sealed,
		       size_t bytes, size_t *plain_bytes_out);

/* What to send next; false: nothing. sent: so much of it is out. */
bool twi_tcp_seal_out(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, struct iovec *out);
void twi_tcp_seal_sent(struct twi_tcp_stream *stream, size_t bytes);

/* Where to receive. False: what came before must go first, when control has brought its offer. */
bool twi_tcp_seal_room(struct twi_tcp_stream *stream, struct iovec *out);
/* `bytes` have come there (0: only try what was held): opens and hands on. */
int twi_tcp_seal_in(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, size_t bytes);

#endif
