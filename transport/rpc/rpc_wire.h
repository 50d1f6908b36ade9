/*
 * rpc_wire.h - the header of the messages of calls. Pure. All numbers are little-endian.
 *
 * All messages of calls are *payload descriptors*: a header and, inline behind it, a body of up to
 * the inline limit. They are sent to the peer's inbox (tag 0 of TWI_SPACE_RPC). A larger body is a
 * message of its own, with the tag that the header names.
 *
 *	offset  0      1       2             4                           8
 *	        +------+-------+-------------+---------------------------+
 *	     0  | type | flags | unread u16  | inline_bytes          u32 |
 *	        +------+-------+-------------+---------------------------+
 *	     8  | id of the call                                     u64 |
 *	    16  | REQUEST: method hash. RESPONSE: status i32, code i32   |
 *	    24  | bytes of the body                                 u64 |
 *	    32  | tag of the body; 0: it is inline                   u64 |
 *	    40  | a                                                  u64 |
 *	    48  | b                                                  u64 |
 *	    56  | c                                                  u64 |
 *	        +-------------------------------------------------------+
 *
 *	type       says                       a               b         c
 *	REQUEST    serve this                 remaining_ns    -         -
 *	RESPONSE   so it went                 arrived (clock) match_ns  serve_ns
 *	CHUNK      a piece of a stream        -               -         -
 *	WINDOW     so many pieces were taken  count           -         -
 *	CANCEL     client: it is of no use    -               -         -
 *	GIVE_UP    server: no answer comes    -               -         -
 *
 * unread: in a RESPONSE with the feature `call_unread`, how long the request lay unread at the
 * server. This is an upper bound, as a float of 16 bits (see below). Else it is 0.
 *
 * The client chooses an id, and never uses it again on one connection. In CHUNK and WINDOW,
 * TO_SERVER tells which side chose the id.
 */
#ifndef TWI_RPC_WIRE_H
#define TWI_RPC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <towline/rpc.h>

#define TWI_RPC_HEAD_BYTES 64u
#define TWI_RPC_BODY_MAX   (UINT64_MAX >> 1)

enum twi_rpc_type {
	TWI_RPC_REQUEST = 1,
	TWI_RPC_RESPONSE,
	TWI_RPC_CHUNK,
	TWI_RPC_WINDOW,
	TWI_RPC_CANCEL,
	TWI_RPC_GIVE_UP,
};

#define TWI_RPC_STREAM    1u /* REQUEST: the call has a stream */
#define TWI_RPC_END       2u /* CHUNK: the last one of its direction; it is empty */
#define TWI_RPC_TO_SERVER 4u /* CHUNK, WINDOW: from the client */

struct twi_rpc_head {
	uint8_t type, flags;
	uint32_t inline_bytes;
	uint64_t id;
	uint64_t method;
	int32_t status, code;
	uint64_t bytes;
	uint64_t tag;
	uint64_t a, b, c;
	uint16_t unread; /* twi_rpc_unread_put */
};

void twi_rpc_head_put(uint8_t out[TWI_RPC_HEAD_BYTES], const struct twi_rpc_head *head);

/*
 * Codes a time as an unsigned float of 16 bits: 5 bits of exponent, 11 of fraction. A leading bit
 * of 1 is not written where the exponent is above 0 (the UFloat16 that early QUIC had for the delay
 * of acknowledgements). The value is rounded down, by less than 1/2048 of it; 4.39e12 ns at most.
 */
uint16_t twi_rpc_unread_put(uint64_t ns);
uint64_t twi_rpc_unread_get(uint16_t coded);

/*
 * Reads the header of a message of `bytes` bytes. Returns NULL, or what is wrong with it. A good
 * header has a known type, only the flags of its type, and as inline_bytes the bytes that follow
 * it.
 */
const char *twi_rpc_head_get(const uint8_t *in, uint64_t bytes, struct twi_rpc_head *out);

/* Hash of a method's name: FNV-1a. Never 0. */
uint64_t twi_rpc_hash(const char *name);

/* Copies a method's name for a call's record; cuts off what does not fit. */
void twi_rpc_name_set(char out[TOW_METHOD_NAME_MAX], const char *name);

#endif
