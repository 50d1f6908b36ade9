/*
 * packet.h - the codec of the ofi lane's packets, and the rules for each type of packet. Pure.
 *
 * One message of libfabric is one packet: a header of 48 little-endian bytes and a payload.
 *
 *	     0      1      2      3      4                           8
 *	     +------+------+------+------+---------------------------+
 *	   0 | type | flags| channel     | payload_bytes             |
 *	     +------+------+------+------+---------------------------+
 *	   8 | session: the number under which its receiver knows us |
 *	     +---------------------------+---------------------------+
 *	  16 | number                    | checksum                  |
 *	     +---------------------------+---------------------------+
 *	  24 | seq                                                   |
 *	  32 | tag                                                   |
 *	  40 | value                                                 |
 *	     +-------------------------------------------------------+
 *
 * flags: bits 0 and 1 are the space of the tag, bit 2 says that there is a checksum, as in a frame
 * (frame.h). number counts a peer's packets from 0: providers deliver in order, but some report
 * completions out of order. docs/ofi.md says the same in prose.
 *
 * Invariant: a header that twi_ofi_packet_get accepts is canonical. The fields of its type are in
 * bounds, and all others are zero. The lane checks what depends on earlier packets.
 */
#ifndef TWI_OFI_PACKET_H
#define TWI_OFI_PACKET_H

#include <stddef.h>
#include <stdint.h>

#include "transport/lanes/ofi/address.h"

#define TWI_OFI_HEAD_BYTES  48
#define TWI_OFI_AUTH_HEAD   24
#define TWI_OFI_HELLO_BYTES 32
#define TWI_OFI_OFFER_BYTES 48
#define TWI_OFI_VERSION     2u /* the major version, sent in AUTH */
#define TWI_OFI_MINOR       0u
#define TWI_OFI_MAGIC       0x0002004946574f54ull /* "TOWFI", 0, and the version */
#define TWI_OFI_PAYLOAD_MIN 1024u                 /* every receiver takes packets of this payload */
#define TWI_OFI_PAYLOAD_MAX (1u << 20)
#define TWI_OFI_AUTH_MAX    256u /* bytes of authentication in one packet */

enum twi_ofi_type {
	TWI_OFI_AUTH = 1, /* value = magic; payload: who sends it, and a step of authentication */
	TWI_OFI_HELLO,    /* payload: bounds */
	TWI_OFI_EAGER, /* a small message: seq, tag, space, payload; value = its bytes, or 0: all */
	TWI_OFI_MORE,  /* the rest of the small message just begun: value = its offset */
	TWI_OFI_RTS,   /* a large message is ready: value = its bytes; payload: its address */
	TWI_OFI_CTS,   /* send message seq: value = enum twi_ofi_way, tag = the tag to use */
	TWI_OFI_FRAG,  /* a piece of message seq: value = its offset */
	TWI_OFI_DONE,  /* message seq has arrived completely */
	TWI_OFI_ACK,   /* seq = highest received, tag = credit returned, value = hold_ns */
	TWI_OFI_CANCEL, /* the sender withdraws message seq: value = enum twi_ofi_cancel */
	TWI_OFI_REFUSE, /* the receiver refuses it: value = enum twi_ofi_refusal */
	TWI_OFI_PING,   /* answer with PONG */
	TWI_OFI_PONG,
	TWI_OFI_BYE, /* the last packet: value = minus the status that says why */
	TWI_OFI_TYPE_END
};

#define TWI_OFI_CHECKSUM 1u /* flag: `checksum` is the crc32c of the message's payload */

/* How a large message travels. */
enum twi_ofi_way {
	TWI_OFI_READ = 1, /* its receiver reads it */
	TWI_OFI_TAGGED,   /* a send with the receiver's tag, into the posted buffer */
	TWI_OFI_FRAGS,    /* in pieces, through both sides' packets */
	TWI_OFI_WAY_END
};

/* Why and how a message is withdrawn. Except after FAULT, the receive waits for another message. */
enum twi_ofi_cancel {
	TWI_OFI_CANCEL_WISHED = 0,
	TWI_OFI_CANCEL_FAULT = 1, /* its memory cannot be read: the receive ends */
	TWI_OFI_CANCEL_ASKS = 2,  /* wished; REFUSE answers it after the last read (ofi_settles) */
	TWI_OFI_CANCEL_END
};

enum twi_ofi_refusal {
	TWI_OFI_REFUSE_TRUNCATED = 1,
	TWI_OFI_REFUSE_CANCELED,
	TWI_OFI_REFUSE_CORRUPT,
	TWI_OFI_REFUSE_FAULT, /* the memory of the receive cannot be written */
	TWI_OFI_REFUSE_END
};

struct twi_ofi_packet {
	uint8_t type, space, flags;
	uint16_t channel; /* of messages; 0: the peer itself */
	uint32_t payload_bytes;
	uint64_t session;
	uint32_t number, checksum;
	uint64_t seq, tag, value;
};

/* Payload of AUTH: from, the sender's libfabric address, and a step of authentication. */
struct twi_ofi_auth {
	uint64_t from; /* the session number that the other side uses from now on */
	uint16_t name_bytes, auth_bytes;
	const uint8_t *name, *auth; /* pointers into the packet */
};

/* Payload of HELLO. */
struct twi_ofi_hello {
	uint32_t payload_max_bytes; /* the largest payload that it accepts in a packet */
	uint64_t credit_bytes;
	uint64_t features; /* a word of feature.h */
	uint16_t minor;    /* of this lane's version; put writes our own */
};

/* Payload of RTS: where the message is, and the cell whose value says that the offer stands. */
struct twi_ofi_where {
	uint64_t address, key;
	uint64_t cell_address, cell_key, cell; /* the cell holds `cell` while the offer stands */
	bool read, tagged;                     /* the paths that it can take */
};

/* Writes a header; the fields are our own and are not checked. */
void twi_ofi_packet_put(uint8_t *out, const struct twi_ofi_packet *packet);

/*
 * Reads and checks `bytes` of a packet. Returns TOW_OK, or TOW_EPROTOCOL with a static text in
 * *fault_out and *out untouched.
 */
int twi_ofi_packet_get(const uint8_t *in, size_t bytes, uint32_t payload_max_bytes,
		       struct twi_ofi_packet *out, const char **fault_out);

/* Payloads. A get reads an accepted packet of its type. A put returns the bytes written. */
size_t twi_ofi_auth_put(uint8_t *out, uint64_t from, const struct twi_ofi_name *name,
			const uint8_t *auth, size_t auth_bytes);
int twi_ofi_auth_get(const uint8_t *in, size_t bytes, struct twi_ofi_auth *out);
void twi_ofi_hello_put(uint8_t *out, const struct twi_ofi_hello *hello);
int twi_ofi_hello_get(const uint8_t *in, struct twi_ofi_hello *out);
void twi_ofi_where_put(uint8_t *out, const struct twi_ofi_where *where);
int twi_ofi_where_get(const uint8_t *in, uint64_t bytes, struct twi_ofi_where *out);

#endif
