/*
 * tcp_seal.h - encrypted streams: each direction has a staging buffer of sealed records between the
 * session and the socket. tcp_seal.c draws them.
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

/* For an exchange that has ended and encrypts. TOW_OK, TOW_ENOMEM. */
int twi_tcp_seal_create(struct twi_tcp_stream *stream, struct twi_auth *auth);
/* NULL: does nothing. */
void twi_tcp_seal_destroy(struct twi_tcp_seal *seal);

/* The HELLO and tail of the handshake, one record for each side. */
size_t twi_tcp_seal_hello(struct twi_tcp_seal *seal, uint8_t *out, const uint8_t *plain,
			  size_t bytes);
int twi_tcp_open_hello(struct twi_tcp_seal *seal, uint8_t *plain_out, const uint8_t *sealed,
		       size_t bytes, size_t *plain_bytes_out);

/* out: what to send next; false: nothing. sent: so many bytes are out. */
bool twi_tcp_seal_out(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, struct iovec *out);
void twi_tcp_seal_sent(struct twi_tcp_stream *stream, size_t bytes);

/*
 * Where to receive. False: earlier bytes must be taken first, once control has brought their offer.
 */
bool twi_tcp_seal_room(struct twi_tcp_stream *stream, struct iovec *out);
/* `bytes` have come there (0: only try bytes that were held): opens them for the session. */
int twi_tcp_seal_in(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, size_t bytes);

#endif
