/*
 * tcp_zerocopy.h - zero-copy sends of the tcp lane. A record of each is kept until the kernel has
 * let go of its memory.
 */
#ifndef TWI_TCP_ZEROCOPY_H
#define TWI_TCP_ZEROCOPY_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/counter.h"
#include "diag/record/site.h"
#include "transport/op/lane_host.h"
#include "transport/stream/session.h"

#define TWI_ZC_RECORDS 1024u

struct twi_tcp_lane;
struct twi_tcp_peer;
struct twi_tcp_stream;

/* Payload in a plain send that would have gone by zero-copy if it were registered. */
struct twi_tcp_missed {
	enum twi_reason reason;
	uint64_t ahead, bytes; /* of the send: bytes before the payload, and the payload */
	struct twi_site site;
};

/* A zero-copy send whose notification has not come: the lease of its memory. */
struct twi_tcp_zc {
	struct twi_claim claim;
	uint64_t sent_ns; /* when the first completion came; 0: not yet */
	uint64_t bytes;
	uint64_t end;     /* the stream's tx_bytes behind it */
	uint64_t gone_ns; /* when the stream was found closed; 0: not yet */
	uint64_t peer_id;
	uint32_t slot; /* of the stream */
	uint16_t generation;
	uint8_t ring; /* only its thread can fetch the notification */
	bool used;
	bool released; /* the peer's TCP has it all: the lease is dropped */
	uint32_t next_free;
};

/*
 * tcp_zerocopy.c.
 *
 * wants: does the payload of `out` go by zero-copy send, in one piece of a registered buffer? Then
 * *slot_out is the buffer's slot, and the payload is cut at the buffer's end. A payload that would
 * go so if it were registered is noted in the stream.
 *
 * missed: `bytes` of the noted send are out, and the kernel's copy is counted with its reason.
 *
 * go: sends parts[0] by zero-copy; false: it cannot be done now.
 */
bool twi_tcp_zerocopy_wants(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			    struct twi_bulk_out *out, int *slot_out);
void twi_tcp_zerocopy_missed(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			     uint64_t bytes);
bool twi_tcp_zerocopy_go(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			 const struct twi_bulk_out *out, int slot);
void twi_tcp_zerocopy_sent(struct twi_tcp_lane *lane, uint32_t index, int res, uint32_t flags);
/*
 * holds: may the kernel still read [memory, memory + bytes)? memory NULL: anything that `stream`
 * (NULL: any) was given. Until the peer has acknowledged it, the kernel may send it again, and then
 * reads it.
 *
 * recall: ends the connections that may still read op's payload. Their bytes are dropped, so that
 * later writes to the memory are not sent. Waits a millisecond at most.
 *
 * cut: must be called before `stream` is closed.
 */
bool twi_tcp_zerocopy_holds(const struct twi_tcp_lane *lane, const struct twi_tcp_stream *stream,
			    const void *memory, uint64_t bytes);
void twi_tcp_zerocopy_recall(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer,
			     const struct tow_op *op);
void twi_tcp_zerocopy_cut(const struct twi_tcp_lane *lane, const struct twi_tcp_stream *stream);
/*
 * ask: for sends of threads that do not drive, finds which are acknowledged, and drops their
 * leases. Returns when to call it next; UINT64_MAX: when another thread drives. ask_later: another
 * thread drives from now on.
 */
uint64_t twi_tcp_zerocopy_ask(struct twi_tcp_lane *lane, uint64_t now_ns);
void twi_tcp_zerocopy_ask_later(struct twi_tcp_lane *lane, uint64_t now_ns);
/* The ring is given up: its notifications will never be seen. */
void twi_tcp_zerocopy_ring_gone(struct twi_tcp_lane *lane, unsigned ring);

#endif
